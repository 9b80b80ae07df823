"""Features of interactions: their scale, their groups, and the order of the label-free column."""

from __future__ import annotations

import numpy as np

from accord.models.histories import interaction_matrix
from accord.posteriors.features import GROUPS, Features
from helpers import small_data

DATA = small_data()
FEATURES = Features.of(interaction_matrix(DATA.training_csr()))


def test_every_feature_has_mean_zero_and_spread_one_and_a_factor_the_less_the_less_it_explains():
    block = FEATURES.block(np.arange(len(FEATURES)))
    assert block.shape == (560, len(FEATURES.groups))
    np.testing.assert_allclose(block.mean(0), 0, atol=1e-9)
    spread, values = block.std(0), FEATURES.factors.values
    counts = spread[FEATURES.groups == 0]
    assert np.all(np.isclose(counts, 1) | (counts == 0))
    for place in (1, 2, 3):
        own = spread[FEATURES.groups == place][1:]  # the first factor may have none
        np.testing.assert_allclose(own, (values[1:] / values[1]) ** 2)
    assert np.isfinite(block).all()
    assert set(FEATURES.groups) == set(range(len(GROUPS)))


def test_some_rows_are_those_of_all():
    rows = np.array([5, 17, 401])
    np.testing.assert_array_equal(FEATURES.block(rows), FEATURES.block(np.arange(len(FEATURES)))[rows])


def test_the_label_free_column_has_the_order_of_the_mean_over_families():
    mean = FEATURES.opinions.mean(0)
    order = np.argsort(mean, kind="stable")
    assert (np.diff(FEATURES.prior[order]) >= 0).all()
    same = np.diff(mean[order]) == 0
    assert (np.diff(FEATURES.prior[order])[same] == 0).all()


def test_the_same_bits_every_time():
    again = Features.of(interaction_matrix(DATA.training_csr()))
    rows = np.arange(len(FEATURES))
    assert np.array_equal(again.block(rows), FEATURES.block(rows))
    assert np.array_equal(again.prior, FEATURES.prior)
