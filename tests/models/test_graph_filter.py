"""The graph filter against a dense computation."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from accord.errors import InputError
from accord.models import graph_filter
from accord.models.graph_filter import GraphFilter
from helpers import make_model
from oracles import ITEMS, PLAIN, dense, each_case, scores_of, weighted


@each_case
@pytest.mark.parametrize("power", [0.5, 1.0, 1.7])
def test_against_a_dense_computation(train, power):
    x = dense(train)
    degrees = np.sqrt(np.outer(x.sum(1), x.sum(0)))
    scaled = np.divide(x, degrees, out=np.zeros_like(x), where=degrees > 0)
    expected = (scaled.T @ scaled) ** power
    model = make_model("graph-filter", train, power=power)
    assert model.weight.dtype == torch.float32
    np.testing.assert_allclose(model.item_to_item().numpy(), expected, rtol=1e-6)
    np.testing.assert_allclose(scores_of(model), x @ expected, rtol=1e-5)
    np.testing.assert_allclose(model.fold_in(torch.tensor([2, 9])).numpy(), expected[[2, 9]].sum(0)[None], rtol=1e-5)


@each_case
def test_factors_against_a_singular_value_decomposition(train):
    x = dense(train)
    degrees = x.sum(0)
    both = np.sqrt(np.outer(x.sum(1), degrees))
    scaled = np.divide(x, both, out=np.zeros_like(x), where=both > 0)
    first = np.linalg.svd(scaled)[2][:3].T
    root = np.sqrt(degrees)[:, None]
    inverse = np.divide(1, root, out=np.zeros_like(root), where=root > 0)
    expected = scaled.T @ scaled + 0.7 * (inverse * first) @ (root * first).T
    model = make_model("graph-filter", train, power=1.0, factors=3, share=0.7)
    np.testing.assert_allclose(model.item_to_item().numpy(), expected, atol=2e-4)
    every = make_model("graph-filter", train, power=1.0, factors=99).item_to_item().numpy()  # more than there are
    assert np.isfinite(every).all()


def test_rows_in_parts_are_the_rows_at_once(monkeypatch):
    whole = make_model("graph-filter", weighted(PLAIN)).weight
    monkeypatch.setattr(graph_filter, "ROWS_AT_ONCE", 4)
    assert torch.equal(make_model("graph-filter", weighted(PLAIN)).weight, whole)


def test_it_refuses_more_items_than_it_can_keep(monkeypatch):
    monkeypatch.setattr(GraphFilter, "most_items", ITEMS - 1)
    with pytest.raises(InputError, match="graph-filter keeps an items x items matrix, and 14 items are too many"):
        make_model("graph-filter", PLAIN)


def test_a_gpu_finds_the_same_factors():
    x = sp.random(60, 40, 0.2, "csr", random_state=0)
    start = np.random.default_rng(0).standard_normal((40, 26))
    found = graph_filter._vectors_on(torch.device("cpu"), x, start, 6)[:, :10]
    expected = graph_filter.right_singular_vectors(x, 10)
    np.testing.assert_allclose(found @ found.T, expected @ expected.T, atol=1e-9)
