"""Items without interactions, by what an items file says of them.

For each user the scores y of the other items, of any model, give those of new items. What the user has counts like the
best of them. A ridge regression from the attributes X of the others gives new items with attributes Z the scores
Z (X'X + c)^-1 X'(y - mean) + mean, and those nearest by attributes give the mean of theirs, weighted by the cosines: a
new item gets the mean of both, which are linear maps, the same for all users."""

from __future__ import annotations

import warnings
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import scipy.sparse as sp
import torch
from torch import Tensor

from accord.data.attributes import Attributes, unit
from accord.data.csr import IntArray, Rows
from accord.data.interactions import IdMap, Ids, Interactions
from accord.data.titles import read_items
from accord.errors import Argument, InputError, shown
from accord.kernels.lookups import entries_of
from accord.recommender.answers import Answers, History
from accord.recommender.top_n import REASONS, Agreement, Lists, Reasons, Similarity
from accord.recommender.updating import union

PENALTY = 30.0  # of the regression: from 10 to 100 hardly another result on MovieTweetings and on Coat
NEAR, MOST_NEAR = 10, 100  # of the others, and with those that are as near as the last of these
CELLS_AT_ONCE = 2**24
NAMED = 3  # attributes that two items share


class NothingNew(InputError):
    pass


class WithNewItems(Answers):
    """What a recommender answers with new items, whose rows come after its own."""

    def __init__(self, before: Answers, source: Any) -> None:
        """`source`: a file or frame of new items, and of the others too unless the run was trained with one."""
        ids, info, label = read_items(source)
        ids = union(before.items, IdMap(ids.combine_chunks()), "item")[1].ids
        rows = before.items.rows(ids)
        fresh = np.flatnonzero(rows < 0)
        if not len(fresh):
            raise NothingNew(f"{label}: all its items were in the training data; give a file with new ones.")
        self.before, self.known = before, len(before.items)
        self.users, self.outside = before.users, before.outside
        self.items = IdMap(pa.concat_arrays([before.items.ids, ids.take(pa.array(fresh))]))
        self.owned = replace(before.owned, num_items=len(self.items))
        self.item_info = self._joined(label, info, rows, fresh)
        self.attributes = Attributes.of(self.item_info)
        for name in self.attributes.unused:
            warnings.warn(f"{label}: column {shown(name)} does not distinguish items and is not used.", stacklevel=3)
        if without := int((np.diff(self.attributes.matrix.indptr)[self.known :] == 0).sum()):
            what = f"{label}: {without:,} of {len(fresh):,} new items share no attribute with others"
            warnings.warn(f"{what}; they get the mean of each user's scores.", stacklevel=3)

    def _joined(self, label: str, info: pa.Table, rows: Rows, fresh: IntArray) -> pa.Table:
        """A row for each item: of the file or, where it has new items alone, also of what the run was trained with."""
        place, trained = np.full(self.known, -1), self.before.item_info
        place[rows[rows >= 0]] = np.flatnonzero(rows >= 0)
        if len(fresh) == len(rows):
            if trained is None:
                why = f"{label} describes no item of the training data; give a file of all items, or train with "
                raise InputError(why, Argument("items"), ".")
            place = len(info) + np.arange(self.known)
            try:
                info = pa.concat_tables([info, trained], promote_options="permissive")
            except pa.ArrowException:
                raise InputError(
                    f"{label} has columns of another type than the run's; describe all items in it."
                ) from None
        order = np.append(place, fresh)
        return info.take(pa.array(order, mask=order < 0))

    @cached_property
    def lists(self) -> Lists:
        return _Lists(self.before.lists, self.attributes.matrix)

    @property
    def opinions(self) -> Agreement:
        return self.before.opinions

    def agreement(self, pairs: Interactions | Any) -> pa.Table:
        return self.before.agreement(pairs)

    def explain(self, users: Ids, items: Ids, *, most: int = REASONS, history: History | None = None) -> pa.Table:
        """As without new items; for these `by` is `attributes`, `value` the cosine of their attributes and those of an
        item of the history, and `shared` the attributes that say most."""
        table = super().explain(users, items, most=most, history=history)
        item, because = (self.items.rows(table.column(name)) for name in ("item", "because"))
        new = item >= self.known
        shared = [self.shared(i, b) if one else None for i, b, one in zip(item, because, new, strict=True)]
        place, by = table.column_names.index("by"), table.column("by")
        table = table.set_column(place, "by", pc.if_else(pa.array(new), "attributes", by))
        return table.append_column("shared", pa.array(shared, pa.string()))

    def shared(self, item: int, other: int) -> str:
        """The attributes that say most of what two items, by their rows, have in common."""
        both = self.attributes.matrix[[item]].multiply(self.attributes.matrix[[other]]).tocoo()
        best = np.argsort(-both.data, kind="stable")[:NAMED]
        return ", ".join(self.attributes.names[feature] for feature in both.col[best])


