"""`accord train` and `accord evaluate` as a user runs them."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from accord.io.tensors import read_tensors
from commands import run
from long_training import start_long_training, wait_for


def test_train_evaluate_recommend(clicks, monkeypatch, capsys):
    code, out, err = run(
        monkeypatch,
        capsys,
        "train",
        "clicks.csv",
        "--method",
        "deca",
        "--clean",
        "rating>=3",
        "--epochs",
        "2",
        "--seeds",
        "2",
    )
    assert code == 0
    assert "user column 'user'" in err
    assert re.search(r"^took read .* s, train .* s, evaluate .* s, report .* s$", err, re.MULTILINE)
    assert [line.split()[0] for line in out.splitlines()[1:]] == ["recall@10", "recall@20", "ndcg@10", "ndcg@20"]
    folder = clicks / "runs" / "clicks-gmf-deca"
    promised = "config.json metrics.json model.safetensors users.parquet items.parquet seen.parquet log.jsonl"
    assert {path.name for path in folder.iterdir()} >= set(promised.split())
    metrics = json.loads((folder / "metrics.json").read_text())
    assert set(metrics) >= {
        "accord",
        "dataset",
        "model",
        "method",
        "protocol",
        "runs",
        "mean",
        "std",
        "groups",
        "seconds",
    }
    assert set(metrics["dataset"]) >= {"name", "users", "items", "train", "valid", "test"}
    assert [entry["seed"] for entry in metrics["runs"]] == [2019, 2020]
    assert all(set(entry) >= {"seed", "metrics", "epochs", "train_seconds"} for entry in metrics["runs"])
    assert set(metrics["groups"]) == {"warm", "cold"}
    assert set(metrics["seconds"]) == {"read", "train", "evaluate"}
    expected = np.mean([entry["metrics"]["recall@20"] for entry in metrics["runs"]])
    assert metrics["mean"]["recall@20"] == pytest.approx(expected)

    code, out, err = run(monkeypatch, capsys, "evaluate", str(folder), "--all-metrics")
    assert code == 0
    assert "lists of 20: coverage" in err
    assert [line.split()[0] for line in out.splitlines()[1:]] == list(metrics["mean"])

    Path("later.csv").write_text("who,what\n" + "".join(f"u{n},i{n % 7}\n" for n in range(20)) + "nobody,i1\n")
    words = ("later.csv", "--user-col", "who", "--item-col", "what", "--k", "20")
    code, out, err = run(monkeypatch, capsys, "evaluate", str(folder), *words)
    assert code == 0, err
    assert [line.split()[0] for line in out.splitlines()[1:]] == ["recall@20", "ndcg@20"]
    assert "have users or items that are not in the run" in err
    assert "evaluated on the interactions given, of 10 users, not on the test of the run" in err

    code, out, _ = run(monkeypatch, capsys, "evaluate", str(folder), "--k", "20", "--per-user", "users.parquet")
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()[1:]] == ["recall@20", "ndcg@20"]
    assert f"{metrics['mean']['recall@20']:.4f}" in out
    per_user = pq.read_table("users.parquet")
    assert np.mean(per_user.column("recall@20")) == pytest.approx(expected)

    code, out, _ = run(
        monkeypatch, capsys, "recommend", str(folder), "--user", "u1", "--user", "who", "--k", "3", "--format", "json"
    )
    lists = [json.loads(line) for line in out.splitlines()]
    assert [row["user"] for row in lists] == ["u1"] * 3 + ["who"] * 3
    assert {row["source"] for row in lists if row["user"] == "who"} == {"popularity"}
    seen = pq.read_table(folder / "seen.parquet").to_pylist()
    assert not {row["item"] for row in lists if row["user"] == "u1"} & {r["item"] for r in seen if r["user"] == "u1"}

    (clicks / "ids.txt").write_text("u2\nu3\n")
    code, *_ = run(
        monkeypatch, capsys, "recommend", str(folder), "--users", "ids.txt", "--format", "csv", "-o", "lists.csv"
    )
    assert code == 0
    assert (clicks / "lists.csv").read_text().splitlines()[0] == '"user","rank","item","score","source"'
    code, *_ = run(
        monkeypatch, capsys, "recommend", str(folder), "--all", "--k", "2", "--format", "parquet", "-o", "all.parquet"
    )
    assert code == 0
    assert len(set(pq.read_table("all.parquet").column("user").to_pylist())) == metrics["dataset"]["users"]


FILES = {
    "empty": ("", "empty"),
    "header only": ("user,item\n", "rows"),
    "one user": ("user,item\na,1\na,2\na,3\n", "only one user"),
    "null ids": ("user,item\na,1\n,2\nb,3\n", "row 2"),
    "text where a rule needs numbers": ("user,item,rating\na,1,good\nb,2,bad\nc,1,good\n", "not a number"),
}


@pytest.mark.parametrize(("content", "expected"), FILES.values(), ids=FILES.keys())
def test_bad_files(tmp_path, monkeypatch, capsys, content, expected):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad.csv").write_text(content)
    code, _, err = run(
        monkeypatch, capsys, "train", "bad.csv", *(["--clean", "rating>=3"] if "rating" in content else [])
    )
    assert code == 2
    assert "bad.csv" in err
    assert expected in err
    assert "Traceback" not in err


def test_a_test_of_strangers_is_refused_and_a_few_are_told(tmp_path, monkeypatch, capsys):
    def folder(name, test):
        place = tmp_path / name
        place.mkdir()
        train = "".join(f"{u}\t{i}\t5\n" for u in range(6) for i in range(8) if (u + i) % 3)
        for part, rows in {"train.rating": train, "valid.rating": "0\t0\t5\n1\t2\t5\n", "test.negative": test}.items():
            (place / f"{name}.{part}").write_text(rows)
        return str(place)

    monkeypatch.chdir(tmp_path)
    code, _, err = run(
        monkeypatch, capsys, "train", folder("strange", "9\t20\t5\n8\t21\t5\n"), "--method", "deca", "--epochs", "1"
    )
    assert code == 2
    assert "no item of the test occurs in training" in err
    code, _, err = run(
        monkeypatch, capsys, "train", folder("mixed", "0\t3\t5\n9\t4\t5\n"), "--method", "deca", "--epochs", "1"
    )
    assert code == 0
    assert "do not occur in training" in err


def test_duplicates_are_counted_merged_and_told(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    rows = [f"u{u},i{i}" for u in range(12) for i in range(20) if (u + i) % 5]
    (tmp_path / "twice.csv").write_text("user,item\n" + "\n".join(rows + rows[:7]) + "\n")
    code, _, err = run(monkeypatch, capsys, "train", "twice.csv", "--method", "deca", "--epochs", "1")
    assert code == 0
    assert "7 rows repeat" in err


def test_run_folders_half_written_damaged_or_of_another_model(clicks, monkeypatch, capsys):
    assert run(monkeypatch, capsys, "train", "clicks.csv", "--method", "deca", "--epochs", "1", "--out", "a")[0] == 0
    assert (
        run(
            monkeypatch,
            capsys,
            "train",
            "clicks.csv",
            "--method",
            "deca",
            "--epochs",
            "1",
            "--model",
            "mf",
            "--out",
            "b",
        )[0]
        == 0
    )
    code, _, err = run(monkeypatch, capsys, "train", "clicks.csv", "--method", "deca", "--epochs", "1", "--out", "a")
    assert code == 2
    assert "finished run" in err

    (clicks / "a/model.safetensors").write_bytes((clicks / "b/model.safetensors").read_bytes())
    code, _, err = run(monkeypatch, capsys, "recommend", "a", "--user", "u1")
    assert code == 2
    assert "a/model.safetensors is not the file that this run was saved with" in err
    for name, harm in (("model.safetensors", b"\xff" * 40), ("seen.parquet", b"PAR1"), ("metrics.json", b"{")):
        whole = (clicks / "b" / name).read_bytes()
        (clicks / "b" / name).write_bytes(harm)
        code, _, err = run(monkeypatch, capsys, "recommend", "b", "--user", "u1")
        assert code == 2
        assert f"b/{name} is not the file that this run was saved with" in err
        (clicks / "b" / name).unlink()
        code, _, err = run(monkeypatch, capsys, "recommend", "b", "--user", "u1")
        assert code == 2
        assert "missing" in err
        (clicks / "b" / name).write_bytes(whole)
    assert run(monkeypatch, capsys, "recommend", "b", "--user", "u1")[0] == 0


def test_killed_and_resumed_gives_the_very_same_weights(clicks, monkeypatch, capsys):
    epochs = 25
    process, whole = (start_long_training(name, "--no-refit", epochs=epochs) for name in ("cut", "whole"))
    wait_for(clicks / "cut/checkpoint-1.safetensors", process)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert whole.wait() == 0
    assert not (clicks / "cut/metrics.json").exists()
    again = [
        "train",
        "clicks.csv",
        "--method",
        "deca",
        "--epochs",
        str(epochs),
        "--out",
        "cut",
        "--set",
        "train.early_stop=false",
    ]
    code, _, err = run(monkeypatch, capsys, *again)
    assert code == 2
    assert "--resume" in err
    code, _, err = run(monkeypatch, capsys, *again, "--resume", "--set", "method.c1=7")
    assert code == 2
    assert "another model, method" in err
    assert start_long_training("cut", "--no-refit", "--resume", epochs=epochs).wait() == 0
    one, two = (read_tensors(clicks / name / "model.safetensors")[0] for name in ("whole", "cut"))
    assert all((one[name] == two[name]).all() for name in one)
    whole_metrics, cut_metrics = (json.loads((clicks / n / "metrics.json").read_text()) for n in ("whole", "cut"))
    assert whole_metrics["mean"] == cut_metrics["mean"]


def test_wrong_recipes_and_budgets_are_refused_in_one_sentence(clicks, monkeypatch, capsys):
    (clicks / "empty").mkdir()
    (clicks / "bad.json").write_text('{"model": "os:system"}')
    wrong = {
        ("--recipe", "nowhere.json"): "nowhere.json does not exist; give a run folder",
        ("--recipe", "empty"): "empty/config.json does not exist; give a run folder",
        ("--recipe", "bad.json"): "bad.json is not the config of a run (method: field required)",
        ("--recipe", "bad.json", "--model", "ease"): "leave those options out",
        ("--budget", "10", "--model", "ease"): "--budget limits the search of auto, and ease is not searched for",
        ("--budget", "10", "--method", "normal"): "--budget limits the search of auto, and normal is not searched for",
        ("--budget", "-1"): "--budget -1: give seconds above 0",
    }
    for words, sentence in wrong.items():
        code, _, err = run(monkeypatch, capsys, "train", "clicks.csv", *words, "--out", "it")
        assert code == 2
        assert sentence in err.splitlines()[-1], err
        assert not (clicks / "it").exists()


def test_what_was_read_is_said_before_torch_is_loaded_and_its_compiler_never_is(clicks):
    """Both take seconds."""
    code = """
