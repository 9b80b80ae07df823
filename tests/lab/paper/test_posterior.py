"""The mean posterior by rating."""

from __future__ import annotations

import pytest

import accord
from accord.data.interactions import Dataset, Interactions
from accord_lab.pair_scores import pair_scores
from accord_lab.paper.experiment import rated
from accord_lab.paper.reproduce import reproduce
from paper_runs import quiet, run, simulated, texts


def test_the_posterior_is_of_the_training_pairs(tmp_path):
    (figure, table), lines = run("posterior", tmp_path)
    assert [line["settings"]["method.h"] for line in lines[::2]] == ["mf", "gmf", "neumf"] * 2
    data = simulated()
    line = next(line for line in lines if (line["method"], line["seed"]) == ("deca", 2020))
    fitted = accord.fit(data, "gmf", "deca", protocol="published", seeds=[2019, 2020], epochs=2, device="cpu")
    users, items, ratings = rated(data)
    own = pair_scores(fitted, users, items)[1]
    assert line["posterior"] == pytest.approx({f"{r}": own[ratings == r].mean() for r in range(1, 6)}, abs=1e-5)
    assert table.columns[1] == "rating 1"
    assert table.rows[0][1] == f"{(ratings == 1).sum():,}"
    assert len(table.rows) == 1 + 6
    assert "popularity alone has 0." in table.notes[1]
    assert {"h and h′: MF", "h and h′: NeuMF", "rating"} <= set(texts(figure))


def test_without_ratings_there_is_no_agreement_nor_posterior(tmp_path):
    data = accord.simulate(users=120, items=60, interactions=1500, seed=3, name="modcloth").dataset
    bare = Dataset.of("modcloth", Interactions.of(data.train.users, data.train.items), data.valid, data.test)
    for name in ("agreement", "posterior"):
        with pytest.raises(accord.InputError, match="have no ratings"):
            reproduce(name, [bare], None, None, quiet, tmp_path)
