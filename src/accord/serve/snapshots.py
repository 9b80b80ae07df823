"""A run folder in memory, ready to answer: never changed once it is made, only replaced."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from accord.data.csr import IntArray
from accord.data.interactions import IdMap
from accord.errors import InputError
from accord.recommender import reasons
from accord.recommender.choice import Where
from accord.recommender.reasons import Reasons
from accord.recommender.recommender import Recommender
from accord.recommender.run_folder import FILES, MANIFEST
from accord.recommender.top_n import List, latest_last
from accord.serve.audited import Audited
from accord.serve.search import Search

EXACT_IN_JSON = 2**53  # larger integers are rounded by JavaScript
AT_ONCE = 10_000  # ids converted to Python at once; other threads get their turn in between
TRIES = 3
MAY_LACK = ("log.jsonl", MANIFEST)
Identity = tuple[tuple[int, int, int] | None, ...]
Answer = dict[str, Any]
Id = int | str


def identity_of(folder: Path) -> Identity | None:
    """Tells one state of a run folder from another, even if its files are overwritten one by one; None: incomplete."""
    try:
        return tuple(_status(folder / name, needed=name not in MAY_LACK) for name in (*FILES, MANIFEST))
    except OSError:
        return None


def _status(path: Path, needed: bool) -> tuple[int, int, int] | None:
    if not needed and not path.exists():
        return None
    status = path.stat()
    return status.st_ino, status.st_mtime_ns, status.st_size


class Snapshot:
    """Answers requests by external ids given as text; answers are plain enough for JSON."""

    def __init__(self, recommender: Recommender, identity: Identity | None, audit: Path | None = None) -> None:
        self.identity, self.loaded_at = identity, time.time()
        self.lists = recommender.lists
        self.opinions = recommender.opinions if recommender.run.members else None
        self.user_ids, self.user_rows = _ids(recommender.users)
        self.item_ids, self.item_rows = _ids(recommender.items)
        self.has_titles = recommender.item_info is not None
        self.titles: list[str | None] = recommender.titles(recommender.items.ids).to_pylist()
        self.seen, self.taken = recommender.owned, recommender.owned.counts
        self.counts = self.lists.train.popularity()
        self.p_real = _posteriors(recommender)
        self.audited = Audited(audit, recommender) if audit is not None else None
        self._choices = recommender.choices
        self._users = Search(recommender.users.ids, None, self.taken)
        self._items = Search(recommender.items.ids, self.titles if self.has_titles else None, self.counts)
        self.about = self._about(recommender.metrics)
        self.lists.of_history(np.arange(1), 1)  # what is made at first use is made now
        self.lists.similar.to_all(0)

    @classmethod
    def load(cls, folder: Path, audit: Path | None = None, allow_imports: bool = False) -> Snapshot:
        """Read a run folder; if it changes meanwhile, read it again, so that two runs are never mixed."""
        for _ in range(TRIES):
            identity = identity_of(folder)
            try:
                made = cls(Recommender.load(folder, allow_imports=allow_imports), identity, audit)
            except InputError:
                raise
            except (LookupError, TypeError, ValueError, RuntimeError, pa.ArrowException) as error:
                reason = f"{type(error).__name__}: {error}".splitlines()[0]
                raise InputError(f"{folder} is not a complete run folder ({reason}); train again.") from None
            if identity_of(folder) == identity:
                return made
        raise InputError(f"{folder} kept changing while it was read; try again when training is done.")

    # --- lists

    def recommend(self, user: Id, k: int, barred: Tensor | None = None, why: bool = False) -> Answer:
        """The recommendations for a user; an unknown user gets the popular items."""
        row = self.user_rows.get(str(user))
        if row is None:
            return {"user": user, "known": False, **self._from(np.empty(0, dtype=np.int64), k, barred, why)}
        found = self.lists.of_user(row, k, barred)
        said = reasons.of_user(self.lists, row, found[0]) if why else None
        answer = {"user": self.user_ids[row], "known": True, **self._list(found, said)}
        if why and self.opinions is not None and len(found[0]):
            self._add_opinions(row, found[0], answer["items"])
        return answer

    def _add_opinions(self, row: int, items: Tensor, entries: list[Answer]) -> None:
        """How the members of a consensus place each of the items [n]."""
        assert self.opinions is not None
        places = self.opinions.places(torch.tensor([row]), items.unsqueeze(0))  # [M, 1, n]
        agree = self.opinions.count(places)[0].tolist()
        for number, entry in enumerate(entries):
            own = dict(zip(self.opinions.labels, places[:, 0, number].tolist(), strict=True))
            entry["agreement"] = {"agree": agree[number], "of": len(own), "places": own}

    def from_history(self, items: Sequence[Id], k: int, barred: Tensor | None = None, why: bool = False) -> Answer:
        """The recommendations for a user who is known only by a history."""
        rows = [self.item_rows.get(str(item)) for item in items]
        unknown = [item for item, row in zip(items, rows, strict=True) if row is None]
        known = latest_last(np.array([row for row in rows if row is not None], dtype=np.int64))
        return {"unknown": unknown, **self._from(known, k, barred, why)}

    def _from(self, history: IntArray, k: int, barred: Tensor | None, why: bool) -> Answer:
        found = self.lists.of_history(history, k, barred)
        return self._list(found, reasons.of_history(self.lists, history, found[0]) if why else None)

    def barred(self, exclude: Sequence[Id], allow: Sequence[Id] | None, where: Where = ()) -> Tensor | None:
        """Marks the items [I] to leave out; None if there are none."""
        return self._choices.barred(self._known(exclude), None if allow is None else self._known(allow), where)

    def _known(self, items: Sequence[Id]) -> IntArray:
        rows = [row for item in items if (row := self.item_rows.get(str(item))) is not None]
        return np.array(rows, dtype=np.int64)

    def _list(self, found: List, said: Reasons | None) -> Answer:
        items, scores, source = found
        entries = [
            {"rank": rank, **self.item(row), "score": score}
            for rank, (row, score) in enumerate(zip(items.tolist(), scores.tolist(), strict=True), 1)
        ]
        if said is not None:
            for entry, own in zip(entries, said.of_items, strict=True):
                entry["why"] = [{**self.item(row), said.by: value} for row, value in own]
        return {"source": source, "items": entries}

    # --- users and items

    def item(self, row: int) -> Answer:
        return {"item": self.item_ids[row], "title": self.titles[row]}

    def similar(self, row: int, k: int, barred: Tensor | None = None) -> Answer:
        items, values = self.lists.similar_to(row, k, barred)
        entries = [
            {"rank": rank, **self.item(other), "similarity": value}
            for rank, (other, value) in enumerate(zip(items.tolist(), values.tolist(), strict=True), 1)
        ]
        return {**self.item(row), "items": entries}

    def scores(self, row: int, items: Sequence[int]) -> Answer:
        """What the lists of a user rank items by."""
        found = self.lists.scores(np.full(len(items), row), np.array(items, dtype=np.int64))
        entries = [{**self.item(item), "score": score} for item, score in zip(items, found.tolist(), strict=True)]
        return {"user": self.user_ids[row], "items": entries}

    def why(self, row: int, items: Sequence[int]) -> Answer:
        """Which items of a user's history speak for items."""
        said = reasons.of_user(self.lists, row, torch.tensor(items))
        entries = [
            {**self.item(item), "why": [{**self.item(own), said.by: value} for own, value in found]}
            for item, found in zip(items, said.of_items, strict=True)
        ]
        return {"user": self.user_ids[row], "items": entries}

    def history(self, row: int) -> Answer:
        """The items of a user, the surest first, each with the probability that it was a real preference."""
        first, last = self.seen.ptr[row], self.seen.ptr[row + 1]
        audited = self.audited.of_user(row) if self.audited else {}
        entries = []
        for place in range(first, last):
            item = int(self.seen.items[place])
            p_real = None if self.p_real is None else round(float(self.p_real[place]), 4)
            entries.append({**self.item(item), "p_real": p_real, "audit": audited.get(item)})
        entries.sort(key=lambda entry: -(entry["p_real"] or 0.0))
        return {"user": self.user_ids[row], "items": entries}

    def find_users(self, query: str, limit: int) -> Answer:
        rows = self._users.find(query, limit)
        return {"users": [{"user": self.user_ids[row], "interactions": int(self.taken[row])} for row in rows]}

    def find_items(self, query: str, limit: int) -> Answer:
        rows = self._items.find(query, limit)
        return {"items": [{**self.item(row), "interactions": int(self.counts[row])} for row in rows]}

    def find_audited(self, user: int | None, item: int | None, surest: bool, limit: int, offset: int) -> Answer:
        assert self.audited is not None
        count, found = self.audited.find(user, item, surest, limit, offset)
        rows = [{"user": self.user_ids[user], **self.item(item), **figures} for user, item, figures in found]
        return {"count": count, "interactions": rows}

    def audit_titles(self) -> dict[str, str]:
        """The titles of the items that the audit's summary names."""
        noise = (self.audited.summary.get("noise") or {}) if self.audited else {}
        named = [row for name in ("noisiest", "surest", "noisiest_items") for row in noise.get(name) or ()]
        rows = {str(entry["item"]): self.item_rows.get(str(entry["item"])) for entry in named}
        return {item: title for item, row in rows.items() if row is not None and (title := self.titles[row])}

    def _about(self, metrics: Answer) -> Answer:
        data = metrics["dataset"]
        return {
            "dataset": data["name"],
            "model": metrics["model"],
            "method": metrics["method"],
            "users": data["users"],
            "items": data["items"],
            "interactions": len(self.seen.items),
            "metrics": metrics["mean"],
            "has_titles": self.has_titles,
            "has_p_real": self.p_real is not None,
            "has_audit": self.audited is not None,
            "loaded_at": round(self.loaded_at, 3),
        }


def _ids(ids: IdMap) -> tuple[list[Id], dict[str, int]]:
    """Ids as they are shown in answers, and the row of each by its text."""
    shown: list[Id] = []
    rows: dict[str, int] = {}
    for start in range(0, len(ids), AT_ONCE):
        part = ids.ids.slice(start, AT_ONCE)
        values, texts = part.to_pylist(), part.cast(pa.string()).to_pylist()
        rows.update(zip(texts, range(start, start + len(texts)), strict=True))
        shown += [
            text if isinstance(v, int) and abs(v) > EXACT_IN_JSON else v for v, text in zip(values, texts, strict=True)
        ]
    return shown, rows


def _posteriors(recommender: Recommender) -> np.ndarray[Any, np.dtype[np.float32]] | None:
    """The probability of every seen pair; None if the model gives none."""
    try:
        return recommender.beliefs_of_rows(recommender.owned.users, recommender.owned.items).astype(np.float32)
    except InputError:  # a solved model gives no probability
        return None