import sys
from pathlib import Path
from accord.cli import display
say, loaded = display.say, []
display.say = lambda text: (loaded.append("torch" in sys.modules), say(text))
sys.argv = ["accord", "train", "clicks.csv", "--model", "gmf", "--method", "deca", "--epochs", "1"]
from accord.cli.app import main
try: main()
except SystemExit as end: assert not end.code
assert loaded[0] is False and loaded[-1] is True, loaded
assert "torch._dynamo" not in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=clicks)
    assert done.returncode == 0, done.stderr


def test_a_split_at_a_moment_shows_the_figures_by_user_too(clicks, monkeypatch, capsys):
    """The recipe that was chosen, judged by the last interactions of each user too: in the folder and the report."""
    words = ("train", "clicks.csv", "--model", "popularity", "--split", "global-time", "--clean", "rating>=2")
    code, _, err = run(monkeypatch, capsys, *words, "--out", "one")
    assert code == 0
    assert "On the last interactions of each user instead" in err
    assert "on train alone: recall@10 " in err, "the figures of the table"
    metrics = json.loads((clicks / "one" / "metrics.json").read_text())
    code, _, err = run(monkeypatch, capsys, *words[:-4], "--clean", "rating>=2", "--out", "other")
    assert code == 0
    assert "By the last interactions" not in err
    assert json.loads((clicks / "other" / "metrics.json").read_text())["mean"] == metrics["by_user"]["mean"]
    assert metrics["mean"] != metrics["by_user"]["mean"]
    assert "Tested on the last interactions of each user" in (clicks / "one" / "report.html").read_text()


def test_sessions_stand_for_users(clicks, monkeypatch, capsys):
    words = ("train", "clicks.csv", "--model", "popularity", "--session-gap", "5s", "--split", "leave-last-out")
    code, _, err = run(monkeypatch, capsys, *words, "--out", "one")
    assert code == 0
    assert "sessions of 40 users" in err
    users = pq.read_table(clicks / "one" / "users.parquet").column(0).to_pylist()
    assert all("/" in name for name in users)
