"""`accord.posterior` as a caller sees it."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import accord
from accord.data.simulate import simulate
from accord.evaluation.noise import auc
from accord.posteriors.estimate import Estimate, Posterior


def frame():
    train = simulate(users=300, items=120, interactions=9000, seed=5, liked=0.4).dataset.train
    value = train.column("value")
    known = np.random.default_rng(0).random(len(value)) < 0.1
    return pa.table({"user": train.users, "item": train.items, "stars": pa.array(1 + 4 * value, mask=~known)})


@pytest.mark.usefixtures("few_penalties")
def test_every_row_of_a_frame_gets_a_probability_under_its_own_ids():
    table = frame()
    found = accord.posterior(table, labels="stars>=4")
    assert found.used
    assert found.table.column_names == ["user", "item", "p_real", "low", "high", "label", "weight"]
    given = set(zip(table["user"].to_pylist(), table["item"].to_pylist(), strict=True))
    assert set(zip(found.table["user"].to_pylist(), found.table["item"].to_pylist(), strict=True)) == given
    assert found.table["label"].null_count == table["stars"].null_count
    label, weight = (np.array(found.table[name].to_pylist(), dtype=float) for name in ("label", "weight"))
    known = ~np.isnan(label)
    assert np.array_equal(label[known], weight[known])
    assert any("labels tell real from noise" in note for note in found.notes)
    few = accord.posterior(table.slice(0, 500), labels="stars>=4")
    assert not few.used
    assert few.table["weight"].equals(few.table["p_real"]), "labels that teach nothing are no weights"


@pytest.mark.parametrize(("away", "expected"), [(0.7, "weights are expected to help"), (0.4, "expect little")])
def test_how_much_labels_let_expect_of_weights_is_said(away, expected):
    label, none = np.array([1.0, 0.0] * 50 + [np.nan]), np.zeros((0, 0))
    p_real = np.where(label == 1, 0.5 + away / 10, 0.5)
    found = Estimate(p_real, p_real, p_real, label, none, none, (), True, "", {})
    assert expected in Posterior(pa.table({}), found, ()).gain


def test_without_labels_it_says_so():
    table = frame()
    found = accord.posterior(table.drop_columns(["stars"]))
    assert not found.used
    assert found.notes[-1].startswith("no interaction has a label")
    assert found.table["label"].null_count == len(table)


def test_of_split_data_it_judges_the_training_interactions():
    found = accord.posterior("demo")
    assert len(found.table) == 32_000


@pytest.mark.usefixtures("few_penalties")
def test_purchases_among_views_teach_and_say_what_they_leave_open():
    train = simulate(users=300, items=120, interactions=9000, seed=5, liked=0.4).dataset.train
    real = train.column("value") == 1
    bought = real & (np.random.default_rng(0).random(len(real)) < 0.3)
    table = pa.table({"user": train.users, "item": train.items, "event": np.where(bought, "buy", "view")})
    found = accord.posterior(table, events="view=?,buy=1")
    assert found.used
    assert found.notes[-1].startswith(f"{bought.sum():,} labels, all of real ones")
    assert "share of real ones is unknown" in found.notes[-1]


def test_attributes_of_items_help_to_tell_noise():
    """Which interactions are real depends on the kind of the item; most items have no label."""
    rng = np.random.default_rng(0)
    users, items = np.nonzero(rng.random((150, 400)) < 0.06)
    kind = rng.integers(0, 4, 400)
    real = rng.random(len(items)) < np.array([0.95, 0.7, 0.3, 0.05])[kind[items]]
    given = rng.random(len(items)) < 0.06
    log = pa.table({"user": users, "item": items, "real": np.where(given, real.astype(float), np.nan)})
    info = pa.table({"id": np.arange(400), "kind": [f"kind {one}" for one in kind]})
    found = {}
    for name, more in (
        ("without", {}),
        ("with", {"items": info}),
        ("titles", {"items": info.set_column(1, "title", info["id"].cast("string"))}),
    ):
        data = accord.load(log, labels="real", ratios=(1, 0, 0), **more)
        table = accord.posterior(data).table
        place = {pair: row for row, pair in enumerate(zip(users.tolist(), items.tolist(), strict=True))}
        rows = [place[pair] for pair in zip(table["user"].to_pylist(), table["item"].to_pylist(), strict=True)]
        hidden = ~given[rows]
        found[name] = auc(table["p_real"].to_numpy()[hidden], real[rows][hidden])
    assert found["with"] > found["without"] + 0.1
    assert found["titles"] == found["without"], "says nothing"
