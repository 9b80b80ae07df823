"""Search for users and items by id and title, ignoring case and accents."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from accord.data.csr import IntArray


def fold(texts: pa.Array) -> pa.Array:
    """Texts as they are compared: lower case, without accents."""
    letters = pc.utf8_normalize(pc.utf8_lower(pc.utf8_upper(texts)), "NFKD")  # ς is σ
    return pc.replace_substring_regex(pc.replace_substring(letters, "ß", "ss"), r"\p{M}", "")


class Search:
    """Finds rows whose id or title contains every word: an equal id first, then the most frequent rows."""

    def __init__(self, ids: pa.Array, titles: pa.Array | None, counts: IntArray) -> None:
        self._order = np.argsort(-counts, kind="stable")
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
