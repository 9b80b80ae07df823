"""No choice is made by the test: whatever it holds, each command chooses the same to the bit, as users can read it.

The other studies of labels, which no command of a minute runs, are held to that by tests/lab/test_choices.py.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import accord
from audit_logs import limit_verdict
from commands import run
from logs import pushed_log

# What is measured on the test, or says how long something took.
RESULTS = {
    *("metrics", "groups", "seconds", "test_ndcg@20", "data"),
    *("ndcg@20", "consensus", "ease", "ease_told", "p_ease", "p_consensus"),
}
LABELS = {
    "rule": ["--labels", "value>=1"],
    "file": ["--labels", "labels.csv"],
    "events": ["--events", "view=?,buy=1,bot=0"],
    "none": [],
}
TRAIN = "train log.csv --budget 0.1 --epochs 2 --out out"
COMPARE = "compare log.csv --models mf,item-knn --methods normal --tune 3 --seeds 1 --epochs 2 --out out"
AUDIT = "audit log.csv --seeds 1 --out out"
STUDY = "lab labels log.csv --shares 0.5 --by random --draws 1 --budget 0.1 --out out"
LEADERBOARD = "lab leaderboard log.csv --models mf,item-knn --methods normal --tune 3 --seeds 1 --epochs 2 --out out"
TAKES = {  # the labels that a command takes, and whether it takes --clean
    TRAIN: (["none", "rule", "file", "events"], True),
    COMPARE: (["none"], True),
    AUDIT: (["none", "rule", "file", "events"], True),
    STUDY: (["file", "rule"], True),
    LEADERBOARD: (["none"], False),
}
FILES = {
    TRAIN: ["config.json", "metrics.json"],
    COMPARE: ["tuning.jsonl", "results.jsonl"],
    AUDIT: ["unfinished/verdict.jsonl"],
    STUDY: ["labels.jsonl"],
    LEADERBOARD: ["tuning.jsonl", "leaderboard.jsonl"],
}


@pytest.fixture(autouse=True)
def quick(monkeypatch, tmp_path):
    """Without a clock that ends a search, with few of what is tried, without pages, and with the steps of an audit left
    to be read."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("accord.report.page.Page.html", lambda _: "")
    monkeypatch.setattr("accord.consensus.search.FAR_OVER", float("inf"))
    monkeypatch.setattr("accord.posteriors.logistic.STEPS", ())
    limit_verdict(monkeypatch, epochs=1)
    monkeypatch.setattr("accord.auditing.verdict.BUDGET", ("model.budget", 0.1))
    monkeypatch.setattr("accord.auditing.audit.shutil.rmtree", lambda *_, **__: None)
    monkeypatch.setattr("accord_lab.labels.shares.PENALTIES", (10.0, 100.0, 1000.0))


def rows_of_log(times: bool, pushed: bool = False) -> pd.DataFrame:
    """Interactions of which some are real, with the kind of event; half of these say what is real. Of a pushed log most
    are noise, so that labels are used."""
    clicks = accord.simulate(users=50, items=40, interactions=900, seed=4, liked=0.4).dataset
    log = pushed_log(120, 60, 20, real=0.3) if pushed else clicks
    rows = pd.concat([part.table.to_pandas() for part in (log.train, log.valid, log.test_noisy)])
    rows = rows[["user", "item", "value"]].sort_values(["user", "item"])
    for column in ("user", "item"):
        rows[column] = rows[column].astype("category").cat.codes.astype(int)
    rng = np.random.default_rng(0)
    rows["event"] = np.where(rng.random(len(rows)) < 0.5, "view", np.where(rows["value"] == 1, "buy", "bot"))
    if times:
        rows["time"] = rng.permutation(len(rows))
    return rows.reset_index(drop=True)


def in_test_of(rows: pd.DataFrame) -> np.ndarray:
    held_out = accord.load(rows.drop(columns="event")).test
    pairs = set(zip(held_out.users.to_pylist(), held_out.items.to_pylist(), strict=True))
    return np.array([pair in pairs for pair in zip(rows["user"], rows["item"], strict=True)])


def with_garbage(rows: pd.DataFrame, in_test: np.ndarray) -> pd.DataFrame:
    """The rows, with other items, values and events where they are in the test; times stay, and the order of pairs,
    by which a split at random deals them out."""
    rng, users = np.random.default_rng(1), rows["user"].to_numpy()
    items, values, events = (rows[name].to_numpy(copy=True) for name in ("item", "value", "event"))
    end = items.max() + 1
    for place in np.flatnonzero(in_test):
        is_first = place == 0 or users[place - 1] != users[place]
        before = -1 if is_first else items[place - 1]
        is_last = place == len(rows) - 1 or users[place + 1] != users[place]
        after = end if is_last else items[place + 1]
        items[place], values[place] = rng.integers(before + 1, after), rng.integers(2)
        events[place] = rng.choice(["view", "buy", "bot"])
    return rows.assign(item=items, value=values, event=events)


