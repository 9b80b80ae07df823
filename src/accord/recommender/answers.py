"""The questions that a trained recommender answers, under the caller's ids. Answers are Arrow tables."""

from __future__ import annotations

import operator
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch
from torch import Tensor

from accord.data.columns import Columns
from accord.data.csr import Csr, IntArray
from accord.data.interactions import IdMap, Ids, Interactions
from accord.data.read import read_table
from accord.errors import InputError, shown
from accord.recommender.choice import Choices, Where
from accord.recommender.top_n import REASONS, Agreement, Lists, latest_last

History = Mapping[Any, Sequence[Any]]


class Answers:
    users: IdMap
    items: IdMap
    owned: Csr
    outside: Interactions | None
    item_info: pa.Table | None  # one row per row of `items`: the title and other columns of the items file

    @property
    def lists(self) -> Lists:
        raise NotImplementedError

    @property
    def opinions(self) -> Agreement:
        raise NotImplementedError

    def recommend(
        self,
        users: Ids | None = None,
        k: int = 20,
        *,
        history: History | None = None,
        exclude: Ids = (),
        allow: Ids | None = None,
        where: Where = (),
    ) -> pa.Table:
        """The k best unseen items of each user (None: of all users): a table of user, rank, item, score and source.

        `history` gives items of users who were not in training, the latest last: the model folds them in or, if it
        cannot, the training users with the most similar histories represent them.
        `exclude` are items to leave out, `allow` the only ones to choose from, and `where` conditions on the columns of
        the items file, all of which must hold: `"genre=drama|comedy"`, `["year>=1990", "genre!=war"]`.
        `source` is what a list is based on: the model, the history (fold-in) or popularity.
        """
        ids, barred = self._users(users), self.barred(exclude, allow, where)
        lists = pa.concat_tables(self.lists_in_blocks(ids, k, history=history, barred=barred))
        if len(ids) and not len(lists) and (barred is None or not barred.all()):
            warnings.warn("there is no list: these users have every item that may be recommended.", stacklevel=2)
        place = pc.index_in(lists.column("user"), value_set=ids)  # the order of the request
        return lists.take(pc.sort_indices(pa.table({"place": place}), sort_keys=[("place", "ascending")]))

    def lists_in_blocks(
        self, ids: pa.Array, k: int, *, history: History | None = None, barred: Tensor | None = None
    ) -> Iterator[pa.Table]:
        """The lists of blocks of users as tables, the first empty; `barred` [I] marks items to leave out."""
        k, histories = require_count("k", k), _by_text(history)
        rows = self.users.rows(ids)
        with_history = np.zeros(len(ids), dtype=bool)
        if histories:
            with_history[:] = [str(value) in histories for value in ids.to_pylist()]
        yield of_lists(ids[:0], self.items, np.empty((0, 0), dtype=np.int64), np.empty((0, 0)), "model")
        trained = np.flatnonzero((rows >= 0) & ~with_history)
        done = 0
        for block, items, values in self.lists.ranker.rank(rows[trained], k, barred):
            owners = ids.take(pa.array(trained[done : done + len(block)]))
            done += len(block)
            top, scores = items[0].cpu().numpy(), values[0].cpu().numpy()
            yield of_lists(owners, self.items, top, scores, self.lists.sources(block))
        others = [(ids[n : n + 1], self._history(ids[n], histories[str(ids[n])])) for n in np.flatnonzero(with_history)]
        if len(unknown := ids.take(pa.array(np.flatnonzero((rows < 0) & ~with_history)))):
            others.append((unknown, np.empty(0, dtype=np.int64)))
        for owners, past in others:
            left_out = self._besides_refused(barred, int(self.users.rows(owners[:1])[0]))
            *best, source = self.lists.of_history(past, k, left_out)
            top, scores = (x.cpu().numpy()[None].repeat(len(owners), 0) for x in best)
            yield of_lists(owners, self.items, top, scores, source)

    @cached_property
    def refused(self) -> Csr | None:
        """The pairs outside the log that are no preferences; None where none are known."""
        if self.outside is None:
            return None
        pairs = self.outside.filter(self.outside.column("label") < 0.5)
        return Csr.of(*pairs.rows_in(self.users, self.items), len(self.users), len(self.items))

    def _besides_refused(self, barred: Tensor | None, user: int) -> Tensor | None:
        """Marks [I] of what is barred and of what a user has refused; `user` is -1 for one who is unknown."""
        if self.refused is None or user < 0:
            return barred
        device = self.lists.ranker.device
        marks = torch.zeros(len(self.items), dtype=torch.bool, device=device) if barred is None else barred.clone()
        marks[torch.from_numpy(self.refused.items[slice(*self.refused.ptr[user : user + 2])]).long().to(device)] = True
        return marks

    def _users(self, users: Ids | None) -> pa.Array:
        return self.users.ids if users is None else as_ids("users", users, self.users)

    def _history(self, user: Any, given: Sequence[Any]) -> IntArray:
        """The rows of the distinct items of a history, without unknown ones, the latest last."""
        rows = self.items.rows(as_ids("history", given, self.items)) if len(given) else np.empty(0, int)
        history = latest_last(rows[rows >= 0])
        if unknown := len(set(given)) - len(history):
            warnings.warn(f"user {user}: {unknown} item(s) of the history are unknown.", stacklevel=4)
        return history

    @cached_property
    def choices(self) -> Choices:
        return Choices(len(self.items), self.item_info)

    def barred(self, exclude: Ids = (), allow: Ids | None = None, where: Where = ()) -> Tensor | None:
        """Marks the rows of items [I] to leave out; None if there are none."""
        allowed = None if allow is None else self._item_rows("allow", allow)
        barred = self.choices.barred(self._item_rows("exclude", exclude), allowed, where)
        if barred is not None and barred.all():
            given = [name for name, one in (("exclude", exclude), ("allow", allow)) if one]
            given += [f"where {shown(one)}" for one in ([where] if isinstance(where, str) else where)]
            warnings.warn(f"{' and '.join(given) or 'allow'}: no item is left to recommend.", stacklevel=3)
        return None if barred is None else barred.to(self.lists.ranker.device)

    def _item_rows(self, name: str, given: Ids) -> IntArray:
        """The rows of items, with a warning about unknown ones."""
        rows = self.items.rows(as_ids(name, given, self.items))
        if unknown := int((rows < 0).sum()):
            warnings.warn(f"{name}: {unknown} of {len(rows)} item(s) are unknown.", stacklevel=4)
        return rows[rows >= 0]

    def similar(
        self, items: Ids, k: int = 20, *, exclude: Ids = (), allow: Ids | None = None, where: Where = ()
    ) -> pa.Table:
        """The k items most similar to each item according to the model: similar_to, rank, item, similarity.

        Similarity is the weight between two items in models that have such weights, the cosine of two vectors in those
        that have vectors, the vote of the members that have either in a consensus, and otherwise the cosine of the
        users of two items. It is comparable within a model and not between models.
        """
        ids, k = as_ids("items", items, self.items), require_count("k", k)
        barred, rows = self.barred(exclude, allow, where), self._rows("item", ids, self.items)
        lists = [self.lists.similar_to(row, k, barred) for row in rows.tolist()]
        sizes = [len(others) for others, _ in lists]
        columns = {
            "similar_to": self.items.take(np.repeat(rows, sizes)),
            "rank": pa.array([rank for size in sizes for rank in range(1, size + 1)], pa.int32()),
            "item": self.items.take([row for others, _ in lists for row in others.tolist()]),
            "similarity": pa.array([value for _, values in lists for value in values.tolist()], pa.float32()),
        }
        return pa.table(columns)

    def score(self, users: Ids, items: Ids) -> pa.Table:
        """The score of each user for the item at the same place, as lists rank by it: user, item, score.

        Pairs with an unknown user or item get null. Scores are comparable within a user.
        """
        user_ids, item_ids = self._pairs(users, items)
        user_rows, item_rows = self.users.rows(user_ids), self.items.rows(item_ids)
        trained = (user_rows >= 0) & (item_rows >= 0)
        scores = np.full(len(trained), np.nan, dtype=np.float32)
        scores[trained] = self.lists.scores(user_rows[trained], item_rows[trained])
        return pa.table({"user": user_ids, "item": item_ids, "score": pa.array(scores, mask=~trained)})

    def explain(self, users: Ids, items: Ids, *, most: int = REASONS, history: History | None = None) -> pa.Table:
        """Which items of each user's history speak for the item at the same place, at most `most`: a table of user,
        item, rank, because, value and by.

        `by` says what `value` is: `contribution`, what the item `because` adds to the score, if the score is a sum over
        the history; otherwise the `similarity` of the two items. For a consensus, contributions are those to the
        members with such sums: the votes of other members are not included. A pair without reasons has no row.
        """
        (user_ids, item_ids), most = self._pairs(users, items), require_count("most", most)
        histories, rows = _by_text(history), self._rows("item", item_ids, self.items)
        owners, by_pair = user_ids.to_pylist(), dict[int, list[tuple[int, float, str]]]()
        for user in dict.fromkeys(owners):  # all items of a user at once
            places = [number for number, owner in enumerate(owners) if owner == user]
            source: IntArray | int
            if str(user) in histories:
                source = self._history(user, histories[str(user)])
            else:
                source = int(self._rows("user", pa.array([user]), self.users)[0])
            wanted = torch.from_numpy(rows[places]).to(self.lists.ranker.device)
            sort, of_items = self.lists.reasons(wanted, source, most)
            by_pair |= {n: [(*reason, sort) for reason in one] for n, one in zip(places, of_items, strict=True)}
        flat = [(n, rank, *reason) for n in range(len(owners)) for rank, reason in enumerate(by_pair[n], 1)]
        if owners and not flat:
            why = "nothing in the histories speaks for these items, or the model (such as popularity) has no reasons"
            warnings.warn(f"there are no reasons: {why}.", stacklevel=2)
        number, rank, because, value, by = zip(*flat, strict=True) if flat else ((), (), (), (), ())
        columns = {
            "user": user_ids.take(pa.array(number, pa.int64())),
            "item": self.items.take(rows[list(number)]),
            "rank": pa.array(rank, pa.int32()),
            "because": self.items.take(because),
            "value": pa.array(value, pa.float32()),
            "by": pa.array(by, pa.string()),
        }
        return pa.table(columns)

    def _pairs(self, users: Ids, items: Ids) -> tuple[pa.Array, pa.Array]:
        pairs = as_ids("users", users, self.users), as_ids("items", items, self.items)
        if len(pairs[0]) != len(pairs[1]):
            counts = f"there are {len(pairs[0])} users and {len(pairs[1])} items"
            raise InputError(f"{counts}; give one item for each user.")
        return pairs

    def _rows(self, kind: str, ids: pa.Array, training: IdMap) -> IntArray:
        rows = training.rows(ids)
        if len(rows) and rows.min() < 0:
            name = ids[int(np.argmin(rows))].as_py()
            raise InputError(f"no {kind} {shown(name)} was in the training data; give an id that was.")
        return rows

    def agreement(self, pairs: Interactions | Any) -> pa.Table:
        """For each pair of a user and an item: the rank that each member of a consensus gives the item among the items
        that the user does not have, from 1, and how many members have it in their top 20. Null for unknown ids."""
        given = as_interactions(pairs)
        return self.opinions.table(given, *given.rows_in(self.users, self.items))

    def titles(self, items: Ids) -> pa.Array:
        """The titles of items, null for items without one."""
        if self.item_info is None:
            return pa.nulls(len(items), pa.string())
        rows = self.items.rows(items)
        return self.item_info.column("title").combine_chunks().take(pa.array(rows, mask=rows < 0))

    def with_titles(self, table: pa.Table) -> pa.Table:
        """A table with a `title` column after its `item` column, if the run has titles, and one after `because`."""
        info = self.item_info
        titled = info is not None and info.column("title").null_count < len(info)
        for name, title in (("item", "title"), ("because", "because_title")):
            if titled and name in table.column_names:
                place = table.column_names.index(name) + 1
                table = table.add_column(place, title, self.titles(table.column(name)))
        return table