class _Lists(Lists):
    """The rankings of a run and of new items."""

    def __init__(self, before: Lists, attributes: Any) -> None:
        """`attributes` [I + N, F], those of the new items last."""
        ranker, counts = before.ranker, before.train.popularity()
        self.extended = Extension(attributes, counts, ranker.device)
        self._unit = _tensor(unit(attributes), ranker.device)
        seen, train = (replace(pairs, num_items=attributes.shape[0]) for pairs in (ranker.seen, ranker.train))
        ptr, items = (torch.from_numpy(part).to(ranker.device) for part in (train.ptr, train.items))

        def score_all(users: Tensor) -> Tensor:
            return self.extended(ranker.score_all(users), entries_of(ptr, items, users)[:2])

        larger = replace(ranker, newcomers=self.extended(ranker.tables.newcomers), seen=seen, train=train)
        super().__init__(before.method, replace(larger, score_all=score_all))
        self._before, self._known = before, len(counts)

    def _fold_in(self, history: Tensor) -> Tensor | None:
        history = history[history < self._known]
        scores = self._before._fold_in(history) if len(history) else None
        return None if scores is None else self.extended(scores[None], (torch.zeros_like(history), history))[0]

    @cached_property
    def similar(self) -> Similarity:
        """Of a new item the cosine of attributes; of another what the model has, and new items by it."""

        def to_all(item: int) -> Tensor:
            if item >= self._known:
                return self._cosine(torch.tensor([item]))[0]
            return self.extended(self._before.similar.to_all(item).to(self.ranker.device))

        return Similarity(to_all, lambda items, others: torch.stack([to_all(item)[others] for item in items.tolist()]))

    def _cosine(self, items: Tensor) -> Tensor:
        """Of the attributes of items [m] and of all: [m, I + N]."""
        some = self._unit.index_select(0, items.to(self._unit.device)).to_dense()
        cosine: Tensor = torch.sparse.mm(self._unit, some.T).T
        return cosine

    @torch.inference_mode()
    def reasons(self, items: Tensor, source: int | Rows, limit: int = REASONS) -> Reasons:
        history = self._history(source)
        rows, new = history[history < self._known], (items >= self._known).cpu().numpy()
        reasons = self._before.reasons(items[items < self._known], source if isinstance(source, int) else rows, limit)
        ours = iter(reasons.of_items)
        by_cosine = self._cosine(items[items >= self._known])[:, torch.from_numpy(history).to(items)]
        theirs = iter(self._strongest(by_cosine, history, limit))
        return Reasons(reasons.by, [next(theirs if one else ours) for one in new])


class Extension:
    """Scores of items with interactions -> of these and of new ones."""

    def __init__(self, attributes: Any, counts: IntArray, device: torch.device) -> None:
        """`attributes` [I + N, F]; `counts` [I]: what has no interactions in training says nothing."""
        self.size = len(counts)
        known = sp.diags_array((counts > 0).astype(np.float32)) @ attributes[: self.size]
        gram = (known.T @ known).toarray().astype(np.float64)
        inverse = np.linalg.inv(gram + PENALTY * np.eye(len(gram)))
        self._inverse = torch.from_numpy(inverse.astype(np.float32)).to(device)
        self._known, self._new = _tensor(known.T, device), _tensor(attributes[self.size :], device)
        self._near = _tensor(nearest(unit(attributes[self.size :]), unit(known)), device)

    @torch.inference_mode()
    def __call__(self, scores: Tensor, owned: tuple[Tensor, Tensor] | None = None) -> Tensor:
        """[..., I] -> [..., I + N]. `owned`: rows of scores [..., B, I], and items that the user of each has."""
        mean, liked = scores.mean(-1, keepdim=True), scores
        if owned is not None:
            liked = scores.clone()
            liked[(..., *owned)] = scores.amax(-1)[..., owned[0]]
        flat = (liked - mean).reshape(-1, self.size).T
        new = torch.sparse.mm(self._new, self._inverse @ torch.sparse.mm(self._known, flat))
        new = ((new + torch.sparse.mm(self._near, flat)) / 2).T
        return torch.cat([scores, new.reshape(*scores.shape[:-1], -1) + mean], -1)


def nearest(new: Any, known: Any) -> Any:
    """Of attributes of norm 1, the cosines [N, I] of new items and of the `NEAR` nearest of the others, as shares."""
    rows = []
    for block in np.array_split(np.arange(new.shape[0]), 1 + new.shape[0] * known.shape[0] // CELLS_AT_ONCE):
        cosines = (new[block] @ known.T).toarray()
        best = np.argsort(-cosines, axis=1, kind="stable")[:, :MOST_NEAR]
        values = np.take_along_axis(cosines, best, 1)
        values[values < values[:, :NEAR][:, -1:] - 1e-6] = 0
        values /= np.maximum(values.sum(1, keepdims=True), 1e-9)
        ends = np.arange(len(best) + 1) * best.shape[1]
        rows.append(sp.csr_array((values.ravel(), best.ravel(), ends), cosines.shape))
    return sp.vstack(rows)


def _tensor(matrix: Any, device: torch.device) -> Tensor:
    coo = matrix.tocoo()
    place = torch.from_numpy(np.stack([coo.row, coo.col]).astype(np.int64))
    values = torch.from_numpy(coo.data.astype(np.float32))
    return torch.sparse_coo_tensor(place, values, coo.shape, device=device, check_invariants=True).coalesce()
