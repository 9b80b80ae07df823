"""The audit from end to end, on simulated clicks whose noise is known, and its command with every mistake."""

from __future__ import annotations

import json
import sys

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import accord
from accord.auditing import crossfit, verdict
from accord.cli.app import main
from accord.data.read import read_table
from browser import chromium, opened

HARM = "<img src=x onerror=\"document.title='harmed'\">"


def clicks(folder, users=250, items=200, size=7_000, liked=0.18):
    """A log of simulated clicks with times, a column of notes and two rows twice; and its items' titles."""
    data = accord.simulate(users=users, items=items, interactions=size, seed=3, liked=liked).dataset
    table = pa.concat_tables([data.train.table, data.valid.table, data.test_noisy.table])
    table = table.take(np.random.default_rng(0).permutation(len(table)))
    table = table.append_column("time", pa.array(1_600_000_000 + 60 * np.arange(len(table))))
    table = table.append_column("note", pa.array(["a, b"] * len(table)))
    pyarrow.csv.write_csv(pa.concat_tables([table, table.slice(0, 2)]), folder / "clicks.csv")
    titles = pa.table({"id": data.items.ids, "title": [f"{HARM} {one}" for one in data.items.ids.to_pylist()]})
    pyarrow.csv.write_csv(titles, folder / "items.csv")
    return folder / "clicks.csv"


def limit_verdict(monkeypatch, epochs):
    """Train less for the verdict than the settings say."""
    original = verdict.Request
    monkeypatch.setattr(verdict, "Request", lambda *args, **more: original(*args, **more, epochs=epochs))


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("audit")
    path = clicks(folder)
    with pytest.MonkeyPatch.context() as patch:
        limit_verdict(patch, epochs=2)
        patch.setattr(crossfit, "EPOCHS", 14)
        found = accord.audit(
            path, items=folder / "items.csv", split="random", folds=2, device="cpu", out=folder / "audit", command="it"
        )
    return found, folder


def test_noise_is_found_out_of_sample(made):
    found, _ = made
    detected = found.summary["detection"]
    audit, popularity = detected["scores"][:2]
    assert (audit["name"], popularity["name"]) == ("audit", "popularity")
    assert audit["auc"] > popularity["auc"] + 0.10
    assert audit["auc_low"] < audit["auc"] < audit["auc_high"]
    assert detected["gain"]["low"] > 0.05
    assert detected["reliability"]["after"]["ece"] < 0.05
    assert abs(found.summary["noise"]["rate"] - detected["noise_rate"]) < 0.12


def test_every_interaction_has_a_probability(made):
    found, folder = made
    table = found.interactions
    rows, _ = read_table(folder / "clicks.csv")
    assert table.num_rows == len(rows) == 7_000
    expected = ["user", "item", "p_real", "low", "high", "basis", "value", "time", "p_calibrated"]
    assert table.column_names == expected
    p_real, low, high, calibrated = (
        table.column(name).to_numpy() for name in ("p_real", "low", "high", "p_calibrated")
    )
    assert ((low >= 0) & (low <= p_real) & (p_real <= high) & (high <= 1)).all()
    assert ((calibrated >= 0) & (calibrated <= 1)).all()
    assert found.users.column("interactions").to_numpy().sum() == 7_000
    runs = found.summary["noise"]["runs"]
    assert len({run["model"] for run in runs}) >= 2
    assert len({run["seed"] for run in runs if run["seed"] is not None}) >= 2


def test_the_folder_holds_what_was_promised(made):
    found, folder = made
    names = {path.name for path in (folder / "audit").iterdir()}
    assert names == {"interactions.parquet", "users.parquet", "items.parquet", "summary.json", "report.html"}
    assert json.loads((folder / "audit" / "summary.json").read_text()) == found.summary
    for name in ("interactions", "users", "items"):
        assert pq.read_table(folder / "audit" / f"{name}.parquet").equals(getattr(found, name))


def test_the_summary_is_as_documented(made):
    summary = made[0].summary
    assert set(summary) == {
        *("accord", "kind", "command", "data", "health", "noise", "detection", "verdict", "seconds"),
    }
    rows = summary["verdict"]["rows"]
    assert {row["name"] for row in rows} == {"popularity", "ease", "gmf + normal", "gmf + deca", "gmf + deca-p"}
    assert all(row["low"] <= row["mean"] <= row["high"] for row in rows)
    assert summary["verdict"]["sentence"].startswith("Denoising ")
    assert summary["verdict"]["test"]["rule"] == "value>=1"
    assert summary["data"]["rows"] == 7_002
    for name in ("by_popularity", "by_activity", "by_time", "by_value"):
        assert sum(row["interactions"] for row in summary["noise"][name]) == 7_000
    least = summary["noise"]["noisiest"]
    assert [row["p_real"] for row in least] == sorted(row["p_real"] for row in least)
    assert np.mean([row["value"] for row in least]) < np.mean([row["value"] for row in summary["noise"]["surest"]])


def test_the_page_opens_from_disk(made):
    _, folder = made
    path = folder / "audit" / "report.html"
    assert path.stat().st_size < 5 * 2**20
    with chromium() as browser:
        for width, scheme in ((1100, "light"), (390, "dark")):
            with opened(browser, path, width, scheme) as seen:
                assert seen.page.title() == "Audit of clicks"
                assert seen.said == []
                assert [url for url in seen.asked if not url.startswith(("file:", "data:"))] == []
                assert HARM in seen.page.inner_text("body")
                assert seen.page.evaluate("document.documentElement.scrollWidth") <= width
                assert seen.page.locator("figure svg, figure canvas").count() >= 7
                assert seen.harms() == []


