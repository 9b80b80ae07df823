"""How the members of a consensus rank items, and how many of them agree."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from accord.data.csr import Csr, Rows
from accord.data.interactions import Interactions
from accord.errors import Argument, InputError
from accord.kernels.lookups import entries_of
from accord.methods.base import Method
from accord.models.consensus import Consensus, vote

CELLS_AT_ONCE = 2**26
AGREES = 20  # a member agrees with the items of its own top 20


class Agreement:
    """The opinions of the members of a trained consensus."""

    def __init__(self, method: Method, owned: Csr, labels: list[str]) -> None:
        """`owned`: the items that users have already, which are in nobody's list."""
        if not isinstance(method.target, Consensus):
            raise InputError(
                "only the members of a consensus can agree; train one with ", Argument("model", "auto"), "."
            )
        self.members, self.labels, self.num_items = list(method.target.members), _distinct(labels), owned.num_items
        self._device = next(iter(method.state_dict().values())).device
        self._ptr = torch.from_numpy(owned.ptr).to(self._device)
        self._items = torch.from_numpy(owned.items).to(self._device).long()

    @torch.inference_mode()
    def places(self, users: Tensor, items: Tensor) -> Tensor:
        """The rank of items [B, k] in each member's list for users [B], from 1: [M, B, k]."""
        rows, owned, _ = entries_of(self._ptr, self._items, users)
        ranks = []
        for member in self.members:
            scores = vote(member, users)
            wanted = scores.gather(1, items)
            scores[rows, owned] = -torch.inf
            ranks.append(torch.stack([(scores > one.unsqueeze(1)).sum(1) + 1 for one in wanted.unbind(1)], 1))
        return torch.stack(ranks)

    def count(self, places: Tensor) -> Tensor:
        """How many members have an item in their top 20: [B, k]."""
        return (places <= AGREES).sum(0)

    def table(self, pairs: Interactions, users: Rows, items: Rows) -> pa.Table:
        """For pairs, and their rows: how many members agree, of how many, and each member's rank; null if unknown."""
        in_data = (users >= 0) & (items >= 0)
        places = np.zeros((len(self.labels), len(pairs)), dtype=np.int64)
        blocks = max(1, int(in_data.sum()) * self.num_items // CELLS_AT_ONCE)
        for part in np.array_split(np.flatnonzero(in_data), blocks):
            rows = [torch.from_numpy(x[part]).to(self._device).long() for x in (users, items)]
            places[:, part] = self.places(rows[0], rows[1].unsqueeze(1)).squeeze(2).cpu().numpy()
        columns = {"agree": (places <= AGREES).sum(0), "of": np.full(len(pairs), len(self.labels))}
        columns |= dict(zip(self.labels, places, strict=True))
        arrays = {name: pa.array(values, pa.int32(), mask=~in_data) for name, values in columns.items()}
        return pa.table({"user": pairs.users, "item": pairs.items, **arrays})


def _distinct(labels: list[str]) -> list[str]:
    """Labels with a number where several members have the same."""
    numbers = [labels[: place + 1].count(label) for place, label in enumerate(labels)]
    return [f"{label} ({n})" if n > 1 else label for label, n in zip(labels, numbers, strict=True)]
