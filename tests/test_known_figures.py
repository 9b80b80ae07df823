"""Figures of a committed log, computed by NumPy alone (`tests/fixtures/ratings/make.py`): ours are the same."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path

import pytest

import accord
from accord.data.interactions import Dataset, Interactions
from accord.evaluation.noise import auc

FOLDER = Path(__file__).parent / "fixtures" / "ratings"
KNOWN = json.loads((FOLDER / "figures.json").read_text())


@pytest.fixture(scope="module")
def rows() -> list[dict[str, str]]:
    with (FOLDER / "ratings.csv").open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def data(rows: list[dict[str, str]]) -> Dataset:
    def part(name: str, least: int = 0) -> Interactions:
        own = [row for row in rows if row["part"] == name and int(row["rating"]) >= least]
        return Interactions.of(
            [row["user"] for row in own], [row["item"] for row in own], [float(row["rating"]) for row in own]
        )

    return Dataset.of("ratings", part("train"), part("valid"), part("test", 4))


@pytest.mark.parametrize("model", ["popularity", "ease"])
def test_the_figures_of_a_model(data, model):
    options = {"model.l2": KNOWN["l2"]} if model == "ease" else {}
    found = accord.fit(data, model, options=options, ks=[5, 20], device="cpu").metrics["mean"]
    for metric, value in KNOWN["metrics"][model].items():
        assert found[metric] == pytest.approx(value, abs=1e-6), metric


def test_how_well_popularity_finds_low_ratings(data):
    ratings = data.train.column("value")
    keep = (ratings >= 4) | (ratings <= 2)
    popularity = data.training_csr().popularity()[data.items.rows(data.train.items)]
    assert auc(popularity[keep].astype(float), ratings[keep] >= 4) == pytest.approx(
        KNOWN["auc of popularity"], abs=1e-9
    )


def test_the_files_are_what_their_maker_makes(tmp_path):
    script = tmp_path / "make.py"
    script.write_text((FOLDER / "make.py").read_text())
    subprocess.run([sys.executable, str(script)], check=True)
    assert (tmp_path / "ratings.csv").read_text() == (FOLDER / "ratings.csv").read_text()
    made = json.loads((tmp_path / "figures.json").read_text())
    for model, values in KNOWN["metrics"].items():
        assert made["metrics"][model] == pytest.approx(values)
