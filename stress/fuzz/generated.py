"""Inputs made by a generator: tables, run folders and requests of the right form, with something in them that is not.

Unlike the bytes of a fuzzer they get past the parsers, to what is made of the values. A number and a seed give a case.
"""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import json
import math
import random
import shutil
import urllib.parse
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from fuzz.folders import FILES, honest
from fuzz.logs import check

WORDS = (
    *("", " ", "nan", "NULL", "-", "0", "-0.0", "1e400", "inf", "-1", "9" * 30, "1,5", "1_000", "true", "NaT"),
    *(
        '"',
        '""',
        "'",
        "a\tb",
        "a\nb",
        "a\x00b",
        "\ufeff",
        "\u202e",
        "é",
        "e\u0301",
        "İ",
        "𐀀",
        "=1+1",
        "../..",
        "x" * 5000,
    ),
    *("2021-06-01", "2021-13-45", "0001-01-01", "9999-12-31T23:59:59Z", "1622505600", "1e18", "12:00"),
)
NAMES = (
    "user",
    "item",
    "rating",
    "time",
    "user_id",
    "itemId",
    "timestamp",
    "value",
    "",
    "user",
    "Ünï",
    "a,b",
    "label",
    "weight",
)
ODD: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 2**31, 2**63, 10**40, 0.5, -1e308, math.nan, math.inf, "", "x", "\ud800", "é" * 3000),
    *([], {}, [None], [[]], {"": None}, [1, "a", None], list(range(3000)), {"a": {"b": {"c": []}}}),
)
ROWS = 120


def table(draw: random.Random, folder: Path) -> list[str]:
    """A log as text or Parquet: some columns and rows are honest, and some are anything."""
    path = (_parquet if draw.random() < 0.4 else _text)(draw, folder)
    options: list[str] = []
    for option, values in (
        ("--user-col", ("user", "item", "nobody", "")), ("--value-col", ("rating", "user", "time")),
        ("--time-col", ("time", "item", "rating")), ("--weight-col", ("rating", "time")),
        ("--labels", ("rating>=3", "label", "time", "rating")), ("--clean", ("value>=3", "time>0")),
        ("--split", ("random", "chronological", "leave-last-out", "global-time", "global-time:2021-06-01")),
        ("--ratios", ("0.5,0.25,0.25", "1,0,0", "0,1,0", "0.8,0.1")), ("--events", ("a=1,b=?", "user=0.5")),
    ):  # fmt: skip
        if draw.random() < 0.06:
            options += [option, draw.choice(values)]
    return check(path, *options)


def _cell(draw: random.Random, name: str, row: int, odd: float) -> str:
    if draw.random() < odd:
        return draw.choice(WORDS)
    if "user" in name:
        return f"u{row % 15}"
    return f"i{(row * 7 + row // 15) % 20}" if "item" in name else str(draw.choice((1, 2.5, row, 10**9 + row)))


def _columns(draw: random.Random) -> list[str]:
    if draw.random() < 0.85:
        return ["user", "item", "rating", "time"][: draw.randint(2, 4)]
    return [draw.choice(NAMES) for _ in range(draw.randint(1, 6))]


def _rows(draw: random.Random) -> int:
    return ROWS if draw.random() < 0.85 else draw.randrange(4)


def _text(draw: random.Random, folder: Path) -> Path:
    names, odd = _columns(draw), draw.choice((0, 0.003, 0.003, 0.02, 0.1, 0.5))
    mark = draw.choice(",,,,,,\t\t;;|:")
    out = io.StringIO()
    writer = csv.writer(out, delimiter=mark, lineterminator=draw.choice(("\n",) * 6 + ("\r\n", "\r")))
    if draw.random() < 0.9:
        writer.writerow(names)
    for row in range(_rows(draw)):
        cells = [_cell(draw, name, row, odd) for name in names]
        if draw.random() < odd / 50:
            cells = cells[:-1] if draw.random() < 0.5 else [*cells, "more"]
        if draw.random() < odd / 10:
            out.write(mark.join(cells) + "\n")  # without quotes
        else:
            writer.writerow(cells)
    content = out.getvalue().encode(
        draw.choice(("utf-8",) * 16 + ("utf-8-sig", "utf-8-sig", "utf-16", "latin-1")), "replace"
    )
    name = "log" + draw.choice((".csv", ".csv", ".tsv", ".txt", ".inter", ".csv.gz", ".csv.bz2", ".csv.zst"))
    packed: dict[str, Callable[[bytes], bytes]] = {".gz": gzip.compress, ".bz2": bz2.compress}
    packed[".zst"] = lambda plain: pa.compress(plain, "zstd", asbytes=True)
    path = folder / name
    path.write_bytes(packed.get(path.suffix, bytes)(content))
    return path


