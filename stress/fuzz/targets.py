"""What is fuzzed: each target takes bytes and raises when something is wrong. An InputError is a sentence, so right."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import shutil
import tempfile
from abc import ABC, abstractmethod
from collections import Counter
from math import isnan
from pathlib import Path
from typing import Any

from fuzz import parquet
from fuzz.case import ROWS
from fuzz.folders import CHECKPOINT, FILES, honest
from fuzz.logs import HEAD, HONEST, columns, parquet_bytes

NAMES = ("log.csv", "log.tsv", "log.inter", "u.data", "ratings.dat", "log.txt")


class Target(ABC):
    """`what` says what is fuzzed; `seeds` are inputs to begin with."""

    what: str
    seeds: list[bytes]

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="accord-fuzz-"))

    @abstractmethod
    def one(self, data: bytes) -> None:
        """Try an input."""

    def close(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)


def changed(whole: bytes, data: bytes) -> bytes:
    """A file with some of its bytes changed: two bytes say where, one how. More than the file has cut it short."""
    found = bytearray(whole)
    for place in range(0, len(data) - 2, 3):
        where = int.from_bytes(data[place : place + 2], "little")
        if where < len(found):
            found[where] ^= data[place + 2]
        else:
            del found[where % max(1, len(found)) :]
    return bytes(found)


class Text(Target):
    what = "logs as text: CSV, TSV, .inter, u.data, ratings.dat, and what is made of them"

    def __init__(self) -> None:
        super().__init__()
        few = "".join(HONEST.splitlines(keepends=True)[:20])
        rows = few.removeprefix(HEAD)
        self.seeds = [
            b"\0" + few.encode(),
            b"\1" + few.replace(",", "\t").encode(),
            b"\2" + few.replace(HEAD, "user_id:token\titem_id:token\trating:float\ttimestamp:float\n").encode(),
            b"\3" + rows.replace("u", "").replace("i", "").replace(",", "\t").encode(),
            b"\4" + rows.replace(",", "::").encode(),
            b'\0user,item\n"a""b\nc",\'=d\n-5,\xc3\xa9\n',
        ]

    def one(self, data: bytes) -> None:
        from accord.auditing.health import health
        from accord.auditing.interaction_log import open_log
        from accord.data.read import read_table
        from accord.data.split import split
        from accord.errors import InputError

        path = self.folder / NAMES[data[0] % len(NAMES)] if data else self.folder / NAMES[0]
        path.write_bytes(data[1:])
        try:
            rows, _ = read_table(path)
            breaks = sum(data.count(mark) for mark in (b"\n", b"\r"))
            assert 0 < len(rows) <= breaks + 1, "more rows than lines"
            assert all(str(one) for one in rows.users.to_pylist()), "an empty id"
            health(open_log(split(rows, name="log")))
        except InputError:
            return


class Parquet(Target):
    what = "logs as Parquet: bytes, and counts, sizes and places in the footer"

    def __init__(self) -> None:
        super().__init__()
        self.whole = parquet_bytes(columns(), compression="none")
        self.seeds = [b"\0\7\0\1", b"\0\xff\xff\0", *(bytes([1, n, 7]) for n in range(12))]

    def one(self, data: bytes) -> None:
        from accord.data.read import read_table
        from accord.errors import InputError

        path = self.folder / "log.parquet"
        lies = data[:1] == b"\1"
        try:
            path.write_bytes(self._lying(data[1:]) if lies else changed(self.whole, data[1:]))
            rows, _ = read_table(path)
        except InputError:
            return
        rows.table.validate(full=True)
        assert not lies or len(rows) == ROWS, "another number of rows"

    def _lying(self, data: bytes) -> bytes:
        def change(footer: parquet.Struct) -> None:
            for place in range(0, len(data) - 1, 9):
                which, value = data[place], int.from_bytes(data[place + 1 : place + 9], "little", signed=True)
                group = parquet.groups(footer)[0]
                column = parquet.columns(group)[which // 8 % 4]
                fields, field = [
                    (footer, parquet.NUM_ROWS), (group, parquet.GROUP_ROWS), (group, parquet.GROUP_BYTES),
                    (column, parquet.COLUMN_VALUES), (column, parquet.COLUMN_BYTES),
                    (column, parquet.COLUMN_COMPRESSED), (column, parquet.COLUMN_PAGE),
                    (column, parquet.COLUMN_DICTIONARY),
                ][which % 8]  # fmt: skip
                if field in fields:
                    parquet.set_integer(fields, field, value)

        return parquet.with_footer(self.whole, change)


class Expressions(Target):
    what = "`--clean`, `--set` and lists of numbers"  # with a parser each, and no eval

    def __init__(self) -> None:
        super().__init__()
        self.seeds = [b"value>=4 and value<=5", b"dwell>1e3,time<2", b"method.c1=100", b'a={"b": [1, null]}', b"5,20"]

    def one(self, data: bytes) -> None:
        from accord.cli.options import parse_numbers, parse_options
        from accord.data.rules import OPERATORS, CleanRule
        from accord.errors import InputError

        text = data.decode("utf-8", "surrogateescape")
        for parse in (lambda: parse_options([text]), lambda: parse_numbers(text, "--k")):
            try:
                parse()
            except InputError as error:
                if len(str(error)) > 1000:
                    raise AssertionError("no sentence") from error
        try:
            rule = CleanRule.parse(text)
        except InputError:
            return
        assert all(name in text and op in OPERATORS and not isnan(float(value)) for name, op, value in rule.real)


class Folder(Target):
    what = "each file of a run folder, then lists and figures from what was loaded"

    def __init__(self) -> None:
        super().__init__()
        shutil.copytree(honest() / "run", self.folder / "run")
        (self.folder / "run" / "manifest.json").unlink()  # it would refuse every change at once
        self.contents = [(honest() / "run" / name).read_bytes() for name in FILES]
        self.seeds = [bytes([n]) + b"\7\0\1" for n in range(len(FILES))]

    def one(self, data: bytes) -> None:
        from accord.errors import InputError
        from accord.recommender.recommender import Recommender

        place = data[0] % len(FILES) if data else 0
        path = self.folder / "run" / FILES[place]
        path.write_bytes(changed(self.contents[place], data[1:]))
        try:
            loaded = Recommender.load(self.folder / "run")
            lists = loaded.recommend(k=3)
            assert lists.num_rows == 3 * len(loaded.users) or place in (3, 4, 5), "lists of another length"
            loaded.evaluate()
        except InputError:
            return
        finally:
            path.write_bytes(self.contents[place])


class Checkpoint(Target):
    what = "a checkpoint, from which training continues"

    def __init__(self) -> None:
        super().__init__()
        import accord
        from accord.training.plan import plan

        self.data = accord.load(honest() / "log.csv")
        self.run = plan(self.data, "mf", "normal", "corrected", [7], {"model.dim": 4}, 1, [20])
        self.whole = (honest() / "cut" / CHECKPOINT).read_bytes()
        self.seeds = [b"", b"\7\0\1", b"\xff\xff\0"]

    def one(self, data: bytes) -> None:
        import torch

        from accord.errors import InputError
        from accord.training.stack import train_stack

        (self.folder / CHECKPOINT).write_bytes(changed(self.whole, data))
        try:
            method, _ = train_stack(self.data, self.run, torch.device("cpu"), folder=self.folder, resume=True)
        except InputError:
            return
        assert all(torch.isfinite(tensor).all() for tensor in method.state_dict().values()), (
            "weights became NaN or infinite"
        )


class Api(Target):
    what = "requests to the server: method, path, query, headers and body"
    paths = ("/v1/recommendations", "/v1/recommendations/history", "/v1/history", "/v1/similar", "/v1/items",
             "/v1/users", "/v1/about", "/healthz", "/static/page.js", "/metrics",
             "/openapi.json", "/", "/v1/scores", "/v1/why")  # fmt: skip

    def __init__(self) -> None:
        super().__init__()
        from accord.serve.api import make_app
        from accord.serve.guard import Meters, Rules
        from accord.serve.snapshots import Holder

        self.app = make_app(Holder(honest() / "run", Meters()), Rules())
        self.failed: list[str] = []
        self.answers: Counter[bool] = Counter()  # with an answer, and refused
        log = logging.getLogger("accord.serve")
        log.addHandler(_Keep(self.failed))
        log.propagate = False
        history = json.dumps({"history": ["i1", "i2"], "k": 3, "why": True, "exclude": ["i3"]})
        self.seeds = [
            b"\0\0user=u1&k=3&why=true\n\n",
            b"\1\0\ncontent-type: application/json\n" + json.dumps({"users": ["u1", "x"], "k": 2}).encode(),
            b"\1\1\ncontent-type: application/json\n" + history.encode(),
            b"\0\2user=u1\n\n", b"\0\3item=i1&k=5\n\n", b"\0\4q=i1+2&limit=3\n\n", b"\0\5q=%ff\norigin: x\n",
            b"\0\7user=u1&offset=1\n\n", b"\0\12\nhost: evil\n",
        ]  # fmt: skip

    def one(self, data: bytes) -> None:
        start, _, rest = data.partition(b"\n")
        header, _, body = rest.partition(b"\n")
        method = ("GET", "POST", "PUT", "HEAD")[start[0] % 4] if start else "GET"
        number = start[1] if len(start) > 1 else 0
        path = self.paths[number % len(self.paths)] + ("" if number < 128 else start[2:12].decode("latin-1"))
        self.ask(method, path, start[2:], header, body)

    def generated(self, data: bytes) -> None:
        """A request of `fuzz.generated`."""
        line, _, body = data.partition(b"\n")
        asked = json.loads(line)
        self.ask(asked["method"], asked["path"], asked["query"].encode(), asked["header"].encode(), body)

    def ask(self, method: str, path: str, query: bytes, header: bytes, body: bytes) -> None:
        headers = [(b"host", b"localhost"), (b"content-length", str(len(body)).encode())]
        if b":" in header:
            name, _, value = header.partition(b":")
            headers.append((name.lower().strip(), value.strip()))
        scope = {
            "type": "http", "http_version": "1.1", "method": method, "path": path, "raw_path": path.encode("latin-1"),
            "query_string": query, "headers": headers, "scheme": "http", "root_path": "",
            "server": ("localhost", 80), "client": ("127.0.0.1", 1),
        }  # fmt: skip
        status, sent = asyncio.run(self._ask(scope, body))
        self.answers[status < 400] += 1
        assert status < 500, f"status {status}: {self.failed[-1:]}"
        assert status != 200 or method == "HEAD" or sent, "an answer of nothing"
        assert b"Traceback" not in sent, "a traceback"
        assert b"site-packages" not in sent, "a path"
        if status == 200 and path.startswith("/v1/") and method != "HEAD":
            json.loads(sent, parse_constant=_no_number)

    async def _ask(self, scope: dict[str, Any], body: bytes) -> tuple[int, bytes]:
        messages: list[Any] = []

        request = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive() -> dict[str, Any]:
            if not request:
                await asyncio.Event().wait()  # as a server does until the client is gone
            return request.pop()

        async def send(message: Any) -> None:
            messages.append(message)

        await self.app(scope, receive, send)
        out = io.BytesIO()
        for message in messages[1:]:
            out.write(message.get("body", b""))
        return messages[0]["status"], out.getvalue()


def _no_number(text: str) -> None:
    raise AssertionError(f"{text} in an answer")


class _Keep(logging.Handler):
    def __init__(self, kept: list[str]) -> None:
        super().__init__()
        self.kept = kept

    def emit(self, record: logging.LogRecord) -> None:
        self.kept.append(self.format(record))


TARGETS: dict[str, type[Target]] = {
    "text": Text,
    "parquet": Parquet,
    "expressions": Expressions,
    "folder": Folder,
    "checkpoint": Checkpoint,
    "api": Api,
}