def _by_text(history: History | None) -> dict[str, Sequence[Any]]:
    """Histories by the text of their users' ids."""
    if history is not None and not isinstance(history, Mapping):
        raise InputError(f"history is {shown(history)}; give the items of each user: {{user: [item, item]}}.")
    return {str(user): items for user, items in (history or {}).items()}


def as_ids(name: str, given: Ids, training: IdMap) -> pa.Array:
    """The ids that a caller gives as `name`, as one Arrow array: of the training ids' type if possible."""
    if isinstance(given, pa.ChunkedArray):
        ids = given.combine_chunks()
    else:
        if isinstance(given, str | bytes) or not isinstance(given, Iterable):
            raise InputError(f"{name} is {shown(given)}, but a list of ids is needed; give [{shown(given)}].")
        given = given if hasattr(given, "__len__") else list(given)
        try:
            ids = pa.array(given)
        except (pa.ArrowInvalid, pa.ArrowTypeError):  # numbers and text together
            ids = pa.array([str(one) for one in given])
    try:
        return ids.cast(training.ids.type)
    except pa.ArrowInvalid:  # text that is no number, in a run whose ids are numbers: unknown
        return ids.cast(pa.string())
    except pa.ArrowNotImplementedError:
        raise InputError(f"{name} contains {ids.type}, and ids are text or whole numbers; give those.") from None


