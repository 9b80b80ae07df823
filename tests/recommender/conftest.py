"""Runs and data that several tests of this folder look at."""

from __future__ import annotations

from pathlib import Path

import pytest

import accord
from accord.fitting import fit
from accord.recommender.recommender import Recommender
from helpers import small_data


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "run"
    fit(small_data(), "mf", "normal", epochs=1, options={"model.dim": 4}, out=folder)
    return folder


@pytest.fixture(scope="module")
def recommender(run: Path) -> Recommender:
    return Recommender.load(run)


@pytest.fixture(scope="module")
def simulation():
    return accord.simulate(users=150, items=80, interactions=2500, seed=2)
