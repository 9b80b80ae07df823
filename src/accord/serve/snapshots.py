"""A run folder in memory, ready to answer requests: never changed once it is loaded, only replaced."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import torch
from torch import Tensor

from accord.config import full_name
from accord.data.csr import IntArray
from accord.data.interactions import IdMap
from accord.errors import InputError
from accord.recommender.choice import Where
from accord.recommender.new_items import NothingNew, WithNewItems
from accord.recommender.recommender import Recommender
from accord.recommender.run_folder import FILES, MANIFEST, as_sentences
from accord.recommender.top_n import List, Reasons, latest_last
from accord.serve.guard import ApiError, Meters
from accord.serve.refusals import Refusals

EXACT_IN_JSON = 2**53  # JavaScript rounds larger integers
IDS_AT_ONCE = 10_000  # converted to Python before other threads get their turn
TRIES = 3
OPTIONAL = ("log.jsonl", MANIFEST)
Identity = tuple[tuple[str, int, int, int], ...]
Answer = dict[str, Any]
Id = int | str
WATCH_SECONDS = 1.0
RETRY_SECONDS = 60.0  # after which a run that could not be loaded is tried again
log = logging.getLogger("accord.serve")


def identity_of(folder: Path) -> Identity | None:
    """Distinguishes states of a run folder, even if its files are overwritten one by one; None: a file is missing."""
    try:
        names = [name for name in (*FILES, MANIFEST) if name not in OPTIONAL or (folder / name).exists()]
        stats = [(folder / name).stat() for name in names]
    except OSError:
        return None
    return tuple((n, stat.st_ino, stat.st_mtime_ns, stat.st_size) for n, stat in zip(names, stats, strict=True))


class Snapshot:
    """Answers requests that give ids as text; answers are dictionaries that JSON can hold."""

    def __init__(self, recommender: Recommender, identity: Identity | None, items: Path | None = None) -> None:
        """`items`: a file of new items, and of the others."""
        self.identity, self.loaded_at = identity, time.time()
        self._new = _new_items(recommender, items)
        answers = self._new or recommender
        self.lists = answers.lists
        self.opinions = recommender.opinions if recommender.run.members else None
        self.user_ids, self.user_rows = _ids(recommender.users)
        self.item_ids, self.item_rows = _ids(answers.items)
        self.has_titles = answers.item_info is not None
        titles = answers.titles(answers.items.ids)
        self.titles: list[str | None] = titles.to_pylist()
        self.seen = recommender.owned
        self.user_counts, self.item_counts = self.seen.counts, self.lists.train.popularity()
        try:
            self.p_real: Any = recommender.beliefs_of_rows(self.seen.users, self.seen.items).round(4)
        except InputError:  # a solved model gives no probability
            self.p_real = None
        self._choices = answers.choices
        usual = np.median(self.user_counts[self.user_counts > 0]) if self.user_counts.any() else 0
        self._users = Search(recommender.users.ids, None, -np.abs(self.user_counts - usual))  # ordinary users first
        self._items = Search(answers.items.ids, titles if self.has_titles else None, self.item_counts)
        self.about = self._about(recommender.metrics)
        self.lists.of_history(np.arange(1), 1)  # builds now what is otherwise built by the first request
        self.lists.similar.to_all(0)

    @classmethod
    def load(cls, folder: Path, allow_imports: bool = False, items: Path | None = None) -> Snapshot:
        """Read a run folder; if it changes meanwhile, read it again, so that two runs are never mixed."""
        for _ in range(TRIES):
            identity = identity_of(folder)
            with as_sentences(folder):
                snapshot = cls(Recommender.load(folder, allow_imports=allow_imports), identity, items)
            if identity_of(folder) == identity:
                return snapshot
        raise InputError(f"{folder} changed again and again while it was read; try again when training has ended.")

    def user_row(self, user: Id) -> int:
        return _row("user", user, self.user_rows)

    def item_row(self, item: Id) -> int:
        return _row("item", item, self.item_rows)

    def item(self, row: int) -> Answer:
        return {"item": self.item_ids[row], "title": self.titles[row]}

    def recommend(self, user: Id, k: int, barred: Tensor | None = None, why: bool = False) -> Answer:
        """The recommendations for a user; an unknown user gets the popular items."""
        row = self.user_rows.get(str(user))
        if row is None:
            return {"user": user, "known": False, **self._from_rows(np.empty(0, dtype=np.int64), k, barred, why)}
        top = self.lists.of_user(row, k, barred)
        because = self.lists.reasons(top[0], row) if why else None
        answer = {"user": self.user_ids[row], "known": True, **self._list(top, because)}
        if why and self.opinions is not None and len(top[0]):
            self._add_opinions(row, top[0], answer["items"])
        return answer

    def from_history(self, items: Sequence[Id], k: int, barred: Tensor | None = None, why: bool = False) -> Answer:
        """The recommendations for a new user, from a history alone."""
        unknown = [item for item in items if str(item) not in self.item_rows]
        return {"unknown": unknown, **self._from_rows(latest_last(self._item_rows(items)), k, barred, why)}

    def _from_rows(self, history: IntArray, k: int, barred: Tensor | None, why: bool) -> Answer:
        top = self.lists.of_history(history, k, barred)
        return self._list(top, self.lists.reasons(top[0], history) if why else None)

    def barred(self, exclude: Sequence[Id], allow: Sequence[Id] | None, where: Where = ()) -> Tensor | None:
        """Marks the items [I] to leave out; None if there are none."""
        allowed = None if allow is None else self._item_rows(allow)
        return self._choices.barred(self._item_rows(exclude), allowed, where)

    def _item_rows(self, items: Sequence[Id]) -> IntArray:
        rows = [row for item in items if (row := self.item_rows.get(str(item))) is not None]
        return np.array(rows, dtype=np.int64)

    def _list(self, top: List, because: Reasons | None) -> Answer:
        items, scores, source = top
        entries = self._ranked(items, scores, "score")
        return {"source": source, "items": entries if because is None else self._with_reasons(entries, items, because)}

    def _ranked(self, items: Tensor, values: Tensor, name: str) -> list[Answer]:
        pairs = zip(items.tolist(), values.tolist(), strict=True)
        return [{"rank": rank, **self.item(row), name: value} for rank, (row, value) in enumerate(pairs, 1)]

    def _with_reasons(self, entries: list[Answer], items: Tensor, because: Reasons) -> list[Answer]:
        for entry, item, reasons in zip(entries, items.tolist(), because.of_items, strict=True):
            entry["why"] = [{**self.item(row), **self._reason(item, row, because.by, value)} for row, value in reasons]
        return entries

    def _reason(self, item: int, row: int, by: str, value: float) -> Answer:
        if self._new is None or item < self._new.known:
            return {by: value}
        return {"attributes": value, "shared": self._new.shared(item, row)}

    def _add_opinions(self, row: int, items: Tensor, entries: list[Answer]) -> None:
        """How the members of a consensus rank each of the items [n]; they say nothing of new ones."""
        assert self.opinions is not None
        is_trained = items < self.opinions.num_items
        items, trained = items[is_trained], [one for one, own in zip(entries, is_trained.tolist(), strict=True) if own]
        if not trained:
            return
        ranks = self.opinions.places(torch.tensor([row]), items.unsqueeze(0))  # [M, 1, n]
        counts = self.opinions.count(ranks)[0].tolist()
        for entry, count, of_members in zip(trained, counts, ranks[:, 0].T.tolist(), strict=True):
            places = dict(zip(self.opinions.labels, of_members, strict=True))
            entry["agreement"] = {"agree": count, "of": len(places), "places": places}

    def similar(self, item: Id, k: int, barred: Tensor | None = None) -> Answer:
        row = self.item_row(item)
        return {**self.item(row), "items": self._ranked(*self.lists.similar_to(row, k, barred), "similarity")}

    def scores(self, user: Id, items: Sequence[Id]) -> Answer:
        row, rows = self.user_row(user), [self.item_row(item) for item in items]
        scores = self.lists.scores(np.full(len(rows), row), np.array(rows, dtype=np.int64)).tolist()
        entries = [{**self.item(item), "score": score} for item, score in zip(rows, scores, strict=True)]
        return {"user": self.user_ids[row], "items": entries}

    def why(self, user: Id, items: Sequence[Id]) -> Answer:
        """Which items of a user's history speak for items."""
        row, rows = self.user_row(user), [self.item_row(item) for item in items]
        wanted = torch.tensor(rows)
        entries = self._with_reasons([self.item(one) for one in rows], wanted, self.lists.reasons(wanted, row))
        return {"user": self.user_ids[row], "items": entries}

    def history(self, user: Id) -> Answer:
        """The items of a user, the most probably real first, each with the probability of a real preference."""
        row = self.user_row(user)
        part = slice(self.seen.ptr[row], self.seen.ptr[row + 1])
        items = self.seen.items[part].tolist()
        p_real = [None] * len(items) if self.p_real is None else self.p_real[part].tolist()
        entries = [{**self.item(item), "p_real": value} for item, value in zip(items, p_real, strict=True)]
        entries.sort(key=lambda entry: -(entry["p_real"] or 0.0))
        return {"user": self.user_ids[row], "items": entries}

    def find_users(self, query: str, limit: int) -> Answer:
        rows = self._users.find(query, limit)
        return {"users": [{"user": self.user_ids[row], "interactions": int(self.user_counts[row])} for row in rows]}

    def find_items(self, query: str, limit: int) -> Answer:
        rows = self._items.find(query, limit)
        return {"items": [{**self.item(row), "interactions": int(self.item_counts[row])} for row in rows]}

    def _about(self, metrics: Answer) -> Answer:
        data = metrics["dataset"]
        return {
            "dataset": data["name"], "model": metrics["model"], "method": metrics["method"],
            "users": data["users"], "items": data["items"], "interactions": len(self.seen.items),
            "metrics": metrics["mean"], "has_titles": self.has_titles, "has_p_real": self.p_real is not None,
            "loaded_at": round(self.loaded_at, 3),
        }  # fmt: skip


