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
    liked = accord.posterior(log.select(["user", "item"]), labels=labels.filter(pc.greater(labels["label"], 0.5)))
    assert not liked.used  # nothing says noise, of the log or outside
    np.testing.assert_allclose(liked.estimate.p_real, liked.estimate.label_free)
