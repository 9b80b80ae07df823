"""What a trained recommender is asked, by the caller's own ids. Answers are Arrow tables."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from accord.data.csr import Csr, IntArray
from accord.data.interactions import IdMap, Ids, Interactions
from accord.errors import InputError, shown
from accord.evaluation.ranking import Rank
from accord.recommender import reasons, tables
from accord.recommender.agreement import Agreement
from accord.recommender.choice import Choices, Where
from accord.recommender.top_n import Lists, latest_last

History = Mapping[Any, Sequence[Any]]


class Answers:
    """Recommendations, similar items, scores and reasons of what has ids and lists."""

    users: IdMap
    items: IdMap
    owned: Csr
    item_info: pa.Table | None  # a row for each row of `items`: title, and whatever else is known

    @property
    def lists(self) -> Lists:
        """What ranks, by row numbers."""
        raise AssertionError("a recommender has lists")

    @property
    def opinions(self) -> Agreement:
        """How the members of a consensus place items."""
        raise AssertionError("a recommender says what its members think")

    # --- recommendations

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

        `history` gives items for users who were not in training, the latest last: the model folds them in or, where it
        cannot, the users of training who are most alike stand in for them.
        `exclude` are items to leave out, `allow` the only ones to choose from, and `where` conditions on the columns of
        the items file, all of which must hold: `"genre=drama|comedy"`, `["year>=1990", "genre!=war"]`.
        `source` says where a list comes from: the model, the history (fold-in) or popularity.
        """
        ids = self._users(users)
        barred = self.barred(exclude, allow, where)
        lists = pa.concat_tables(self.lists_in_blocks(ids, k, history=history, barred=barred))
        place = pa.compute.index_in(lists.column("user"), value_set=ids)  # in the order in which they were asked for
        return lists.take(pa.compute.sort_indices(pa.table({"place": place}), sort_keys=[("place", "ascending")]))

    def recommend_batches(
        self,
        users: Ids | None = None,
        k: int = 20,
        *,
        history: History | None = None,
        exclude: Ids = (),
        allow: Ids | None = None,
        where: Where = (),
    ) -> pa.RecordBatchReader:
        """`recommend` as a reader of Arrow batches, made as they are read: for more users than fit into memory.

        Users of training come first, and the lists of a user are in one batch. Whatever takes Arrow reads from it:
        DuckDB, Polars, `pyarrow.dataset.write_dataset`.
        """
        blocks = self.lists_in_blocks(self._users(users), k, history=history, barred=self.barred(exclude, allow, where))
        return pa.RecordBatchReader.from_batches(
            next(blocks).schema, (batch for block in blocks for batch in block.combine_chunks().to_batches())
        )

    def lists_in_blocks(
        self,
        ids: pa.Array,
        k: int,
        *,
        history: History | None = None,
        barred: Tensor | None = None,
        rank: Rank | None = None,
    ) -> Iterator[pa.Table]:
        """The same for `batch`: tables of blocks of users, the first empty; `barred` [I] are left out.

        `rank` finds the lists of users of training, where that is not done by scoring every item.
        """
        k, histories = tables.require_count("k", k), _by_text(history)
        rows = self.users.rows(ids)
        named = np.zeros(len(ids), dtype=bool)
        if histories:
            named[:] = [str(value) in histories for value in ids.to_pylist()]
        yield self._table(ids[:0], np.empty((0, 0), dtype=np.int64), np.empty((0, 0)), "model")
        known = np.flatnonzero((rows >= 0) & ~named)
        done = 0
        for block, items, values in rank(rows[known], k) if rank else self.lists.ranker.rank(rows[known], k, barred):
            owners = ids.take(pa.array(known[done : done + len(block)]))
            done += len(block)
            yield self._table(owners, items[0].cpu().numpy(), values[0].cpu().numpy(), self.lists.sources(block))
        for number in np.flatnonzero(named):
            user = ids[number : number + 1]
            items, values, source = self.lists.of_history(self._history(user[0], histories[str(user[0])]), k, barred)
            yield self._table(user, items.cpu().numpy()[None], values.cpu().numpy()[None], source)
        unknown = ids.take(pa.array(np.flatnonzero((rows < 0) & ~named)))
        if len(unknown):
            items, values, source = self.lists.of_history(np.empty(0, dtype=np.int64), k, barred)
            popular, counts = (x.cpu().numpy()[None].repeat(len(unknown), 0) for x in (items, values))
            yield self._table(unknown, popular, counts, source)

    def _users(self, users: Ids | None) -> pa.Array:
        return self.users.ids if users is None else tables.ids_asked_for("users", users, self.users)

    def _history(self, user: Any, given: Sequence[Any]) -> IntArray:
        """The rows of the different items of a history that are known, the latest last."""
        rows = self.items.rows(tables.ids_asked_for("history", given, self.items)) if len(given) else np.empty(0, int)
        known = latest_last(rows[rows >= 0])
        if len(known) < len(set(given)):
            message = f"user {user}: {len(set(given)) - len(known)} item(s) of the history are unknown."
            warnings.warn(message, stacklevel=4)
        return known

    def _table(self, users: pa.Array, items: IntArray, scores: Any, source: Any) -> pa.Table:
        return tables.of_lists(users, self.items, items, scores, source)

    # --- which items may be recommended

    @cached_property
    def choices(self) -> Choices:
        return Choices(len(self.items), self.item_info)

    def barred(self, exclude: Ids = (), allow: Ids | None = None, where: Where = ()) -> Tensor | None:
        """Marks the rows of items [I] that are left out; None if there are none."""
        excluded = self._known("exclude", exclude)
        allowed = None if allow is None else self._known("allow", allow)
        barred = self.choices.barred(excluded, allowed, where)
        return None if barred is None else barred.to(self.lists.ranker.device)

    def _known(self, name: str, given: Ids) -> IntArray:
        """The rows of items, without those that are unknown, which is said."""
        rows = self.items.rows(tables.ids_asked_for(name, given, self.items))
        if unknown := int((rows < 0).sum()):
            warnings.warn(f"{name}: {unknown} of {len(rows)} item(s) are unknown.", stacklevel=4)
        return rows[rows >= 0]

    # --- items, pairs and reasons

    def similar(
        self, items: Ids, k: int = 20, *, exclude: Ids = (), allow: Ids | None = None, where: Where = ()
    ) -> pa.Table:
        """The k items most similar to each item, as the model has it: a table of similar_to, rank, item, similarity.

        Similarity is the weight between two items in models that have such weights, the cosine of two vectors in those
        that have vectors, the vote of those members that have either in a consensus, and else the share of their users
        that two items have in common. It is comparable within a model and not between models.
        """
        ids, k = tables.ids_asked_for("items", items, self.items), tables.require_count("k", k)
        barred, rows = self.barred(exclude, allow, where), self._rows("item", ids, self.items)
        found = [self.lists.similar_to(row, k, barred) for row in rows.tolist()]
        sizes = [len(others) for others, _ in found]
        columns = {
            "similar_to": self.items.take(np.repeat(rows, sizes)),
            "rank": pa.array([rank for size in sizes for rank in range(1, size + 1)], pa.int32()),
            "item": self.items.take([row for others, _ in found for row in others.tolist()]),
            "similarity": pa.array([value for _, values in found for value in values.tolist()], pa.float32()),
        }
        return pa.table(columns)

    def score(self, users: Ids, items: Ids) -> pa.Table:
        """The score of each user for the item at the same place, what lists are ranked by: user, item, score.

        Pairs with a user or item unknown to training get null. Scores are comparable within a user.
        """
        pairs = self._pairs(users, items)
        rows = [known.rows(ids) for known, ids in zip((self.users, self.items), pairs, strict=True)]
        there = (rows[0] >= 0) & (rows[1] >= 0)
        scores = np.full(len(there), np.nan, dtype=np.float32)
        scores[there] = self.lists.scores(rows[0][there], rows[1][there])
        return pa.table({"user": pairs[0], "item": pairs[1], "score": pa.array(scores, mask=~there)})

    def explain(
        self, users: Ids, items: Ids, *, most: int = reasons.REASONS, history: History | None = None
    ) -> pa.Table:
        """Which items of each user's own history speak for the item at the same place, `most` of them: a table of user,
        item, rank, because, value and by.

        `by` says what `value` is: `contribution`, what the item `because` adds to the score, where a score is a sum
        over a history; `similarity` of the two items elsewhere. Of a consensus, contributions are what the members with
        such sums get from the history: the votes of others are not in it. A pair for which nothing speaks has no row.
        """
        pairs, most, histories = self._pairs(users, items), tables.require_count("most", most), _by_text(history)
        rows = self._rows("item", pairs[1], self.items)
        owners, said = pairs[0].to_pylist(), dict[int, list[tuple[int, float]]]()
        by = ""
        for user in dict.fromkeys(owners):  # the items of a user at once
            places = [number for number, owner in enumerate(owners) if owner == user]
            by, of_items = self._reasons(user, rows[places], most, histories)
            said |= dict(zip(places, of_items, strict=True))
        flat = [(number, rank, *reason) for number in range(len(owners)) for rank, reason in enumerate(said[number], 1)]
        number, rank, because, value = zip(*flat, strict=True) if flat else ((), (), (), ())
        columns = {
            "user": pairs[0].take(pa.array(number, pa.int64())),
            "item": self.items.take(rows[list(number)]),
            "rank": pa.array(rank, pa.int32()),
            "because": self.items.take(because),
            "value": pa.array(value, pa.float32()),
            "by": pa.array([by] * len(flat), pa.string()),
        }
        return pa.table(columns)

    def _reasons(
        self, user: Any, items: IntArray, most: int, histories: Mapping[str, Sequence[Any]]
    ) -> reasons.Reasons:
        wanted = torch.from_numpy(items).to(self.lists.ranker.device)
        if str(user) in histories:
            return reasons.of_history(self.lists, self._history(user, histories[str(user)]), wanted, most)
        row = self._rows("user", pa.array([user]), self.users)[0]
        return reasons.of_user(self.lists, int(row), wanted, most)

    def _pairs(self, users: Ids, items: Ids) -> tuple[pa.Array, pa.Array]:
        given = tables.ids_asked_for("users", users, self.users), tables.ids_asked_for("items", items, self.items)
        if len(given[0]) != len(given[1]):
            counts = f"there are {len(given[0])} users and {len(given[1])} items"
            raise InputError(f"{counts}; give as many of both: pairs are of the same place.")
        return given

    def _rows(self, kind: str, ids: pa.Array, known: IdMap) -> IntArray:
        rows = known.rows(ids)
        if len(rows) and rows.min() < 0:
            name = ids[int(np.argmin(rows))].as_py()
            raise InputError(f"no {kind} {shown(name)} was in the training data; give an id that was.")
        return rows

    def agreement(self, pairs: Interactions | Any) -> pa.Table:
        """For each pair of a user and an item, the place that each member of a consensus gives it among what the user
        does not have, the best being 1, and how many of them have it in a list of 20: null for who is unknown."""
        asked = tables.as_interactions(pairs)
        return self.opinions.table(asked, *asked.rows_in(self.users, self.items))

    # --- titles

    def titles(self, items: Ids) -> pa.Array:
        """The titles of items, null where none is known."""
        if self.item_info is None:
            return pa.nulls(len(items), pa.string())
        rows = self.items.rows(items)
        return self.item_info.column("title").combine_chunks().take(pa.array(rows, mask=rows < 0))

    def with_titles(self, table: pa.Table) -> pa.Table:
        """A table that has an `item` column with a `title` column after it, where titles are known at all."""
        if self.item_info is None:
            return table
        place = table.column_names.index("item") + 1
        return table.add_column(place, "title", self.titles(table.column("item")))


def _by_text(history: History | None) -> dict[str, Sequence[Any]]:
    """Histories by the text of their users' ids."""
    if history is not None and not isinstance(history, Mapping):
        raise InputError(f"history is {shown(history)}; give the items of each user: {{user: [item, item]}}.")
    return {str(user): items for user, items in (history or {}).items()}