def _row(kind: str, id_: Id, rows: Mapping[str, int]) -> int:
    row = rows.get(str(id_))
    if row is None:
        raise ApiError(404, f"unknown_{kind}", f"no {kind} {id_!r} was in the training data.")
    return row


def _new_items(recommender: Recommender, items: Path | None) -> WithNewItems | None:
    try:
        return None if items is None else recommender.with_items(items)
    except NothingNew:  # a later run has them all
        return None


def _ids(ids: IdMap) -> tuple[list[Id], dict[str, int]]:
    """Ids as answers show them, and the row of each by its text."""
    shown: list[Id] = []
    rows: dict[str, int] = {}
    for start in range(0, len(ids), IDS_AT_ONCE):
        part = ids.ids.slice(start, IDS_AT_ONCE)
        pairs = list(zip(part.to_pylist(), part.cast(pa.string()).to_pylist(), strict=True))
        rows.update((text, start + number) for number, (_, text) in enumerate(pairs))
        shown += [text if isinstance(id_, int) and abs(id_) > EXACT_IN_JSON else id_ for id_, text in pairs]
    return shown, rows


def fold(texts: pa.Array) -> pa.Array:
    """Texts as they are compared: lower case, without accents."""
    letters = pc.utf8_normalize(pc.utf8_lower(pc.utf8_upper(texts)), "NFKD")  # ς is σ
    return pc.replace_substring_regex(pc.replace_substring(letters, "ß", "ss"), r"\p{M}", "")


