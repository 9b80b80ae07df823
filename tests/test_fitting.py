"""accord.fit from top to bottom: read, plan, train, evaluate, save."""

from __future__ import annotations

import pytest

from accord.fitting import fit
from accord.recommender.recommender import Recommender
from helpers import small_data
from ramp import spoil


def test_fit_keeps_what_did_not_diverge(monkeypatch, tmp_path):
    spoil(monkeypatch, "gmf", seed=2020)
    with pytest.warns(UserWarning, match="diverged with seed 2020"):
        made = fit(small_data(), "gmf", "normal", seeds=3, epochs=2, device="cpu", out=tmp_path / "run")
    assert [run["seed"] for run in made.metrics["runs"]] == [2019, 2021]
    monkeypatch.undo()
    loaded = Recommender.load(tmp_path / "run")
    assert "2020" in loaded.metrics["diverged"]
    assert loaded.recommend(k=5).equals(made.recommend(k=5))