def test_a_clean_log_is_read_like_the_log(made):
    found, folder = made
    done = found.write_clean(folder / "clean.csv", drop_below=0.3)
    again, _ = read_table(folder / "clean.csv", merge=False)
    assert len(again) == done.rows == 7_002 - done.dropped
    header = (folder / "clicks.csv").read_text().splitlines()[0].replace('"', "")
    assert (folder / "clean.csv").read_text().splitlines()[0] == header


# --- the command


@pytest.fixture
def quick(tmp_path, monkeypatch):
    """A folder with a small log, and models that hardly train."""
    monkeypatch.chdir(tmp_path)
    clicks(tmp_path, 40, 30, 400, liked=0.4)
    monkeypatch.setattr(crossfit, "EPOCHS", 1)
    limit_verdict(monkeypatch, epochs=1)
    return tmp_path


def run(monkeypatch, capsys, *words):
    monkeypatch.setattr(sys, "argv", ["accord", *words])
    try:
        main()
        code = 0
    except SystemExit as stop:
        code = stop.code or 0
    said = capsys.readouterr()
    return code, said.out, said.err


def test_audit_and_write_a_clean_log(quick, monkeypatch, capsys):
    code, out, err = run(monkeypatch, capsys, "audit", "clicks.csv", "--folds", "2", "--seeds", "1", "--device", "cpu")
    assert code == 0, err
    assert "probably noise" in out
    assert "2 rows repeat a (user, item) pair" in out
    assert "Denoising" in out
    assert "report: runs/clicks-audit/report.html" in err
    summary = json.loads((quick / "runs" / "clicks-audit" / "summary.json").read_text())
    assert summary["command"] == "accord audit clicks.csv --folds 2 --seeds 1 --device cpu"

    words = ("audit", "clicks.csv", "--out", "runs/clicks-audit")
    code, _, err = run(monkeypatch, capsys, *words)
    assert code == 2
    assert "holds a finished audit" in err
    code, _, err = run(monkeypatch, capsys, *words, "--write-clean", "all.csv", "--weights")  # uses what is there
    assert code == 0
    assert "clean log: all.csv, 402 rows" in err
    assert (quick / "all.csv").read_text().splitlines()[0] == "user,item,value,time,note,weight"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("audit", "nothing.csv"), "no file or folder 'nothing.csv'"),
        (("audit", "clicks.csv", "--user-col", "who"), "no column 'who'"),
        (("audit", "clicks.csv", "--weights"), "give that too"),
        (("audit", "clicks.csv", "--write-clean", "x.xlsx"), "must end in"),
        (("audit", "clicks.csv", "--write-clean", "x.csv", "--weights", "--drop-below", "0.2"), "not both"),
        (("audit", "clicks.csv", "--folds", "1"), "--folds is at least 2"),
        (("audit", "clicks.csv", "--clean", "rating>3"), "rating"),
        (("audit", "clicks.csv", "--out", "clicks.csv"), "is a file"),
        (("audit", "demo", "--clean", "value>=1"), "already split"),
    ],
)
def test_mistakes_are_one_sentence(quick, monkeypatch, capsys, words, said):
    code, out, err = run(monkeypatch, capsys, *words)
    assert code == 2
    assert said in err
    assert err.count("\n") == 1
    assert out == ""


def test_a_log_that_cannot_be_judged_leaves_nothing_behind(quick, monkeypatch, capsys):
    rows = "".join(f"u{n},i{n % 17}\n" for n in range(200))
    (quick / "once.csv").write_text(f"user,item\n{rows}")
    code, _, err = run(monkeypatch, capsys, "audit", "once.csv")
    assert code == 2
    assert "no user has two interactions" in err
    assert not (quick / "runs" / "once-audit").exists()


def test_an_interrupted_audit_goes_on(quick, monkeypatch, capsys):
    words = ("audit", "clicks.csv", "--out", "a", "--device", "cpu", "--folds", "2", "--seeds", "1")
    trained, original = [], crossfit.train_stack

    def interrupted(data, run, device, watch=None):
        if len(trained) == 5:
            raise KeyboardInterrupt
        trained.append(run.config.model)
        return original(data, run, device, watch=watch)

    monkeypatch.setattr(crossfit, "train_stack", interrupted)
    code, _, err = run(monkeypatch, capsys, *words)
    assert code == 130
    assert "--resume" in err
    assert not (quick / "a" / "summary.json").exists()

    code, _, err = run(monkeypatch, capsys, *words)
    assert code == 2
    assert "interrupted audit; continue it with --resume" in err

    trained.clear()
    code, _, err = run(monkeypatch, capsys, *words, "--resume")
    assert code == 0, err
    assert len(trained) == 3  # of eight, five were there
    assert (quick / "a" / "summary.json").exists()
    assert not (quick / "a" / "unfinished").exists()

    before = (quick / "a" / "summary.json").read_bytes()
    trained.clear()
    code, _, err = run(monkeypatch, capsys, *words, "--overwrite")
    assert code == 130  # all anew, until it is interrupted again
    assert (quick / "a" / "summary.json").read_bytes() == before  # the old one is whole until the new one is
    trained.clear()
    code, _, err = run(monkeypatch, capsys, *words, "--resume")
    assert code == 0, err
    assert len(trained) == 3
    assert (quick / "a" / "summary.json").read_bytes() != before
    assert not (quick / "a" / "unfinished").exists()