def write(folder: Path, rows: pd.DataFrame) -> None:
    folder.mkdir()
    rows.to_csv(folder / "log.csv", index=False)
    some = rows[np.random.default_rng(2).random(len(rows)) < 0.5]
    some.assign(label=some["value"])[["user", "item", "label"]].to_csv(folder / "labels.csv", index=False)


def cells() -> Iterator[Any]:
    """Every command with all that it takes. Where there are several kinds of labels, the half of it in which every two
    of labels, clean and times come together is tried every time; the rest is heavy."""
    for command, (kinds, takes_clean) in TAKES.items():
        cleans = (False, True) if takes_clean else (False,)
        for (number, labels), clean, times in product(enumerate(kinds), cleans, (False, True)):
            is_heavy = len(kinds) > 1 and (number + clean + times) % 2
            yield pytest.param(command, labels, clean, times, marks=[pytest.mark.heavy] if is_heavy else [])


def choices(path: Path) -> Any:
    """What a file of results says, without what is measured on the test."""

    def of(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: of(one) for name, one in value.items() if name not in RESULTS}
        return [of(one) for one in value] if isinstance(value, list) else value

    lines = [of(json.loads(line)) for line in path.read_text().splitlines()] if path.suffix == ".jsonl" else []
    if path.name != "metrics.json":
        return lines or of(json.loads(path.read_text()))
    wanted = "search", "members", "runs", "notes"
    return of({name: one for name, one in json.loads(path.read_text()).items() if name in wanted})


@pytest.mark.parametrize(
    ("command", "labels", "clean", "times"),
    list(cells()),
    ids=lambda value: value.partition(" log")[0] if isinstance(value, str) else str(value),
)
def test_a_test_of_garbage_changes_no_choice(command, labels, clean, times, monkeypatch, capsys, tmp_path):
    is_pushed = (command, labels, clean, times) == (TRAIN, "rule", True, False)
    rows = rows_of_log(times, is_pushed)
    in_test = in_test_of(rows)
    chosen, measured = [], []
    for name, log in (("log", rows), ("garbage", with_garbage(rows, in_test))):
        write(tmp_path / name, log)
        monkeypatch.chdir(tmp_path / name)
        words = [*command.split(), *LABELS[labels], *(["--clean", "value>=1"] if clean else [])]
        code, _, err = run(monkeypatch, capsys, *words)
        assert code == 0, err
        files = [tmp_path / name / "out" / file for file in FILES[command]]
        chosen.append([choices(file) for file in files])
        measured.append(files[-1].read_text())
    assert chosen[0] == chosen[1]
    if is_pushed:
        assert '"model": "quality"' in measured[0], "labels are used, by which the validation counts"
    assert measured[0] != measured[1], "the test is garbage"


@pytest.mark.parametrize("times", [False, True])
@pytest.mark.parametrize("labels", ["none", "rule", "file"])
def test_weights_of_split_data_follow_from_its_training_interactions(labels, times, monkeypatch, capsys, tmp_path):
    rows = rows_of_log(times)
    parts = np.random.default_rng(3).permutation(len(rows)) % 10
    written = []
    for name, log in (("log", rows), ("garbage", with_garbage(rows, parts == 9))):
        write(tmp_path / name, log)
        monkeypatch.chdir(tmp_path / name)
        for part, held in (("train.rating", parts < 8), ("valid.rating", parts == 8), ("test.negative", parts == 9)):
            log[held].drop(columns="event").to_csv(f"log.{part}", sep="\t", header=False, index=False)
        code, _, err = run(monkeypatch, capsys, "weights", ".", *LABELS[labels], "-o", "weights.csv")
        assert code == 0, err
        assert ("labels tell real from noise" in err) == (labels != "none")
        written.append(Path("weights.csv").read_text())
    assert written[0] == written[1]
    assert written[0].count("\n") == (parts < 8).sum() + 1


@pytest.mark.parametrize("times", [False, True])
def test_weights_by_events_of_what_was_split_follow_from_its_training_interactions(times):
    rows = rows_of_log(times, pushed=True)
    logs = rows, with_garbage(rows, in_test_of(rows))
    found = [accord.posterior(accord.load(log, events=LABELS["events"][1])) for log in logs]
    assert found[0].used
    assert found[0].table.equals(found[1].table)
