"""The rank of a held-out item among all items that its user never touched."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from accord.data.csr import Csr, IntArray
from accord.kernels.lookups import entries_of

AT_ONCE = 2**24  # scores held in memory

Floats = npt.NDArray[np.float64]


def percentiles(
    score_all: Callable[[Tensor], Tensor],
    runs: int,
    held: Csr,
    log: Csr,
    device: torch.device,
    user_block: int | None = None,
) -> Floats:
    """For every pair of `held` [n] and each run, the share of its user's untouched items that score lower: [runs, n].

    An interaction that says nothing about its user falls anywhere among them, so its percentile is uniform. Items that
    score the same count half; NaN where the user has touched every item.
    """
    ptr, items = (torch.from_numpy(part).to(device) for part in (log.ptr, log.items))
    own_ptr, own_items = (torch.from_numpy(part).to(device) for part in (held.ptr, held.items))
    found = []
    for rows in _blocks(held, runs, user_block):
        users = torch.from_numpy(rows).to(device)
        scores = score_all(users).float()
        owner, own, _ = entries_of(own_ptr, own_items, users)
        wanted = scores[:, owner, own]
        touched, touched_items, _ = entries_of(ptr, items, users)
        scores[:, touched, touched_items] = torch.inf
        free = held.num_items - (ptr[users + 1] - ptr[users])
        # Users have few held-out items each: comparing is faster than sorting. Of all items, those below count 1, those
        # that score the same 0 and those above, the touched among them, -1.
        size = max(1, AT_ONCE // (runs * held.num_items))
        for pairs in torch.split(torch.arange(len(owner), device=device), size):
            signs = torch.sub(wanted[:, pairs, None], scores[:, owner[pairs]]).sign_().sum(-1).double()
            found.append(((held.num_items + signs) / 2 / free[owner[pairs]]).cpu().numpy())
    return np.concatenate(found, 1) if found else np.zeros((runs, 0))


def _blocks(held: Csr, runs: int, user_block: int | None) -> Iterator[IntArray]:
    users = np.flatnonzero(held.counts)
    size = max(1, AT_ONCE // (runs * held.num_items))
    size = size if user_block is None else min(size, user_block)
    for start in range(0, len(users), size):
        yield users[start : start + size]
