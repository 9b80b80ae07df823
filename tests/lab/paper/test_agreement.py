"""How often models and seeds disagree."""

from __future__ import annotations

import numpy as np
import pytest

from accord_lab.paper.agreement import disagreement, packed, unpacked
from accord_lab.paper.experiment import rated
from paper_runs import run, simulated, texts


def test_disagreement_by_hand():
    one, other = np.array([1, 1, 1, 0], bool), np.array([1, 1, 0, 1], bool)
    differ, kappa = disagreement(one, other)
    assert differ == 0.5
    assert kappa == pytest.approx(1 - 0.5 / (2 * 0.75 * 0.25))
    assert disagreement(one, one) == (0.0, 1.0)
    bits = np.random.default_rng(0).random(1003) < 0.9
    assert np.array_equal(unpacked(packed(bits), len(bits)), bits)


def test_agreement_is_of_models_and_of_seeds(tmp_path):
    parts, lines = run("agreement", tmp_path, ["mf", "gmf"])
    figure, models, seeds, shares = parts
    assert [(line["model"], line["seed"]) for line in lines] == [
        (model, seed) for model in ("mf", "gmf") for seed in (2019, 2020)
    ]
    settings = [{k: v for k, v in line["settings"].items() if k.startswith("train.")} for line in lines]
    assert all(own == settings[0] for own in settings)  # MF trains as GMF does
    _, _, ratings = rated(simulated())
    noisy = np.isin(ratings, (1, 2))
    bits = {(line["model"], line["seed"]): unpacked(line["predictions"], len(ratings)) for line in lines}
    between = [(bits["mf", seed] != bits["gmf", seed])[noisy].mean() for seed in (2019, 2020)]
    assert [row[0] for row in models.rows] == ["MF – GMF"]
    assert models.rows[0][2] == f"{np.mean(between):.4f} ± {np.std(between, ddof=1):.4f}"
    assert [row[0] for row in seeds.rows] == ["MF", "GMF"]
    assert seeds.rows[1][2] == f"{(bits['gmf', 2019] != bits['gmf', 2020])[noisy].mean():.4f}"
    assert f"noisy: {noisy.sum():,} pairs" in shares.columns
    assert {"clean (ratings 4 and 5)", "noisy (ratings 1 and 2)"} <= set(texts(figure))