def _parquet(draw: random.Random, folder: Path) -> Path:
    rows = _rows(draw)
    arrays: list[Any] = []
    names = _columns(draw)
    for name in names:
        values = [_cell(draw, name, row, 0) for row in range(rows)]
        arrays.append(_array(draw, values) if draw.random() < 0.35 else pa.array(values))
    path = folder / "log.parquet"
    pq.write_table(pa.Table.from_arrays(arrays, names=names), path)
    return path


def _array(draw: random.Random, values: list[str]) -> Any:
    """Values of another kind: many that a log may well have, and some that it cannot."""
    count = len(values)
    times = [datetime(2021, 1, 1, tzinfo=UTC) + timedelta(hours=n) for n in range(count)]
    whole = [n % 11 for n in range(count)]
    gaps = [None if draw.random() < 0.2 else n for n in whole]
    made: list[Callable[[], Any]] = [
        lambda: pa.array(values).dictionary_encode(),
        lambda: pa.array(values, pa.large_string()),
        lambda: pa.array([value.encode() for value in values], pa.binary()),
        lambda: pa.array([None] * count, pa.null()),
        lambda: pa.array(gaps, draw.choice((pa.int8(), pa.uint64(), pa.float32(), pa.float64(), pa.int64()))),
        lambda: pa.array([2**63 + n for n in whole], pa.uint64()),
        lambda: pa.array([float(n) for n in whole], pa.float64()).cast(pa.float16()),
        lambda: pa.array([draw.choice((math.nan, math.inf, -0.0, 1e308, 1.0)) for _ in whole]),
        lambda: pa.array([Decimal(n) / 8 for n in whole], pa.decimal128(38, 20)),
        lambda: pa.array([n > 4 for n in whole]),
        lambda: pa.array(times, pa.timestamp(draw.choice(("s", "ms", "us", "ns")), draw.choice((None, "UTC")))),
        lambda: pa.array([moment.date() for moment in times], draw.choice((pa.date32(), pa.date64()))),
        lambda: pa.array([2**62 * (n % 2) for n in whole], pa.timestamp("ms")),
        lambda: pa.array(whole, pa.time32("s")),
        lambda: pa.array(whole, pa.duration("us")),
        lambda: pa.array([[n] for n in whole]),
        lambda: pa.array([{"a": n} for n in whole]),
        lambda: pa.array([draw.choice(WORDS) for _ in whole]),
        lambda: pa.array([n.to_bytes(4, "big") for n in whole], pa.binary(4)),
    ]
    return draw.choice(made)()


def changed(draw: random.Random, content: Any) -> Any:
    """JSON with one value replaced, left out, doubled or under another name, wherever it lies."""
    if isinstance(content, dict) and content and draw.random() < 0.85:
        key = draw.choice(sorted(content))
        rest = {name: value for name, value in content.items() if name != key}
        way = draw.random()
        if way < 0.1:
            return rest
        if way < 0.2:
            return rest | {key + draw.choice((" ", "x", "\x00")): content[key]}
        return content | {key: changed(draw, content[key])}
    if isinstance(content, list) and content and draw.random() < 0.7:
        place = draw.randrange(len(content))
        way = draw.random()
        if way < 0.2:
            return content[:place] + content[place + 1 :]
        if way < 0.3:
            return content * draw.choice((2, 40))
        return [*content[:place], changed(draw, content[place]), *content[place + 1 :]]
    return draw.choice(ODD)


COMMANDS = (("evaluate",), ("evaluate",), ("report",), ("recommend", "--user", "u1"), ("similar", "--item", "i1"))


def _read_by(draw: random.Random, run: Path) -> list[str]:
    verb, *options = draw.choice(COMMANDS)
    return [verb, str(run), *options]


def json_files(draw: random.Random, folder: Path) -> list[str]:
    """A run whose config.json, metrics.json or log.jsonl says something else, and which has no manifest to tell."""
    run = folder / "run"
    shutil.copytree(honest() / "run", run)
    (run / "manifest.json").unlink()
    name = draw.choice(("config.json", "config.json", "metrics.json", "log.jsonl"))
    for _ in range(draw.randint(1, 3)):
        if name == "log.jsonl":
            lines = [json.loads(line) for line in (run / name).read_text().splitlines()]
            (run / name).write_text("".join(json.dumps(line) + "\n" for line in _lines(draw, lines)))
        else:
            (run / name).write_text(json.dumps(changed(draw, json.loads((run / name).read_text()))))
    return _read_by(draw, run)


