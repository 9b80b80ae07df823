"""The log without its noise, or with weights."""

from __future__ import annotations

import csv

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from accord.auditing.clean_log import check_target, write_clean
from accord.auditing.interaction_log import open_log
from accord.auditing.noise import interactions_table
from accord.errors import InputError
from audit_logs import estimate_of, random_frame


@pytest.fixture
def judged():
    """A log with a repeated pair, an id that looks like a number and a column that is not ours; and its judgement."""
    table = random_frame(note=lambda _rng, keys: [f"so, it's {key}" for key in keys])
    table = table.set_column(0, "user", pa.array([f"00{name[1:]}" for name in table.column("user").to_pylist()]))
    log = open_log(pa.concat_tables([table, table.slice(0, 1)]))
    p_real = np.linspace(0, 1, len(log))
    return log, interactions_table(log, estimate_of(log, p_real), None)


def believed(table):
    """p_real by pair."""
    return {(row["user"], row["item"]): row["p_real"] for row in table.to_pylist()}


@pytest.mark.parametrize("name", ["clean.csv", "clean.tsv", "clean.parquet"])
def test_a_clean_log_keeps_the_columns(judged, tmp_path, name):
    log, table = judged
    path = tmp_path / name
    done = write_clean(path, log, table, drop_below=0.25)
    p_real = believed(table)
    kept = [row for row in log.columns.to_pylist() if p_real[row["user"], row["item"]] >= 0.25]
    if name.endswith("parquet"):
        assert pq.read_table(path).to_pylist() == kept
    else:
        with path.open(newline="") as file:
            assert list(csv.DictReader(file, delimiter="\t" if name.endswith("tsv") else ",")) == kept
    assert (done.rows, done.dropped) == (len(kept), 301 - len(kept))


def test_weights_keep_every_row(judged, tmp_path):
    log, table = judged
    done = write_clean(tmp_path / "weighted.parquet", log, table, weights=True)
    written = pq.read_table(tmp_path / "weighted.parquet")
    assert done.rows == written.num_rows == 301
    assert written.column_names == ["user", "item", "note", "weight"]
    weight = believed(table)
    for row in written.to_pylist():
        assert row["weight"] == weight[row["user"], row["item"]]


def test_a_judgement_of_another_log_is_refused(judged, tmp_path):
    log, table = judged
    with pytest.raises(InputError, match="another log"):
        write_clean(tmp_path / "clean.csv", log, table.slice(0, 100))


@pytest.mark.parametrize(
    ("path", "below", "weights", "said_of"),
    [("c.xlsx", None, False, "must end in"), ("c.csv", 0.5, True, "not both"), ("c.csv", 1.5, False, "probability")],
)
def test_what_cannot_be_written(tmp_path, path, below, weights, said_of):
    with pytest.raises(InputError, match=said_of):
        check_target(tmp_path / path, below, weights)
