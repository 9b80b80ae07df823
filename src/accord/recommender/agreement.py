"""How the members of a consensus place items, and how many of them agree."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from accord.data.csr import Csr, Rows
from accord.data.interactions import Interactions
from accord.errors import InputError
from accord.kernels.lookups import entries_of
from accord.methods.base import Method
from accord.models.consensus import Consensus, vote

CELLS_AT_ONCE = 2**26
AGREES = 20  # a member agrees with what it has in a list of its own of this length


class Agreement:
    """The opinions of the members of a trained consensus."""

    def __init__(self, method: Method, owned: Csr, labels: list[str]) -> None:
        """`owned`: what users have, which takes no place in anybody's list."""
        assert isinstance(method.target, Consensus)
        self.members, self.labels, self.num_items = list(method.target.members), _apart(labels), owned.num_items
        ptr, items = (torch.from_numpy(part) for part in (owned.ptr, owned.items))
        device = next(iter(method.state_dict().values())).device
        self._ptr, self._items, self._device = ptr.to(device), items.to(device).long(), device

    @classmethod
    def of(cls, method: Method, owned: Csr, labels: list[str]) -> Agreement:
        if not isinstance(method.target, Consensus):
            raise InputError("only the members of a consensus can agree; train with --model auto or consensus.")
        return cls(method, owned, labels)

    @torch.inference_mode()
    def places(self, users: Tensor, items: Tensor) -> Tensor:
        """The place of items [B, k] in the list of each member for users [B], the best being 1: [M, B, k]."""
        owner, own, _ = entries_of(self._ptr, self._items, users)
        found = []
        for member in self.members:
            scores = vote(member, users)
            wanted = scores.gather(1, items)
            scores[owner, own] = -torch.inf
            found.append(torch.stack([(scores > one.unsqueeze(1)).sum(1) + 1 for one in wanted.unbind(1)], 1))
        return torch.stack(found)

    def count(self, places: Tensor) -> Tensor:
        """How many members have an item high up: [B, k]."""
        return (places <= AGREES).sum(0)

    def table(self, pairs: Interactions, users: Rows, items: Rows) -> pa.Table:
        """Pairs, and their rows: how many members agree, of how many there are, and the place by each; null for who is
        unknown."""
        known = (users >= 0) & (items >= 0)
        places = np.zeros((len(self.labels), len(pairs)), dtype=np.int64)
        for part in np.array_split(np.flatnonzero(known), max(1, int(known.sum()) * self.num_items // CELLS_AT_ONCE)):
            rows = [torch.from_numpy(x[part]).to(self._device).long() for x in (users, items)]
            places[:, part] = self.places(rows[0], rows[1].unsqueeze(1)).squeeze(2).cpu().numpy()
        columns = {"agree": (places <= AGREES).sum(0), "of": np.full(len(pairs), len(self.labels))}
        columns |= dict(zip(self.labels, places, strict=True))
        found = {name: pa.array(values, pa.int32(), mask=~known) for name, values in columns.items()}
        return pa.table({"user": pairs.users, "item": pairs.items, **found})


def _apart(labels: list[str]) -> list[str]:
    """Members of one label by numbers."""
    seen: dict[str, int] = {}
    found = []
    for label in labels:
        seen[label] = seen.get(label, 0) + 1
        found.append(label if seen[label] == 1 else f"{label} ({seen[label]})")
    return found
