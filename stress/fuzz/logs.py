"""Hostile logs: text, compressed text, Parquet, folders and what is no file at all."""

from __future__ import annotations

import gzip
import io
import os
import pickle
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from fuzz import parquet
from fuzz.case import HEAD, ROWS, Case, csv_lines

LONG = 10**6
BILLIONS = 4 * 10**9


class Harm:
    """Unpickling this makes a file, which shows that code from data was run."""

    def __init__(self, proof: Path) -> None:
        self.proof = proof

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.proof),)


def harmful_pickle(folder: Path) -> bytes:
    return pickle.dumps(Harm(folder / "harmed"))


def check(path: Path, *options: str) -> list[str]:
    return ["data", "check", str(path), *options]


def text(content: str | bytes, name: str = "log.csv", options: Sequence[str] = ()) -> Callable[[Path], list[str]]:
    def make(folder: Path) -> list[str]:
        path = folder / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return check(path, *options)

    return make


def rows(*given: str) -> str:
    """A log with these odd rows among honest ones."""
    return HEAD + csv_lines(ROWS // 2) + "".join(f"{row}\n" for row in given) + csv_lines(ROWS // 2, ROWS // 2)


def columns(**given: Any) -> dict[str, Any]:
    """Columns of a table; honest ones where none are given."""
    honest = {
        "user": [f"u{n % 50}" for n in range(ROWS)],
        "item": [f"i{(n + n // 50 * 7) % 40}" for n in range(ROWS)],
        "rating": [float(n % 5 + 1) for n in range(ROWS)],
        "time": list(range(ROWS)),
    }
    return honest | given


def parquet_bytes(table: Any, **options: Any) -> bytes:
    out = io.BytesIO()
    pq.write_table(table if isinstance(table, pa.Table) else pa.table(table), out, **options)
    return out.getvalue()


def typed(options: Sequence[str] = (), **given: Any) -> Callable[[Path], list[str]]:
    return text(parquet_bytes(columns(**given)), "log.parquet", options)


def lying(change: Callable[[parquet.Struct], None]) -> Callable[[Path], list[str]]:
    return text(parquet.with_footer(parquet_bytes(columns()), change), "log.parquet")


def _billions(footer: parquet.Struct) -> None:
    parquet.set_integer(footer, parquet.NUM_ROWS, BILLIONS)


def _billions_everywhere(footer: parquet.Struct) -> None:
    _billions(footer)
    for group in parquet.groups(footer):
        parquet.set_integer(group, parquet.GROUP_ROWS, BILLIONS)
        for column in parquet.columns(group):
            parquet.set_integer(column, parquet.COLUMN_VALUES, BILLIONS)


def _a_few_more(footer: parquet.Struct) -> None:
    """Not enough to be a bomb: only counting what is read finds it."""
    parquet.set_integer(footer, parquet.NUM_ROWS, ROWS + 7)


def _fewer(footer: parquet.Struct) -> None:
    parquet.set_integer(footer, parquet.NUM_ROWS, ROWS - 7)
    for group in parquet.groups(footer):
        parquet.set_integer(group, parquet.GROUP_ROWS, ROWS - 7)


def _far_away(footer: parquet.Struct) -> None:
    for group in parquet.groups(footer):
        for column in parquet.columns(group):
            for place in (parquet.COLUMN_PAGE, parquet.COLUMN_DICTIONARY):
                parquet.set_integer(column, place, 2**62)


def _endless_pages(footer: parquet.Struct) -> None:
    for group in parquet.groups(footer):
        for column in parquet.columns(group):
            parquet.set_integer(column, parquet.COLUMN_COMPRESSED, 2**62)
            parquet.set_integer(column, parquet.COLUMN_BYTES, 2**62)


def parquet_bomb() -> bytes:
    """Four billion rows that can be read: a row group of a million, listed four thousand times."""
    one = parquet_bytes({"user": pa.array([1] * 10**6), "item": pa.array([2] * 10**6)})

    def often(footer: parquet.Struct) -> None:
        parquet.groups(footer)[:] = parquet.groups(footer) * (BILLIONS // 10**6)
        _billions(footer)

    return parquet.with_footer(one, often)


def gzip_bomb(gigabytes: int = 10) -> bytes:
    """About a thousandth of what it holds, which are rows as they should be: a gzip file may be many in a row."""
    lines = b"u1,i1,1,1\nu2,i2,1,2\n" * 800_000
    return gzip.compress(HEAD.encode()) + gzip.compress(lines, 9) * (gigabytes * 2**30 // len(lines))


def zip_bomb() -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as bundle:
        bundle.writestr("log.csv", HEAD + csv_lines(1000) * 500)
    return out.getvalue()


def pickled_type(folder: Path) -> list[str]:
    """The type of a column is a pickle, as old Arrow files may have it."""
    field = pa.field("user", pa.string(), metadata={
        "ARROW:extension:name": "arrow.py_extension_type", "ARROW:extension:metadata": harmful_pickle(folder),
    })  # fmt: skip
    table = pa.table(columns())
    table = table.cast(table.schema.set(0, field))
    pq.write_table(table, folder / "log.parquet")
    return check(folder / "log.parquet")


def bad_utf8(name: str) -> pa.Array:
    broken = [b"caf\xe9 %d" % (n % 50) for n in range(ROWS)]
    return pa.Array.from_buffers(pa.string(), ROWS, pa.array(broken, pa.binary()).buffers()) if name else None


def pipe(folder: Path) -> list[str]:
    os.mkfifo(folder / "log.csv")
    return check(folder / "log.csv")


def loop(folder: Path) -> list[str]:
    (folder / "log.csv").symlink_to(folder / "log.csv")
    return check(folder / "log.csv")


def split_folder(**parts: str) -> Callable[[Path], list[str]]:
    def make(folder: Path) -> list[str]:
        honest = "".join(f"{n % 50}\t{n * 7 % 40}\t{n % 5 + 1}\n" for n in range(ROWS))
        few = "".join(honest.splitlines(keepends=True)[:60])
        files = {"train_rating": honest, "valid_rating": few, "test_negative": few} | parts
        for part, content in files.items():
            (folder / f"log.{part.replace('_', '.')}").write_text(content, encoding="utf-8")
        return check(folder)

    return make


def items(content: str | bytes) -> Callable[[Path], list[str]]:
    """Training with a table of items, on a log that is honest; it is refused before it begins."""

    def make(folder: Path) -> list[str]:
        (folder / "log.csv").write_text(HEAD + csv_lines(ROWS))
        (folder / "items.csv").write_bytes(content.encode() if isinstance(content, str) else content)
        return [
            "train",
            str(folder / "log.csv"),
            "--method",
            "deca",
            "--items",
            str(folder / "items.csv"),
            "--out",
            str(folder / "run"),
        ]

    return make


LOOKALIKES = ("Zoë,i1,1,1", "Zoe\u0308,i1,1,2", "ANNA,i2,1,3", "anna,i2,1,4", "anna ,i2,1,5", "ａｎｎａ,i2,1,6")
HONEST = HEAD + csv_lines(ROWS)

TEXT = (
    Case("empty file", text(""), "is empty"),
    Case("header and nothing else", text(HEAD), "is empty"),
    Case("one column", text("user\nu1\nu2\n"), "one column only"),
    Case("NULs from the first line on", text(b"user,item\n\0\0\0,i1\n"), "NUL byte in line 2"),
    Case("a block of NULs far inside, as a crash leaves it",
         text(HEAD.encode() + csv_lines(9000).encode() + b"u1" + b"\0" * 4096 + b",i1,1,1\n"), "row 9,001"),
    Case("UTF-16", text(HONEST.encode("utf-16")), "not UTF-8 text"),
    Case("Latin-1 far inside UTF-8", text(HEAD.encode() + csv_lines(9000).encode() + b"caf\xe9,i1,1,1\n"), "not UTF-8"),
    Case("UTF-8 with a byte order mark", text(b"\xef\xbb\xbf" + HONEST.encode()), "50", refused=False),
    Case("rows with fewer cells", text(rows("u1", "u2")), "cannot be read"),
    Case("rows with more cells", text(rows("u1,i1,1,1,1,1")), "cannot be read"),
    Case("a quote that is never closed", text(rows('"u1,i1,1,1')), "cannot be read"),
    Case("one line of 40 MB", text(HEAD + "u" * 40_000_000 + ",i1,1,1\n"), "cannot be read"),
    Case("100,000 columns", text(",".join(f"c{n}" for n in range(100_000)) + "\n" + "1," * 99_999 + "1\n"),
         "no user column"),
    Case("two columns of one name", text("user,user,item\nu1,u2,i1\n"), "2 columns are named"),
    Case("ids of 1,000,000 characters", text(rows(f"{'x' * LONG}a,i1,1,1", f"{'x' * LONG}b,i2,1,2")), "52",
         refused=False),
    Case("one user of 1,000,000 characters, in the error", text(HEAD + f"{'x' * LONG},i1,1,1\n" * 9), "only one user"),
    Case("ids that differ by case, Unicode form or a blank", text(rows(*LOOKALIKES)),
         "6 users look like others", refused=False),
    Case("integer ids beyond 64 bits", text(HEAD + csv_lines(ROWS).replace("u", str(10**30))),
         "50", refused=False),
    Case("values NaN, inf and 1e999", text(rows("u1,i1,NaN,1", "u2,i2,inf,2", "u3,i3,-1e999,3")), "not finite",
         refused=False),
    Case("a value of letters, asked for", text(rows("u1,i1,much,1"), options=["--value-col", "rating"]),
         "not a number"),
    Case("negative times", text(rows("u1,i1,1,-5", "u2,i2,1,-99999999999")), "50", refused=False),
    Case("times beyond 64 bits", text(rows("u1,i1,1,99999999999999999999999")), "50", refused=False),
    Case("times NaN and infinite, asked for", text(rows("u1,i1,1,nan", "u2,i2,1,inf"), options=["--time-col", "time"]),
         "time column 'time' has"),
    Case("a column of nothing, asked for", text("user,item,time\n" + "u1,i1,\nu2,i2,\n" * 99,
         options=["--time-col", "time"]), "is empty in row 1"),
    Case("rows without a user", text(rows(",i1,1,1", ",i2,1,2")), "2 rows have no user id"),
    Case("terminal escapes in ids", text(HEAD + "\x1b]0;harm\x07\x1b[31mu,i1,1,1\n" * 9), "only one user"),
    Case("a pickle called log.csv", lambda folder: text(harmful_pickle(folder))(folder), "log.csv"),
)  # fmt: skip

COMPRESSED = (
    Case("gzip that is cut short", text(gzip.compress(HONEST.encode())[:-300], "log.csv.gz"), "cannot be read"),
    Case("gzip with a false checksum", text(gzip.compress(HONEST.encode())[:-8] + b"\0" * 8, "log.csv.gz"),
         "cannot be read"),
    Case("no gzip at all, by its name", text(HONEST, "log.csv.gz"), "cannot be read"),
    Case("gzip bomb: 10 GB of rows in 10 MB", lambda folder: text(gzip_bomb(), "log.csv.gz")(folder), "times its size"),
    Case("zip bomb called log.csv", lambda folder: text(zip_bomb())(folder), "is a sheet or a zip archive"),
    Case("zip bomb called log.csv.gz", lambda folder: text(zip_bomb(), "log.csv.gz")(folder), "cannot be read"),
)  # fmt: skip

PARQUET = (
    Case("Parquet of no bytes", text(b"", "log.parquet"), "cannot be read"),
    Case("Parquet that is cut short", text(parquet_bytes(columns())[:-100], "log.parquet"), "cannot be read"),
    Case("Parquet whose pages are zeros",
         text(b"PAR1" + b"\0" * 500 + parquet_bytes(columns())[504:], "log.parquet"), "cannot be read"),
    Case("Parquet whose footer is longer than the file",
         text(parquet_bytes(columns())[:-8] + b"\xff\xff\xff\x7fPAR1", "log.parquet"), "cannot be read"),
    Case("Parquet that claims 4,000,000,000 rows", lying(_billions), "claims 4,000,000,000 rows"),
    Case("the same in its row groups and columns", lying(_billions_everywhere), "claims 4,000,000,000 rows"),
    Case("Parquet that claims 7 rows more than it has", lying(_a_few_more), "claims 407 rows"),
    Case("Parquet that claims 7 rows fewer than it has", lying(_fewer), "log.parquet"),
    Case("Parquet whose pages lie beyond its end", lying(_far_away), "cannot be read"),
    Case("Parquet whose pages are of 2^62 bytes", lying(_endless_pages), "cannot be read"),
    Case("Parquet bomb: 4,000,000,000 rows in 1 MB", lambda folder: text(parquet_bomb(), "log.parquet")(folder),
         "claims 4,000,000,000 rows"),
    Case("Parquet with ids that are no UTF-8", lambda folder: typed(user=bad_utf8("user"))(folder), "not UTF-8"),
    Case("Parquet with values that are no UTF-8, asked for",
         lambda folder: typed(["--value-col", "rating"], rating=bad_utf8("rating"))(folder), "not UTF-8"),
    Case("Parquet with lists as ids", typed(user=[[1]] * ROWS), "ids must be integers or text"),
    Case("Parquet with bytes as ids", typed(user=pa.array([b"u"] * ROWS, pa.large_binary())), "ids must be"),
    Case("Parquet with a user column of nulls", typed(user=pa.nulls(ROWS)), "400 rows have no user id"),
    Case("Parquet with a value column of nulls", typed(rating=pa.nulls(ROWS)), "400 rows have no value",
         refused=False),
    Case("Parquet with a time column of nulls, asked for", typed(["--time-col", "time"], time=pa.nulls(ROWS)),
         "is empty in row 1"),
    Case("Parquet with times beyond int64", typed(time=pa.array([2**64 - 1 - n for n in range(ROWS)], pa.uint64())),
         "50", refused=False),
    Case("Parquet with times NaN, asked for", typed(["--time-col", "time"], time=[float("nan")] * ROWS),
         "time column 'time' has"),
    Case("Parquet with ids beyond int64", typed(user=pa.array([2**64 - 1 - n % 50 for n in range(ROWS)], pa.uint64())),
         "50", refused=False),
    Case("Parquet whose column type is a pickle", pickled_type, "50", refused=False),
    Case("a pickle called log.parquet", lambda folder: text(harmful_pickle(folder), "log.parquet")(folder),
         "cannot be read"),
)  # fmt: skip

PLACES = (
    Case("a pipe that nobody writes to", pipe, "not a file"),
    Case("an endless device", lambda _: check(Path("/dev/zero")), "not a file"),
    Case("a link to itself", loop, "no file or folder"),
    Case("a folder of nothing", lambda folder: check(folder), "holds nothing"),
    Case("a split folder with one part empty", split_folder(train_rating=""), "train.rating"),
    Case("a split folder with ids of 10^18", split_folder(train_rating=f"{10**17}\t1\n1\t{10**17}\n" * 50),
         "log", refused=False),
    Case("a split folder with rows cut short", split_folder(valid_rating="1\t2\n3\n"), "cannot be read"),
    Case("a split folder of text after numbers", split_folder(test_negative="1\t2\nx\ty\n"), "log", refused=False),
    Case("u.data of letters", text("a\tb\tc\td\n" * 9, "u.data"), "u.data"),
    Case(".inter whose header lies", text("user_id:token\titem_id:float\n" + "1\t2\t3\n" * 9, "log.inter"),
         "cannot be read"),
    Case("items that repeat an id", items("id,title\ni1,a\ni1,b\n"), "repeat an item id"),
    Case("items of other ids", items("id,title\nx1,a\nx2,b\n"), "none of its 2 ids"),
    Case("items that are no UTF-8", items(b"id,title\ni1,caf\xe9\n"), "not UTF-8"),
    Case("items of NULs", items(b"\0" * 99), "NUL byte in line 1"),
)  # fmt: skip

LOGS = (*TEXT, *COMPRESSED, *PARQUET, *PLACES)