def require_count(name: str, given: Any) -> int:
    """A positive whole number that a caller gives as `name`."""
    try:
        count = operator.index(given)
    except TypeError:
        count = 0
    if count < 1 or isinstance(given, bool):
        raise InputError(f"{name} is {shown(given)}; give a whole number from 1 up.")
    return count


def of_lists(users: pa.Array, all_items: IdMap, items: IntArray, scores: Any, source: Any) -> pa.Table:
    """Lists [B, k] of item rows as table rows; ranks without an item (fewer unseen items than k) are left out."""
    depth = items.shape[1]
    keep = np.isfinite(scores).ravel()
    owner = np.repeat(np.arange(len(users)), depth)[keep]
    sources = np.broadcast_to(np.asarray(source), (len(users),))[owner]
    columns = {
        "user": users.take(pa.array(owner)),
        "rank": pa.array(np.tile(np.arange(1, depth + 1), len(users))[keep], pa.int32()),
        "item": all_items.take(items.ravel()[keep]),
        "score": pa.array(scores.ravel()[keep], pa.float32()),
        "source": pa.array(sources.tolist(), pa.string()),
    }
    return pa.table(columns)


def as_interactions(source: Interactions | Any, columns: Columns | Mapping[str, str] | None = None) -> Interactions:
    """Interactions as they are, or anything that can be read as a table of them."""
    return source if isinstance(source, Interactions) else read_table(source, Columns.of(columns), merge=False)[0]
