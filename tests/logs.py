"""Small logs of interactions, as text, tables, split folders and archives."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from accord.data.interactions import Dataset, Interactions
from accord.data.load import load
from accord.data.read import CHOOSE_OTHERS
from accord.data.split import split

ROWS = [("ann", "x", 5.0, 10), ("bob", "y", 3.0, 20), ("ann", "y", 1.0, 30)]
FRAME = {"user_id": ["ann", "bob", "ann"], "item_id": ["x", "y", "y"], "rating": [5, 3, 1], "timestamp": [10, 20, 30]}


def write(path: Path, text: str) -> Path:
    path.write_bytes(text.encode())
    return path


def rows(interactions: Interactions) -> list[tuple[object, ...]]:
    return list(zip(*(column.to_pylist() for column in interactions.table.columns), strict=True))


def split_folder(folder: Path, **parts: str) -> Path:
    files = {
        "train.rating": "0\t0\t5\r\n1\t1\t3\r\n1\t1\t4\r\n4\t2\t1\r\n",
        "valid.rating": "0\t1\t5",
        "test.negative": "1\t0\t5\n",
    }
    for part, text in (files | {name.replace("_", "."): text for name, text in parts.items()}).items():
        if text:
            write(folder / f"toy.{part}", text)
    return folder


def log_table(rows: int = 700, text: bool = False, seed: int = 0, times: bool = True, gaps: bool = False) -> pa.Table:
    """A log with repeated pairs, equal times and users of very different activity."""
    rng = np.random.default_rng(seed)
    users = (60 * rng.random(rows) ** 2).astype(np.int64) * 7 - 20
    items = (40 * rng.random(rows) ** 1.5).astype(np.int64) + 1000
    values = rng.integers(1, 6, rows).astype(np.float64)
    columns: dict[str, Any] = {
        "userId": [f"u-{user}é" for user in users] if text else users,
        "movieId": items,
        "rating": pa.array(values, mask=rng.random(rows) < 0.1 if gaps else None),
    }
    if times:
        columns["timestamp"] = rng.integers(0, 300, rows)
    return pa.table(columns)


def write_log(path: Path, table: pa.Table) -> Path:
    if path.suffix == ".parquet":
        pq.write_table(table, path, row_group_size=100)
    else:
        pyarrow.csv.write_csv(table, path)
    return path


def without_advice(notes: Sequence[str]) -> list[str]:
    """The notes of a log as a store of it has them: its columns cannot be chosen any more."""
    return [note.removesuffix(CHOOSE_OTHERS) for note in notes]


def assert_same(one: Dataset, other: Dataset) -> None:
    assert one.name == other.name
    assert without_advice(one.notes) == list(other.notes)
    for part in ("train", "valid", "test", "valid_clean", "test_noisy"):
        mine, theirs = getattr(one, part), getattr(other, part)
        assert (mine is None) == (theirs is None), part
        if mine is not None:
            assert mine.table.equals(theirs.table.combine_chunks()) or mine.table.combine_chunks().equals(
                theirs.table.combine_chunks()
            ), part
            assert mine.rows.schema.equals(theirs.rows.schema, check_metadata=True)
            assert np.array_equal(one.csr(mine).keys, other.csr(theirs).keys)
    assert one.users.ids.equals(other.users.ids)
    assert one.items.ids.equals(other.items.ids)


def wheel(members: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as bundle:
        for name, content in members.items():
            bundle.writestr(name, content)
    return buffer.getvalue()


def fixed_split(folder):
    """A small log in BARS' layout: 60 users, 20 items each to train with and 4 to test; its folder."""
    folder.mkdir()
    pairs = np.argsort(np.random.default_rng(0).random((60, 40)) + np.arange(40) / 40, axis=1)[:, :24]
    for part, items in (("train.rating", pairs[:, :20]), ("test.negative", pairs[:, 20:])):
        lines = [f"{user}\t{item}\n" for user, row in enumerate(items) for item in row]
        (folder / f"{folder.name}.{part}").write_text("".join(lines))
    return folder


KINDS = ("drama", "comedy", "war", "crime")


def log_of_kinds(items: int = 100, users: int = 120, each: int = 16) -> pa.Table:
    """Every user likes items of one kind; item n is of kind n modulo 4."""
    rng = np.random.default_rng(0)
    taken = [4 * rng.permutation(items // 4)[:each] + user % 4 for user in range(users)]
    ids = [f"i{item:03}" for item in np.concatenate(taken)]
    return pa.table({"user": np.repeat([f"u{user:03}" for user in range(users)], each), "item": ids})


def about(*items: int) -> dict[str, list]:
    return {"id": [f"i{item:03}" for item in items], "genre": [KINDS[item % 4] for item in items]}


def pushed_log(users: int = 600, items: int = 300, each: int = 50, real: float = 0.1, seed: int = 0) -> Dataset:
    """A generated log where users dislike most of what they were shown. Pushed items, a third of all, fill most of a
    history by one taste of its user; the rest is real, of the other items by another taste. `value` is 1 for real."""
    rng = np.random.default_rng(seed)

    def take(first: int, last: int, number: int) -> npt.NDArray[np.int64]:
        """For each user, `number` of the items first, …, last - 1, by a taste with four factors: [users, number]."""
        liking = rng.standard_normal((users, 4)) @ rng.standard_normal((4, last - first))
        return first + np.argsort(-liking - rng.gumbel(size=liking.shape), axis=1)[:, :number]

    liked = round(real * each)
    shown = np.concatenate([take(0, items // 3, each - liked), take(items // 3, items, liked)], 1).ravel()
    value = np.tile(np.repeat([0.0, 1.0], [each - liked, liked]), users)
    log = Interactions.of(pa.array(np.repeat(np.arange(users), each)), pa.array(shown), value=pa.array(value))
    return load(split(log, "random", clean="value>=1", seed=seed, name="pushed"), labels="value>=1")