def _lines(draw: random.Random, lines: list[Any]) -> list[Any]:
    found = changed(draw, lines)
    return found if isinstance(found, list) else [found]


def run_folder(draw: random.Random, folder: Path) -> list[str]:
    """A run of which a file is of another kind of table, gone, doubled or in another order."""
    run = folder / "run"
    shutil.copytree(honest() / "run", run)
    if draw.random() < 0.7:
        (run / "manifest.json").unlink()
    path = run / draw.choice(FILES)
    way = draw.choice(("table", "table", "table", "gone", "folder", "other", "bytes"))
    if way == "table" and path.suffix == ".parquet":
        _write_other_table(draw, path)
    elif way == "gone":
        path.unlink()
    elif way == "folder":
        path.unlink()
        path.mkdir()
    elif way == "other":
        path.write_bytes((honest() / "run" / draw.choice([name for name in FILES if name != path.name])).read_bytes())
    else:
        content = bytearray(path.read_bytes())
        for _ in range(draw.randint(1, 5)):
            content[draw.randrange(len(content))] = draw.randrange(256)
        path.write_bytes(bytes(content) + b"\0")
    return _read_by(draw, run)


def _write_other_table(draw: random.Random, path: Path) -> None:
    found = pq.read_table(path)
    ways: list[Callable[[], Any]] = [
        lambda: found.slice(0, draw.randrange(found.num_rows + 1)),
        lambda: pa.concat_tables([found, found.slice(0, draw.randrange(1, found.num_rows + 1))]),
        lambda: found.take(draw.sample(range(found.num_rows), found.num_rows)),
        lambda: found.drop_columns([draw.choice(found.column_names)]),
        lambda: found.rename_columns([draw.choice(("user", "item", "x", name)) for name in found.column_names]),
        lambda: found.set_column(0, found.column_names[0], _array(draw, [str(n) for n in range(found.num_rows)])),
        lambda: found.append_column("title", _array(draw, [str(n) for n in range(found.num_rows)])),
    ]
    other = draw.choice(ways)()
    if other.equals(found):
        other = found.slice(1)
    pq.write_table(other, path)


ASKED: dict[str, dict[str, Any]] = {
    "/v1/recommendations": {"user": "u1", "k": 3, "why": True, "exclude": "i3"},
    "/v1/history": {"user": "u1"},
    "/v1/similar": {"item": "i1", "k": 5},
    "/v1/scores": {"user": "u1", "items": "i1"},
    "/v1/why": {"user": "u1", "items": "i1"},
    "/v1/items": {"q": "i1", "limit": 3},
    "/v1/users": {"q": "u", "limit": 3},
    "/v1/about": {},
}
BODIES: dict[str, dict[str, Any]] = {
    "/v1/recommendations": {"users": ["u1", "x"], "k": 2, "exclude": ["i3"], "why": True},
    "/v1/recommendations/history": {"history": ["i1", "i2"], "k": 3, "exclude": ["i3"], "why": True},
    "/reload": {},
}


def request(draw: random.Random) -> bytes:
    """A request in the form that the target `api` takes: method, path, query and a header in a line, then a body."""
    posted = draw.random() < 0.4
    path = draw.choice(sorted(BODIES if posted else ASKED))
    asked, body = dict(ASKED.get(path, {})) if not posted else {}, dict(BODIES.get(path, {}))
    for _ in range(draw.randrange(3)):
        if posted:
            body = changed(draw, body)
        elif isinstance(asked, dict):
            asked = changed(draw, asked)
    pairs = asked.items() if isinstance(asked, dict) else [(name, asked) for name in ASKED[path]]
    query = urllib.parse.urlencode([(name, str(value)) for name, value in pairs], errors="replace")[:20000]
    header = "content-type: application/json" if draw.random() < 0.8 else draw.choice(("origin: null", "accept: */*"))
    method = draw.choice(("PUT", "HEAD")) if draw.random() < 0.05 else "POST" if posted else "GET"
    line = json.dumps({"method": method, "path": path, "query": query, "header": header})
    return line.encode() + b"\n" + (json.dumps(body).encode() if posted else b"")


KINDS: dict[str, Callable[[random.Random, Path], list[str]]] = {
    "tables": table,
    "config.json, metrics.json and log.jsonl": json_files,
    "files of run folders": run_folder,
}
