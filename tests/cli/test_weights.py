"""`accord weights` as a user runs it."""

from __future__ import annotations

import csv
import re

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from accord.data.simulate import simulate
from commands import run


def write_log(path):
    train = simulate(users=120, items=80, interactions=3000, seed=5, liked=0.4).dataset.train
    known = np.random.default_rng(0).random(len(train)) < 0.6
    liked = pa.array(train.column("value"), mask=~known)
    pyarrow.csv.write_csv(pa.table({"user": train.users, "item": train.items, "liked": liked}), path)
    return len(train)


def test_weights_of_every_interaction_in_a_file(tmp_path, monkeypatch, capsys):
    rows = write_log(tmp_path / "log.csv")
    target = tmp_path / "weights.parquet"
    code, _, err = run(
        monkeypatch, capsys, "weights", str(tmp_path / "log.csv"), "--labels", "liked", "-o", str(target)
    )
    assert code == 0
    table = pq.read_table(target)
    assert table.column_names == ["user", "item", "p_real", "low", "high", "label", "weight"]
    assert len(table) == rows
    assert f"{rows:,} rows: " in err
    said = re.search(
        r"labelled interactions ([\d.]+)% are real, and weighted .* ([\d.]+)%: (.*?)\.", " ".join(err.split())
    )
    labels = np.array(table["label"].drop_null())
    p_real = np.array(table["p_real"])[np.array(table["label"].is_valid())]
    assert [float(share) for share in said.groups()[:2]] == [
        round(100 * labels.mean(), 1), round(100 * (labels * p_real).sum() / p_real.sum(), 1)
    ]  # fmt: skip
    assert float(said[2]) > float(said[1])
    assert said[3] == "weights are expected to help"


def test_a_csv_file_and_no_labels(tmp_path, monkeypatch, capsys):
    rows = write_log(tmp_path / "log.csv")
    target = tmp_path / "weights.csv"
    code, _, err = run(monkeypatch, capsys, "weights", str(tmp_path / "log.csv"), "-o", str(target))
    assert code == 0
    assert "no interaction has a label" in err
    assert "labelled interactions" not in err
    with target.open() as file:
        assert len(list(csv.DictReader(file))) == rows


def test_a_column_that_is_not_there(tmp_path, monkeypatch, capsys):
    write_log(tmp_path / "log.csv")
    code, _, err = run(monkeypatch, capsys, "weights", str(tmp_path / "log.csv"), "--labels", "stars>=4")
    assert code == 2
    assert "has no column 'stars'" in err
