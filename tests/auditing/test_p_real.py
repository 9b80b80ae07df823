"""Percentiles among untouched items."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from accord.auditing.p_real import percentiles
from helpers import CPU, csr


def test_percentiles_are_shares_of_untouched_items():
    rng = np.random.default_rng(0)
    scores = rng.integers(0, 4, size=(2, 5, 8)).astype(np.float32)  # many ties
    log = csr(5, 8, [(u, i) for u in range(4) for i in rng.choice(8, 4, replace=False)])
    held = csr(5, 8, [(u, log.items[log.ptr[u] + k]) for u in (0, 2, 3) for k in (0, 2)])
    found = percentiles(lambda users: torch.from_numpy(scores)[:, users].clone(), 2, held, log, CPU, user_block=2)
    assert found.shape == (2, 6)
    for run in range(2):
        for place, (user, item) in enumerate(zip(held.users, held.items, strict=True)):
            free = np.setdiff1d(np.arange(8), log.items[log.ptr[user] : log.ptr[user + 1]])
            own, others = scores[run, user, item], scores[run, user, free]
            assert found[run, place] == pytest.approx((np.mean(others < own) + np.mean(others <= own)) / 2)


def test_who_has_every_item_has_no_percentile():
    log = csr(2, 3, [(0, 0), (0, 1), (0, 2), (1, 0)])
    found = percentiles(lambda users: torch.rand(1, len(users), 3), 1, csr(2, 3, [(0, 1), (1, 0)]), log, CPU)
    assert np.isnan(found[0, 0])
    assert not np.isnan(found[0, 1])
