"""`accord report` as a user runs it; tests/report looks at the page itself."""

from __future__ import annotations

import pyarrow as pa
import pytest

import accord
from commands import run
from helpers import small_data


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    root = tmp_path_factory.mktemp("reports")
    for model in ("popularity", "ease"):
        accord.fit(small_data(), model, out=root / model)
    return [root / "popularity", root / "ease"]


def test_the_report_of_one_run_lies_in_its_folder(folders, monkeypatch, capsys):
    code, _, err = run(monkeypatch, capsys, "report", str(folders[0]))
    assert (code, err) == (0, f"report: {folders[0]}/report.html\n")
    assert (folders[0] / "report.html").exists()


def test_the_report_of_several_runs_lies_above_them(folders, monkeypatch, capsys):
    code, _, err = run(monkeypatch, capsys, "report", *map(str, folders))
    assert (code, err) == (0, f"report: {folders[0].parent}/report.html\n")


def test_the_report_of_an_updated_run_says_what_is_of_before(folders, tmp_path, monkeypatch, capsys):
    made = accord.fit(small_data(), "consensus", options={"model.members": [{"model": "ease"}, {"model": "item-knn"}]})
    some = made.trained_on.table.select(["user", "item"])
    new = some.slice(0, 5).set_column(0, "user", pa.array([f"new{n}" for n in range(5)]))
    made.update(new).update(new.slice(0, 1)).save(tmp_path / "run")
    code, _, err = run(monkeypatch, capsys, "report", str(tmp_path / "run"))
    assert code == 0, err
    text = (tmp_path / "run/report.html").read_text()
    assert "updated 2 times, with 6 interactions: all metrics on this page are from before" in text
    assert f"of a model trained on {len(some):,}." in text
    assert f"{made.metrics['mean']['ndcg@20']:.4f}" in text
    assert "Items that consensus recommends most" in text
    assert "against popularity" not in text
    code, _, err = run(monkeypatch, capsys, "report", str(tmp_path / "run"), str(folders[0]))
    assert (code, "an updated run has no test to compare runs on; give it alone" in err) == (2, True)


@pytest.mark.parametrize("given", ["twice", "folder"])
def test_mistakes_are_one_sentence(folders, monkeypatch, capsys, given):
    words = [folders[0], folders[0]] if given == "twice" else [folders[0], "-o", folders[0]]
    code, _, err = run(monkeypatch, capsys, "report", *map(str, words))
    assert code == 2
    assert ("was given twice" if given == "twice" else "is a folder; name a file in it") in err
