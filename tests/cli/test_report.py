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


def test_an_updated_run_has_no_report_of_its_own(tmp_path, monkeypatch, capsys):
    made = accord.fit(small_data(), "ease", options={"model.l2": 20})
    new = made.trained_on.table.select(["user", "item"]).slice(0, 1).set_column(0, "user", pa.array(["new"]))
    made.update(new).save(tmp_path / "run")
    code, _, err = run(monkeypatch, capsys, "report", str(tmp_path / "run"))
    assert code == 2
    assert "an updated run has no test of its own; evaluate the run that it was before" in err
    assert not (tmp_path / "run" / "report.html").exists()


@pytest.mark.parametrize("given", ["twice", "folder"])
def test_mistakes_are_one_sentence(folders, monkeypatch, capsys, given):
    words = [folders[0], folders[0]] if given == "twice" else [folders[0], "-o", folders[0]]
    code, _, err = run(monkeypatch, capsys, "report", *map(str, words))
    assert code == 2
    assert ("was given twice" if given == "twice" else "is a folder; name a file in it") in err
