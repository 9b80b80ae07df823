"""Next-kNN, against its formula."""

import numpy as np

from accord.models.sequences import halving, what_followed
from helpers import make_model, timed_csr

LOG = timed_csr(30, 12, 0.4)
LOG.columns["weight"] = np.random.default_rng(1).uniform(0.5, 2, len(LOG.items))


def test_weights_are_shrunk_counts_of_what_followed():
    model = make_model("next-knn", LOG, reach=2.0, k=100, balance=0.7, shrink=3.0)
    weight = LOG.columns["weight"]
    counts, sizes = what_followed(LOG, halving(2.0), weight), np.bincount(LOG.items, weight, 12)
    expected = counts / (sizes[:, None] ** 0.7 * sizes**0.3 + 3)
    np.testing.assert_allclose(model.item_to_item().numpy(), expected, rtol=1e-5)
    few = make_model("next-knn", LOG, reach=2.0, k=3, balance=0.7, shrink=3.0).item_to_item().numpy()
    assert ((few > 0).sum(0) <= 3).all()
    np.testing.assert_allclose(few.max(0), expected.max(0), rtol=1e-5)


def test_direction_matters():
    weights = make_model("next-knn", LOG).item_to_item().numpy()
    assert not np.allclose(weights, weights.T)
