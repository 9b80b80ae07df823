"""What models that score from a history share: matrices, the k best of a row, histories end to end."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from accord.models.histories import interaction_matrix, item_quality, one_thread, power_or_zero
from helpers import csr, make_model

LOG = csr(4, 5, [(0, 1), (0, 4), (2, 0), (2, 1), (2, 3), (3, 2)])  # user 1 has nothing


def test_the_matrix_has_ones_or_weights():
    x = interaction_matrix(LOG).toarray()
    assert x.sum() == 6
    assert x[2].tolist() == [1, 1, 0, 1, 0]
    weighted = interaction_matrix(LOG, np.arange(1.0, 7)).toarray()
    assert weighted[0].tolist() == [0, 1, 0, 0, 2]
    assert weighted[3, 2] == 6


def test_a_power_of_nothing_is_zero():
    assert power_or_zero(np.array([0.0, 4.0, 9.0]), -0.5).tolist() == [0, 0.5, pytest.approx(1 / 3)]


def test_histories_lie_end_to_end():
    model = make_model("ease", LOG, l2=1)
    owner, items, starts, counts = model.histories(torch.tensor([2, 1, 0]))
    assert owner.tolist() == [0, 0, 0, 2, 2]
    assert items.tolist() == [0, 1, 3, 1, 4]
    assert starts.tolist() == [0, 3, 3]
    assert counts is None


def test_threads_come_back_after_an_error():
    before, within = torch.get_num_threads(), []
    with pytest.raises(ZeroDivisionError), one_thread():
        within.append(torch.get_num_threads() / 0)
    assert not within
    assert torch.get_num_threads() == before


def test_the_quality_of_an_item_is_drawn_to_that_of_all():
    p_real = np.array([1.0, 0.0, 1.0, 1.0, 0.5, 0.1])  # of items 1, 4, 0, 1, 3, 2
    mean = p_real.mean()
    share = (np.array([1.0, 2.0, 0.1, 0.5, 0.0]) + 5 * mean) / (np.array([1, 2, 1, 1, 1]) + 5)
    logit = np.log(share / (1 - share))
    np.testing.assert_allclose(item_quality(LOG, p_real), logit - logit.mean())
    assert item_quality(LOG, np.ones(6)).tolist() == [0.0] * 5
