"""Negatives in proportion to popularity; tests/data/test_sampling*.py draw by them too."""

from __future__ import annotations

import pytest
import torch

from accord.data.sampling import Negatives
from accord.errors import InputError
from accord_lab.methods.popular_negatives import PopularNegatives
from helpers import csr
from samplers import pairs_of, stream


def test_items_that_nobody_took_have_no_popularity_to_be_drawn_by():
    matrix = csr(3, 6, [(0, 1), (1, 3), (2, 4)])  # items 0, 2 and 5 are in nobody's train
    drawn = PopularNegatives(pairs_of(matrix), 0.0).draw(torch.arange(3).repeat(500), stream())
    assert set(drawn.tolist()) == {1, 3, 4}


def test_a_user_with_every_popular_item_is_an_input_error():
    matrix = csr(2, 4, [(0, 0), (0, 1), (1, 0)])  # user 0 has all that anybody took
    Negatives(pairs_of(matrix))
    with pytest.raises(InputError, match="every popular item"):
        PopularNegatives(pairs_of(matrix), 0.0)


def test_weights_of_popularity_are_whole_numbers():
    matrix = csr(4, 3, [(0, 0), (1, 0), (2, 0), (3, 1)])
    pairs = pairs_of(matrix)
    for popularity in (0.0, 0.25):
        assert PopularNegatives(pairs, popularity).weight.dtype == torch.long, "exact however many there are"
    assert PopularNegatives(pairs, 0.0).weight.tolist() == [3, 1, 0]
    assert PopularNegatives(pairs, 0.25).weight.tolist() == [4000, 2000, 1000], (
        "a quarter of four users, and as much for each"
    )
