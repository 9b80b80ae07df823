"""Plain cross-entropy, its popular negatives and its ensemble against formulas in NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from method_cases import found, make, means, probability, random_batch, split, summed


@pytest.mark.parametrize("name", ["normal", "wbpr"])
def test_plain_cross_entropy(name):
    method, batch = make(name), random_batch()
    positive, negative = split(probability(method.target, batch))
    np.testing.assert_allclose(found(method, batch), means(-np.log(positive), -np.log(1 - negative)), rtol=1e-9)


def test_summed_cross_entropy():
    method, batch = make("normal"), random_batch()
    method.rules = summed()
    positive, negative = split(probability(method.target, batch))
    np.testing.assert_allclose(found(method, batch), -np.log(positive).sum(1) - np.log(1 - negative).sum(1), rtol=1e-9)
