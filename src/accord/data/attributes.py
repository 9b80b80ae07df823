"""What an items file says of items as a sparse matrix of features: categories, words of texts, ranges of numbers."""

from __future__ import annotations

import re
from collections import Counter
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import scipy.sparse as sp

from accord.data.columns import decoded
from accord.errors import InputError

SEPARATOR = "|"  # between the categories of a cell
MOST_FEATURES = 4096  # of all columns: a ridge regression on them takes their matrix product
TENTHS = 10  # of the items, that a column of numbers is cut into: better than the numbers themselves on MovieTweetings
YEAR = re.compile(r"\((1[89]\d\d|20\d\d)\)")


class Attributes(NamedTuple):
    """Features of items [I, F], tf-idf with norm 1 in each column of the file, and what each is called."""

    matrix: Any
    names: list[str]
    unused: list[str]  # columns that tell no items apart

    @classmethod
    def of(cls, info: pa.Table) -> Attributes:
        blocks, names, unused = [], list[str](), []
        for name in info.column_names:
            features, used = _features(info.column(name)), False
            for form, cells in features.items():
                counts = Counter(feature for cell in cells for feature in cell)
                telling = sorted(feature for feature, count in counts.items() if 1 < count < len(cells))
                if telling:
                    blocks.append(_tf_idf(cells, {feature: number for number, feature in enumerate(telling)}))
                    names += [form.format(name, feature) for feature in telling]
                used |= bool(telling) or not counts
            unused += [] if used or name == "title" else [name]
        if not blocks:
            raise InputError(
                "the items file says nothing that some items share and others do not: give it a column of "
                "categories, texts or numbers."
            )
        matrix = sp.hstack(blocks, "csr", np.float32)
        common = np.sort(np.argsort(-np.diff(matrix.tocsc().indptr), kind="stable")[:MOST_FEATURES])
        return cls(matrix[:, common], [names[place] for place in common], unused)


def _features(column: pa.ChunkedArray) -> dict[str, list[set[str]]]:
    """The features of each cell by how one is called: categories where most are shared, ranges of numbers where these
    are many, and else words, with ranges of the years that most films have in their titles."""
    cells = [[] if cell is None else cell if isinstance(cell, list) else [cell] for cell in decoded(column).to_pylist()]
    texts = [{v.strip() for one in cell if one is not None for v in str(one).split(SEPARATOR)} - {""} for cell in cells]
    if numbers := _ranges(texts):
        return {"{0} {1}": numbers}
    counts = Counter(text for cell in texts for text in cell)
    if 2 * len(counts) <= counts.total():
        return {"{0}={1}": texts}
    words = [{word for text in cell for word in re.findall(r"\w+", text.casefold())} for cell in texts]
    years = _ranges([{year for text in cell for year in YEAR.findall(text)[-1:]} for cell in texts])
    return {"{0}: {1}": words} | ({"year in {0} {1}": years} if 2 * sum(map(bool, years)) > len(years) else {})


def _ranges(cells: list[set[str]]) -> list[set[str]]:
    """The tenth that each number is in; none unless all are numbers, one in a cell, and more than there are tenths."""
    try:
        values = np.array([float(min(cell, default="nan")) for cell in cells])
    except ValueError:
        return []
    there = np.isfinite(values)
    if there.sum() < sum(map(len, cells)) or len(np.unique(values[there])) <= TENTHS:
        return []
    ends = np.unique(np.quantile(values[there], np.linspace(0, 1, TENTHS + 1), method="nearest"))
    places = np.clip(np.searchsorted(ends, values, side="right") - 1, 0, len(ends) - 2)
    ranges = [f"{low:g} to {high:g}" for low, high in pairwise(ends)]
    return [{ranges[place]} if one else set() for place, one in zip(places, there, strict=True)]


def _tf_idf(cells: list[set[str]], places: dict[str, int]) -> Any:
    pairs = [(row, places[feature]) for row, cell in enumerate(cells) for feature in sorted(cell) if feature in places]
    rows, columns = np.array(pairs).T
    matrix = sp.csr_array((np.ones(len(pairs)), (rows, columns)), (len(cells), len(places)))
    matrix = matrix @ sp.diags_array(np.log(len(cells) / matrix.sum(0)))
    return unit(matrix)


def unit(matrix: Any) -> Any:
    """A sparse matrix with rows of norm 1; a row of zeros stays one."""
    norms = np.sqrt(matrix.power(2).sum(1))
    return sp.diags_array(1 / np.where(norms > 0, norms, 1)) @ matrix
