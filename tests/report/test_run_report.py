"""The report of runs: its figures are the runs', it stands alone, and a real browser shows it from disk."""

from __future__ import annotations

import errno
import json
import re
from dataclasses import replace
from html import unescape

import pyarrow as pa
import pytest

import accord
from accord.cli.app import main
from accord.evaluation.significance import compare_to
from accord.report.run_report import write_report
from accord.report.runs import fit_baseline
from browser import chromium, opened
from documents import BLOCK, ROOT
from helpers import dataset


@pytest.fixture(scope="module")
def pages(trained, tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    one = write_report(folder / "one.html", [trained["mf-deca-p"]])
    return {"one": one, "several": write_report(folder / "several.html", list(trained.values()))}


def text_of(path) -> str:
    """What is read on the page, without scripts and marks."""
    html = re.sub(r"<(script|style).*?</\1>", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", html)).split())


def test_the_figures_of_one_run_are_its_own(pages, trained, data):
    text = text_of(pages["one"])
    folder, run = trained["mf-deca-p"]
    assert text.startswith("mf + deca-p on demo")
    means = [f"{run.metrics['mean'][f'{name}@{k}']:.4f}" for k in (10, 20) for name in ("recall", "ndcg")]
    assert f"mf + deca-p {' '.join(means)} {run.metrics['std']['ndcg@20']:.4f}" in text
    popular = accord.fit(data, "popularity").metrics
    assert f"popularity {popular['mean']['recall@20']:.4f}" in text
    assert f"accord report {folder}" in text
    assert f"accord train DATA --recipe {folder}" in text
    assert "train.batch_size 64" in text
    assert "Items that mf + deca-p recommends most" in text


def test_a_report_from_the_folder_is_the_one_from_training(pages, trained, tmp_path):
    folder, _ = trained["mf-deca-p"]
    again = write_report(tmp_path / "again.html", [(folder, accord.Recommender.load(folder))])
    assert again.read_text() == pages["one"].read_text()


def test_several_runs_are_tested_in_pairs(pages, trained):
    text = text_of(pages["several"])
    runs = {name: run.evaluate().per_user["ndcg@20"] for name, (_, run) in trained.items()}
    popular = fit_baseline("popularity", trained["mf-normal"][1], [20]).evaluation.per_user["ndcg@20"]
    others = {"mf + deca-p": runs["mf-deca-p"], "ease": runs["ease-normal"], "popularity": popular}
    assert "ndcg@20 against mf + normal" in text
    for name, test in compare_to(runs["mf-normal"], others).items():
        said = f"{test.difference:+.4f} {test.low:+.4f} to {test.high:+.4f}".replace("-", "−")
        assert re.search(rf" {re.escape(name)}( 0\.\d{{4}})+ {re.escape(said)}", text)


def test_runs_of_different_data_are_not_compared(trained, tmp_path):
    other = accord.fit(accord.simulate(users=90, items=50, interactions=900, seed=4).dataset, "mf", "normal", epochs=1)
    folder, run = trained["mf-normal"]
    with pytest.raises(accord.InputError, match=f"elsewhere has other data or another test than {folder}, so they"):
        write_report(tmp_path / "both.html", [(folder, run), ("elsewhere", other)])


def test_data_without_values_and_titles_has_a_report(tmp_path):
    made = accord.simulate(users=60, items=40, interactions=700, seed=1, liked=0.4).dataset
    train = accord.Interactions(made.train.table.select(["user", "item"]))
    run = accord.fit(replace(made, train=train), "mf", "normal", epochs=1, ks=[3, 7])
    text = text_of(write_report(tmp_path / "plain.html", [("runs/x", run)]))
    assert re.search("ndcg@7 against (popularity|ease)", text)


def test_one_user_in_the_test_and_one_run_of_popularity_have_a_report(tmp_path):
    tiny = dataset(3, 4, [(0, 0), (1, 1), (2, 2)], test=[(0, 1)])
    for model in ("mf", "popularity"):
        run = accord.fit(tiny, model, "normal", epochs=1)
        text = text_of(write_report(tmp_path / "tiny.html", [("runs/x", run)]))
        assert "evaluated on 1 held-out pairs of 1 users" in text
        assert " against popularity" not in text


# --- the command


def command(monkeypatch, capsys, *words):
    monkeypatch.setattr("sys.argv", ["accord", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    return ended.value.code, capsys.readouterr().err


def test_the_command_writes_where_it_says(trained, tmp_path, monkeypatch, capsys):
    folders = [folder for folder, _ in trained.values()]
    code, said = command(monkeypatch, capsys, "report", folders[0])
    assert (code, said) == (0, f"report: {folders[0]}/report.html\n")
    code, said = command(monkeypatch, capsys, "report", *folders, "-o", str(tmp_path / "new" / "x.html"))
    assert (code, said) == (0, f"report: {tmp_path}/new/x.html\n")
    assert "3 runs on demo" in (tmp_path / "new" / "x.html").read_text()


def test_mistakes_end_in_one_sentence(trained, tmp_path, monkeypatch, capsys):
    folder = trained["mf-normal"][0]
    (tmp_path / "half").mkdir()
    for words, sentence in (
        ([str(tmp_path / "none")], "there is no such folder"),
        ([str(tmp_path / "half")], "half is not a run folder: it has no config.json"),
        ([folder, folder], "was given twice"),
        ([folder, "-o", str(tmp_path)], "is a folder; name a file in it"),
        ([], "missing argument"),
    ):
        code, said = command(monkeypatch, capsys, "report", *words)
        assert code == 2
        assert sentence in said
        assert said.count("\n") == 1


def test_a_report_that_cannot_be_written_does_not_cost_the_run(tmp_path, monkeypatch, capsys):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("accord.report.run_report.write_report", full)
    monkeypatch.chdir(tmp_path)
    typed = ["train", "demo", "--model", "popularity", "--out", "runs/x"]
    code, said = command(monkeypatch, capsys, *typed)
    assert code == 2
    advice = "the run in runs/x is complete; write its report with 'accord report runs/x'."
    assert said.endswith(f"accord: the report cannot be written (no space left on device); {advice}\n")
    assert accord.Recommender.load("runs/x").metrics["mean"]


def test_training_ends_with_its_report(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    rows = accord.simulate(users=60, items=40, interactions=700, seed=1, liked=0.4).dataset.train.table
    pa.csv.write_csv(rows, "clicks.csv")
    typed = ["train", "clicks.csv", "--clean", "value>=1", "--model", "mf", "--method", "normal", "--epochs", "1"]
    code, said = command(monkeypatch, capsys, *typed, "--out", "runs/x", "--overwrite")
    assert code == 0
    assert said.endswith("run folder: runs/x\nreport: runs/x/report.html\n")
    asked = "accord train clicks.csv --clean 'value>=1' --model mf --method normal --epochs 1 --out runs/x"
    assert json.loads((tmp_path / "runs/x/metrics.json").read_text())["command"] == asked
    assert asked in text_of(tmp_path / "runs/x/report.html")


def test_the_examples_of_the_docs_run(trained, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, folder in (("mf-normal", "runs/clicks"), ("ease-normal", "runs/clicks-ease")):
        trained[name][1].save(folder)
    examples = [code for language, code in BLOCK.findall((ROOT / "docs/report.md").read_text()) if language == "python"]
    for code in examples:
        exec(code, {})
    assert "2 runs on demo" in text_of(tmp_path / "report.html")
    assert "The third day had the most." in text_of(tmp_path / "clicks.html")


# --- in a browser


@pytest.fixture(scope="module")
def browser():
    with chromium() as found:
        yield found


def test_one_run_takes_less_than_three_screens(browser, pages):
    with opened(browser, pages["one"], 1280) as seen:
        assert seen.page.evaluate("document.documentElement.scrollHeight") < 3 * 900
        folded = seen.page.locator("details.part h2").all_text_contents()
        assert folded == ["Data and settings", "How to reproduce"]


@pytest.mark.parametrize(("name", "width", "scheme"), [("one", 380, "light"), ("several", 1100, "dark")])
def test_a_browser_shows_it_from_disk(browser, pages, data, name, width, scheme):
    with opened(browser, pages[name], width, scheme) as seen:
        page = seen.page
        assert page.evaluate("document.documentElement.dataset.charts") == "drawn"
        assert page.evaluate("document.documentElement.scrollWidth") == width
        assert page.title() in ("mf + deca-p on demo", "3 runs on demo")
        assert page.locator("img").count() == 0
        assert data.item_info["title"][0].as_py().removesuffix(" 0") in page.locator("main").text_content()
        assert seen.said == []
        assert seen.asked == [pages[name].as_uri()]
        page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true; })")
        assert seen.harms() == []
        assert pages[name].stat().st_size < 2_000_000
