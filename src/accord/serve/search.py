"""Finding users and items by id and title, regardless of case and accents."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from accord.data.csr import IntArray


def folded(text: str) -> str:
    """Text as it is compared: lower case, without accents."""
    if text.isascii():
        return text.lower()
    plain = unicodedata.normalize("NFKD", text.casefold())
    return "".join(mark for mark in plain if not unicodedata.combining(mark))


class Search:
    """Rows whose id or title has every word: an equal id first, then the most frequent."""

    def __init__(self, ids: pa.Array, titles: Sequence[str | None] | None, counts: IntArray) -> None:
        self._order = np.argsort(-counts, kind="stable")
        text = ids.cast(pa.string())
        if titles is not None:
            text = pa.array([f"{id_}\n{title or ''}" for id_, title in zip(text.to_pylist(), titles, strict=True)])
        self._ids = pc.utf8_lower(ids.cast(pa.string())).take(pa.array(self._order))
        self._text = pa.array([folded(line) for line in text.to_pylist()]).take(pa.array(self._order))

    def find(self, query: str, limit: int) -> list[int]:
        """At most `limit` rows."""
        words = folded(query).split()
        if not words:
            return [int(row) for row in self._order[:limit]]
        holds = np.ones(len(self._text), dtype=bool)
        for word in words:
            holds &= np.asarray(pc.match_substring(self._text, word))
        starts = holds & np.asarray(pc.starts_with(self._ids, words[0])) if len(words) == 1 else holds & False
        exact = starts & np.asarray(pc.equal(self._ids, words[0])) if len(words) == 1 else starts
        places = [np.flatnonzero(mask)[:limit] for mask in (exact, starts & ~exact, holds & ~starts)]
        return [int(row) for row in self._order[np.concatenate(places)[:limit]]]