class Search:
    """Finds rows whose id or title contains every word: an equal id first, then those of most weight."""

    def __init__(self, ids: pa.Array, titles: pa.Array | None, weights: npt.NDArray[Any]) -> None:
        self._order = np.argsort(-weights, kind="stable")
        texts = ids.cast(pa.string()).take(pa.array(self._order))
        self._ids = self._text = fold(texts)
        if titles is not None:
            in_order = titles.take(pa.array(self._order)).fill_null("")
            self._text = fold(pc.binary_join_element_wise(texts, in_order, "\n"))

    def find(self, query: str, limit: int) -> list[int]:
        """At most `limit` rows."""
        words = fold(pa.array([query]))[0].as_py().split()
        matches = np.ones(len(self._text), dtype=bool)
        for word in words:
            matches &= np.asarray(pc.match_substring(self._text, word))
        groups = [matches]
        if len(words) == 1:
            starts = matches & np.asarray(pc.starts_with(self._ids, words[0]))
            exact = starts & np.asarray(pc.equal(self._ids, words[0]))
            groups = [exact, starts & ~exact, matches & ~starts]
        places = np.concatenate([np.flatnonzero(group)[:limit] for group in groups])
        return [int(row) for row in self._order[places[:limit]]]


class Holder:
    """A request reads `snapshot` once and uses it to its end, so replacing it is one assignment."""

    def __init__(
        self, folder: Path, meters: Meters, allow_imports: bool = False, refusals: Path | None = None,
        items: Path | None = None,
    ) -> None:  # fmt: skip
        self.folder, self.meters = folder, meters
        self._lock, self._load = asyncio.Lock(), partial(Snapshot.load, folder, allow_imports, items)
        self.snapshot = self._load()
        self.refusals = Refusals(refusals)  # whatever run is served
        self.meters.loaded.set(self.snapshot.loaded_at)

    @property
    def is_reloading(self) -> bool:
        return self._lock.locked()

    async def reload(self) -> bool:
        """Read the folder again, in a thread; if that fails, the old snapshot stays and the log says why."""
        async with self._lock:
            try:
                snapshot = await asyncio.to_thread(self._load)
            except Exception as error:
                reason = str(error) if isinstance(error, InputError) else f"{type(error).__name__}: {error}"
                log.error("reload failed, still serving the old run: %s", reason)
                self.meters.reloads.labels("failed").inc()
                return False
            self.snapshot = snapshot
        self.meters.reloads.labels("done").inc()
        self.meters.loaded.set(snapshot.loaded_at)
        about = snapshot.about
        log.info("reloaded %s: %s, %s", self.folder, about["dataset"], full_name(about["model"], about["method"]))
        return True

    async def watch(self) -> None:
        """Reload when the folder holds another run and is no longer being written to.
        A run that cannot be loaded is tried again later: the process may only have been short of memory or open files.
        """
        before, tried, retry_at = self.snapshot.identity, None, 0.0
        while True:
            await asyncio.sleep(WATCH_SECONDS)
            identity = identity_of(self.folder)
            is_new = identity is not None and identity == before and identity != self.snapshot.identity
            if is_new and (identity != tried or time.monotonic() >= retry_at):
                tried = identity
                if not await self.reload():
                    retry_at = time.monotonic() + RETRY_SECONDS
            before = identity
