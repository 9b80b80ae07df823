"""The audit from end to end, on simulated clicks whose noise is known."""

from __future__ import annotations

import csv
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import accord
import accord.auditing.audit as auditing
from accord.auditing.audit import WORK, check_target, is_unfinished, write_clean
from accord.auditing.interaction_log import open_log
from accord.auditing.noise import interactions_table
from accord.data.read import read_table
from accord.errors import InputError
from audit_logs import estimate_of, random_frame
from helpers import dataset


def test_noise_is_found_out_of_sample(made):
    found, _ = made
    detected = found.summary["detection"]
    audit, popularity = detected["scores"][:2]
    assert (audit["name"], popularity["name"]) == ("audit", "popularity")
    assert audit["auc"] > 0.8
    assert audit["auc"] > popularity["auc"] + 0.15
    assert audit["auc_low"] < audit["auc"] < audit["auc_high"]
    assert detected["gain"]["low"] > 0.05
    assert detected["calibration"]["ece"] < 0.15
    assert abs(found.summary["noise"]["rate"] - detected["noise_rate"]) < 0.12


def test_every_interaction_has_a_probability(made):
    found, folder = made
    table = found.interactions
    rows, _ = read_table(folder / "clicks.csv")
    assert table.num_rows == len(rows) == 7_000
    expected = ["user", "item", "p_real", "low", "high", "basis", "agree", "of", "value", "time"]
    assert table.column_names == expected
    p_real, low, high = (table.column(name).to_numpy() for name in ("p_real", "low", "high"))
    assert ((low >= 0) & (low <= p_real) & (p_real <= high) & (high <= 1)).all()
    assert found.users.column("interactions").to_numpy().sum() == 7_000
    assert found.summary["noise"]["families"] == ["popularity", "ease", "item-knn"]


def test_the_summary_is_as_documented(made):
    summary = made[0].summary
    assert set(summary) == {
        *("accord", "kind", "command", "data", "health", "noise", "detection", "verdict", "seconds"),
    }
    rows = summary["verdict"]["rows"]
    compared = {"popularity", "ease", "gmf + normal", "gmf + deca", "gmf + deca-p"}
    assert {row["name"] for row in rows} == compared | {"auto"}
    assert {row["name"] for row in summary["verdict"]["against_normal"]} == compared - {"gmf + normal"}
    auto = summary["verdict"]["auto"]
    assert auto["against"] == max((row for row in rows if row["name"] != "auto"), key=lambda row: row["mean"])["name"]
    assert auto["low"] <= auto["difference"] <= auto["high"]
    assert "auto" in summary["verdict"]["sentence"]
    assert all(row["low"] <= row["mean"] <= row["high"] for row in rows)
    assert summary["verdict"]["sentence"].startswith("Denoising ")
    assert summary["verdict"]["test"]["rule"] == "value>=1"
    assert summary["data"]["rows"] == 7_002
    least = summary["noise"]["noisiest"]
    assert [row["p_real"] for row in least] == sorted(row["p_real"] for row in least)
    assert np.mean([row["value"] for row in least]) < np.mean(made[0].interactions.column("value").to_numpy())


def test_somebody_must_have_two_interactions():
    with pytest.raises(InputError, match="no user has two interactions"):
        accord.audit(dataset(4, 4, [(0, 0), (1, 1)], [(2, 2)], [(3, 3)]))


def test_the_folder_holds_what_was_promised(made):
    found, folder = made
    names = {path.name for path in (folder / "audit").iterdir()}
    tables = {"interactions.parquet", "users.parquet", "items.parquet"}
    assert names == tables | {"summary.json", "report.html", "to_label.csv"}
    assert json.loads((folder / "audit" / "summary.json").read_text()) == found.summary
    for name in ("interactions", "users", "items"):
        assert pq.read_table(folder / "audit" / f"{name}.parquet").equals(getattr(found, name))


def test_a_clean_log_is_read_like_the_log(made):
    found, folder = made
    done = found.write_clean(folder / "clean.csv", drop_below=0.3)
    again, _ = read_table(folder / "clean.csv", merge=False)
    assert len(again) == done.rows == 7_002 - done.dropped
    header = (folder / "clicks.csv").read_text().splitlines()[0].replace('"', "")
    assert (folder / "clean.csv").read_text().splitlines()[0].replace('"', "") == header


def test_a_folder_is_finished_when_its_summary_is_written(made, tmp_path, monkeypatch):
    found, _ = made
    (tmp_path / WORK).mkdir()
    assert is_unfinished(tmp_path)

    def full(*_args):
        raise OSError("no space left")

    monkeypatch.setattr(auditing, "write_page", full)
    with pytest.raises(OSError, match="no space"):
        found.save(tmp_path)
    assert is_unfinished(tmp_path)
    assert not (tmp_path / "summary.json").exists()
    monkeypatch.undo()
    assert found.save(tmp_path) == tmp_path
    assert not is_unfinished(tmp_path)
    assert (tmp_path / "summary.json").exists()


def test_it_shows_what_it_is(made):
    found = made[0]
    noise, data = found.summary["noise"], found.summary["data"]
    rate = f"noise rate {noise['rate']:.0%} ({noise['low']:.0%} to {noise['high']:.0%})"
    assert repr(found) == f"Audit({data['name']}: {data['interactions']:,} interactions; {rate})"


@pytest.fixture
def judged():
    """A log with a repeated pair, an id that looks like a number and a column that is not ours; and its judgement."""
    table = random_frame(note=lambda _rng, keys: [f"so, it's {key}" for key in keys])
    table = table.set_column(0, "user", pa.array([f"00{name[1:]}" for name in table.column("user").to_pylist()]))
    log = open_log(pa.concat_tables([table, table.slice(0, 1)]))
    p_real = np.linspace(0, 1, len(log))
    return log, interactions_table(log, estimate_of(log, p_real))


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


def test_a_judgement_of_another_log_is_refused(judged, tmp_path):
    log, table = judged
    with pytest.raises(InputError, match="another log"):
        write_clean(tmp_path / "clean.csv", log, table.slice(0, 100))


@pytest.mark.parametrize(
    ("path", "below", "said_of"),
    [("c.xlsx", 0.5, "must end in"), ("c.csv", 1.5, "up to 1"), ("c.csv", 0, "above 0")],
)
def test_what_cannot_be_written(tmp_path, path, below, said_of):
    with pytest.raises(InputError, match=said_of):
        check_target(tmp_path / path, below)
