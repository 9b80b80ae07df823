"""What labels of pairs that the log does not have teach."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import accord
from accord.evaluation.noise import auc


def test_labels_of_pairs_outside_the_log_teach_what_is_real(few_penalties):
    made = accord.simulate(users=300, items=120, interactions=9_000, seed=4, liked=0.4).dataset.everything().train
    table = made.table.select(["user", "item", "value"])
    apart = np.random.default_rng(0).random(len(table)) < 0.3
    labels = table.filter(pa.array(apart)).rename_columns(["user", "item", "label"])
    log = table.filter(pa.array(~apart))
    found = accord.posterior(log.select(["user", "item"]), labels=labels)
    assert found.used
    real = {(row["user"], row["item"]): row["value"] for row in log.to_pylist()}
    truth = np.array([real[row["user"], row["item"]] for row in found.table.to_pylist()]) > 0.5
    assert len(found.table) == len(log)
    p_real = found.table["p_real"].to_numpy()
    assert auc(p_real, truth) > auc(found.estimate.label_free, truth) + 0.01
    halves = labels.set_column(2, "label", pc.add(pc.divide(labels["label"], 2), 0.5))
    assert accord.posterior(log.select(["user", "item"]), labels=halves).used, "who likes half of it does not like it"
    liked = accord.posterior(log.select(["user", "item"]), labels=labels.filter(pc.greater(labels["label"], 0.5)))
    assert not liked.used  # nothing says noise, of the log or outside
    np.testing.assert_allclose(liked.estimate.p_real, liked.estimate.label_free)


def test_refusals_alone_do_not_make_the_log_noise(few_penalties):
    """All that was refused is noise, and was drawn otherwise than the log, of which a twentieth has labels."""
    made = accord.simulate(users=300, items=120, interactions=9_000, seed=4, liked=0.4).dataset.everything().train
    table, rng = made.table.select(["user", "item", "value"]), np.random.default_rng(0)
    real, few = table["value"].to_numpy(), rng.random(len(table)) < 0.05
    owned = set(zip(table["user"].to_pylist(), table["item"].to_pylist(), strict=True))
    users, items = made.user_ids.ids.to_pylist(), made.item_ids.ids.to_pylist()
    drawn = zip(rng.integers(0, len(users), 2_000), rng.integers(0, len(items), 2_000), strict=True)
    refused = sorted({(users[user], items[item]) for user, item in drawn} - owned)
    labels = table.filter(pa.array(few)).to_pylist()
    labels += [{"user": user, "item": item, "value": 0.0} for user, item in refused]
    given = pa.Table.from_pylist(labels).rename_columns(["user", "item", "label"])
    found = accord.posterior(table.select(["user", "item"]), labels=given)
    assert found.used
    ids = zip(*(found.table[name].to_pylist() for name in ("user", "item", "p_real")), strict=True)
    p_real = {(user, item): value for user, item, value in ids}
    rest = [p_real[row["user"], row["item"]] for row in table.filter(pa.array(~few)).to_pylist()]
    assert abs(np.mean(rest) - real[~few].mean()) < 0.1
