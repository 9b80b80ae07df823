"""The audit from end to end, on simulated clicks whose noise is known."""

from __future__ import annotations

import numpy as np
import pytest

import accord
from accord.data.read import read_table
from accord.errors import InputError
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
    assert detected["reliability"]["after"]["ece"] < 0.05
    assert abs(found.summary["noise"]["rate"] - detected["noise_rate"]) < 0.12


def test_every_interaction_has_a_probability(made):
    found, folder = made
    table = found.interactions
    rows, _ = read_table(folder / "clicks.csv")
    assert table.num_rows == len(rows) == 7_000
    expected = ["user", "item", "p_real", "low", "high", "basis", "agree", "of", "value", "time", "p_calibrated"]
    assert table.column_names == expected
    p_real, low, high, calibrated = (
        table.column(name).to_numpy() for name in ("p_real", "low", "high", "p_calibrated")
    )
    assert ((low >= 0) & (low <= p_real) & (p_real <= high) & (high <= 1)).all()
    assert ((calibrated >= 0) & (calibrated <= 1)).all()
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
    for name in ("by_popularity", "by_activity", "by_time", "by_value"):
        assert sum(row["interactions"] for row in summary["noise"][name]) == 7_000
    least = summary["noise"]["noisiest"]
    assert [row["p_real"] for row in least] == sorted(row["p_real"] for row in least)
    assert np.mean([row["value"] for row in least]) < np.mean([row["value"] for row in summary["noise"]["surest"]])


def test_somebody_must_have_two_interactions():
    with pytest.raises(InputError, match="no user has two interactions"):
        accord.audit(dataset(4, 4, [(0, 0), (1, 1)], [(2, 2)], [(3, 3)]))
