"""Wrong and odd inputs with the sentence that each gets: the tables of docs/errors.md, which `generate.py` writes."""

from __future__ import annotations

import contextlib
import gzip
import io
import os
import re
import shlex
import shutil
import sqlite3
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
from pyarrow import parquet

import accord
from accord.cli.app import main

HEAD = "user,item,rating,time\n"
ROWS = [f"u{n % 50},i{(n + n // 50 * 7) % 40},{n % 5 + 1},{1_600_000_000 + n * 3600}\n" for n in range(400)]
CLICKS = HEAD + "".join(ROWS)
TITLES = "item,title,year\n" + "".join(f"i{n},Title {n},{1990 + n}\n" for n in range(40))
EVENTS = "user,item,event\n" + "".join(f"u{n % 50},i{n * 7 % 41},{'view' if n % 3 else 'buy'}\n" for n in range(400))
NOT_HERE = {"COLUMNS": "200", "NO_COLOR": "1", "HOME": "/nowhere"}  # no settings of the machine it runs on


@dataclass(frozen=True)
class Odd:
    """A wrong input: what it is, the command or the line of Python, and what lies in the folder where it is given.

    There are always `clicks.csv`, which is a log as it should be, `titles.csv`, and two runs that were trained on it:
    `run` (EASE) and `learned` (matrix factorisation). In Python `rec` is `run`, and `frame` makes a pandas frame.
    """

    what: str
    asked: str
    files: Mapping[str, str | bytes | Callable[[Path], Any]] = field(default_factory=dict)
    missing: tuple[str, ...] = ()  # libraries that are not installed
    note: str | None = None  # of what is odd and yet read: a part of the note that says so

    @property
    def is_python(self) -> bool:
        return not self.asked.startswith("accord ")


def log(text: str | bytes, name: str = "log.csv") -> dict[str, str | bytes]:
    return {name: text}


def with_rows(*rows: str, name: str = "log.csv") -> dict[str, str | bytes]:
    """A log with these odd rows among honest ones."""
    return {name: HEAD + "".join(ROWS[:200]) + "".join(f"{row}\n" for row in rows) + "".join(ROWS[200:])}


def zipped(**files: str) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as bundle:
        for name, text in files.items():
            bundle.writestr(f"{name}.csv", text)
    return out.getvalue()


def database(path: Path) -> None:
    with contextlib.closing(sqlite3.connect(path)) as made:
        made.execute("create table clicks (user_id text, item_id text)")
        made.executemany("insert into clicks values (?, ?)", [row.split(",")[:2] for row in ROWS])
        made.commit()


def alike(path: Path) -> None:
    parquet.write_table(pa.table([["u1"], ["i1"], ["i2"]], names=["user", "item", "item"]), path)


def interrupted(path: Path) -> None:
    path.mkdir()
    (path / "checkpoint-mf").mkdir()


DATABASE = {"shop.db": database}

FILES = (
    Odd("no such file", "accord train click.csv"),
    Odd("an empty file", "accord train log.csv", log("")),
    Odd("a header and nothing else", "accord train log.csv", log(HEAD)),
    Odd("three rows", "accord train log.csv", log(HEAD + "".join(ROWS[:3]))),
    Odd("one column", "accord train log.csv", log("user\nu1\nu2\n")),
    Odd("a header that names two columns alike", "accord train log.csv", log("user,user,item\nu1,u2,i1\n")),
    Odd("the same, to be prepared", "accord data prepare log.csv --out store", log("user,item,item\nu1,i1,i2\n")),
    Odd("Parquet with two columns named alike", "accord train log.parquet", {"log.parquet": alike}),
    Odd("the header again among the rows", "accord train log.csv", with_rows(HEAD.strip())),
    Odd("six columns without a header", "accord train log.csv", log("u1,i1,1,2,3,4\nu2,i2,1,2,3,4\n" * 50)),
    Odd("a row with too many cells", "accord train log.csv", with_rows("u1,i1,5,1600000000,extra")),
    Odd("a quote that is never closed", "accord train log.csv", with_rows('"u1,i1,5,1600000000')),
    Odd("Latin-1 text", "accord train log.csv", log((CLICKS + "café,i1,1,1600000000\n").encode("latin-1"))),
    Odd("UTF-16, as Excel saves “Unicode text”", "accord train log.csv", log(CLICKS.encode("utf-16"))),
    Odd("zeros that a crash left", "accord train log.csv", with_rows("u1\0\0\0\0")),
    Odd("a picture", "accord train log.csv", log(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR")),
    Odd("a zip with two tables", "accord train logs.zip", log(zipped(may=CLICKS, june=CLICKS), "logs.zip")),
    Odd("an Excel file", "accord train log.xlsx", log(b"PK\x03\x04", "log.xlsx")),
    Odd("an ORC file", "accord train log.orc", log(b"ORC", "log.orc")),
    Odd("gzip that is cut short", "accord train log.csv.gz",
        log(gzip.compress(CLICKS.encode(), mtime=0)[:-300], "log.csv.gz")),
    Odd("Parquet that is cut short", "accord train log.parquet", log(b"PAR1\0\0\0\0", "log.parquet")),
    Odd("JSON Lines with a broken row", "accord train log.jsonl",
        log('{"user": "u1", "item": "i1"}\n' * 9 + '{"user": "u1", "item"\n', "log.jsonl")),
    Odd("JSON Lines without a user", "accord train log.jsonl", log('{"who": "u1", "item": "i1"}\n' * 9, "log.jsonl")),
    Odd("JSON that is one array", "accord train log.json", log('[{"user": "u1", "item": "i1"}]', "log.json")),
    Odd("a folder of two different tables", "accord train logs", {"logs/a.csv": CLICKS, "logs/b.csv": TITLES}),
    Odd("a folder of nothing", "accord train logs", {"logs/notes.md": "# Notes"}),
)  # fmt: skip

COLUMNS = (
    Odd("no column that is called like users", "accord train log.csv", log("who,what\nu1,i1\n" * 9)),
    Odd("two columns that could be the user", "accord train log.csv", log("user_id,uid,item\nu1,x1,i1\n" * 9)),
    Odd("a column that is not there", "accord train clicks.csv --user-col users"),
    Odd("one column for two roles", "accord train clicks.csv --user-col item --item-col item"),
    Odd("rows without a user", "accord train log.csv", with_rows(",i1,5,1600000000", ",i2,5,1600000000")),
    Odd("one user only", "accord train log.csv", log(HEAD + "".join(f"u1,i{n},5,{n}\n" for n in range(30)))),
    Odd("a value that is no number", "accord train log.csv --value-col rating", with_rows("u1,i1,much,1600000000")),
    Odd("a weight below zero", "accord train log.csv --weight-col rating", with_rows("u1,i1,-2,1600000000")),
    Odd("a date that is none", "accord train log.csv --time-col time", with_rows("u1,i1,5,yesterday")),
    Odd("dates whose day and month cannot be told apart", "accord train log.csv --time-col time",
        log(HEAD + "".join(f"u{n % 9},i{n % 7},5,0{n % 9 + 1}/0{n % 8 + 1}/2021\n" for n in range(90)))),
    Odd("times as the split wants, of a log without", "accord train log.csv --split chronological",
        log("".join(",".join(row.split(",")[:2]) + "\n" for row in (HEAD, *ROWS)))),
)  # fmt: skip

LABELS = (
    Odd("a rule of labels that is none", "accord train clicks.csv --labels 'rating>>4'"),
    Odd("a rule on a column that is not there", "accord train clicks.csv --labels 'stars>=4'"),
    Odd("a column of labels that holds ratings", "accord train clicks.csv --labels rating"),
    Odd("a rule that no row meets", "accord train clicks.csv --labels 'rating>=9; rating<=-9'"),
    Odd("a code for not rated", "accord train log.csv --labels 'rating>=4'",
        log(HEAD + "".join(row.replace(",1,", ",0,") for row in ROWS).replace(",5,", ",1,"))),
    Odd("a file of labels without a label", "accord train clicks.csv --labels labels.csv",
        log("user,item\nu1,i1\n", "labels.csv")),
    Odd("labels of other ids", "accord train clicks.csv --labels labels.csv",
        log("user,item,label\nx1,y1,1\nx2,y2,0\n", "labels.csv")),
    Odd("events that are no rule", "accord train log.csv --events view",
        log(EVENTS)),
    Odd("a kind of event that is not named", "accord train log.csv --events buy=1",
        log(EVENTS)),
    Odd("a log without a kind of event", "accord train clicks.csv --events 'view=?,buy=1'"),
    Odd("a clean rule that is none", "accord train clicks.csv --clean 'rating is 5'"),
    Odd("a clean rule that nothing meets", "accord train clicks.csv --clean 'value>=9'"),
    Odd("labels asked for, of a log that has none", "accord lab labels clicks.csv --labels bought"),
    Odd("shares of labels beyond 1", "accord lab labels clicks.csv --labels 'rating>=4' --shares 5"),
)  # fmt: skip

TRAINING = (
    Odd("a model that is not here", "accord train clicks.csv --model bert4rec"),
    Odd("a model that is mistyped", "accord train clicks.csv --model eese"),
    Odd("a method that is not here", "accord train clicks.csv --method decca"),
    Odd("a method for a model that is solved", "accord train clicks.csv --model ease --method deca"),
    Odd("a budget for one model", "accord train clicks.csv --model ease --budget 10"),
    Odd("a budget below zero", "accord train clicks.csv --budget -1"),
    Odd("an option that is not there", "accord train clicks.csv --model ease --set model.l3=1"),
    Odd("an option without a section", "accord train clicks.csv --model ease --set l2=1"),
    Odd("an option of the wrong kind", "accord train clicks.csv --model ease --set model.l2=much"),
    Odd("an option of the command that is mistyped", "accord train clicks.csv --modle ease"),
    Odd("no seeds", "accord train clicks.csv --model ease --seeds 0"),
    Odd("no epochs", "accord train clicks.csv --model mf --epochs 0"),
    Odd("a list length of 0", "accord train clicks.csv --model ease --k 0"),
    Odd("shares that are not 1 together", "accord train clicks.csv --ratios 0.8,0.3,0.1"),
    Odd("a split that is not here", "accord train clicks.csv --split by-time"),
    Odd("a device that is not here", "accord train clicks.csv --model ease --device tpu"),
    Odd("--out that is a file", "accord train clicks.csv --model ease --out titles.csv"),
    Odd("--out where no folder can be made", "accord train clicks.csv --model ease --out titles.csv/run"),
    Odd("--out that holds a run", "accord train clicks.csv --model ease --out run"),
    Odd("--out that holds an interrupted run", "accord train clicks.csv --model mf --out half", {"half": interrupted}),
    Odd("a table of items without ids", "accord train clicks.csv --model ease --items log.csv",
        log("name,year\nTitle 1,1990\n")),
    Odd("a comparison of a model that is not here", "accord compare clicks.csv --models gmf,bert4rec"),
    Odd("a comparison with a baseline that is no row",
        "accord compare clicks.csv --models mf --baseline gmf --epochs 1"),
    Odd("an audit without seeds", "accord audit clicks.csv --seeds 0"),
    Odd("an audit into a file", "accord audit clicks.csv --out titles.csv"),
    Odd("a cleaned log of a kind that is not written", "accord audit clicks.csv --write-clean clean.xlsx"),
    Odd("--drop-below without a file", "accord audit clicks.csv --drop-below 0.3"),
)  # fmt: skip

RUNS = (
    Odd("a run that is not there", "accord recommend runs/clicks --user u1"),
    Odd("a folder that is no run", "accord recommend logs --user u1", {"logs/notes.md": "# Notes"}),
    Odd("a run that was interrupted", "accord recommend half --user u1", {"half": interrupted}),
    Odd("a run with a file of another", "accord recommend run --user u1", {"run/config.json": "{}"}),
    Odd("nobody to recommend to", "accord recommend run"),
    Odd("lists of no items", "accord recommend run --user u1 --k 0"),
    Odd("a file of a kind that is not written", "accord recommend run --all --out lists.xlsx"),
    Odd("users in a file that is not there", "accord recommend run --users vip.txt"),
    Odd("a condition on items of which nothing is known", "accord recommend run --user u1 --where 'genre=drama'"),
    Odd("an item that is not there", "accord similar run i999"),
    Odd("a user who is not there, to explain", "accord explain run --user nobody --item i1"),
    Odd("an update that goes nowhere", "accord update run log.csv", with_rows()),
    Odd("an update of a learned model", "accord update learned log.csv --out new", with_rows()),
    Odd("a server without a run", "accord serve logs", {"logs/notes.md": "# Notes"}),
    Odd("a server for others without a token", "accord serve run --host 0.0.0.0"),
    Odd("a server on no port", "accord serve run --port 70000"),
    Odd("a server without the extra", "accord serve run", missing=("fastapi",)),
)

DATABASES = (
    Odd("a database without a query", "accord train shop.db", DATABASE),
    Odd("a table that is not there", "accord train shop.db --query 'select * from visits'", DATABASE),
    Odd("a query that is none", "accord train shop.db --query 'get clicks'", DATABASE),
    Odd("a query of two columns named alike",
        "accord train shop.db --query 'select user_id, item_id, item_id from clicks'", DATABASE),
    Odd("a query of no rows", "accord train shop.db --query 'select * from clicks where 1 = 0'", DATABASE),
    Odd("a database file that is not there", "accord train sqlite:///store.db --query 'select * from clicks'"),
    Odd("no server", "accord train postgresql://127.0.0.1:1/shop --query 'select * from clicks'"),
    Odd("a driver that is not installed", "accord train postgresql://db/shop --query 'select * from clicks'",
        missing=("adbc_driver_postgresql", "adbc_driver_postgresql.dbapi")),
    Odd("lists into a table that is there",
        "accord recommend run --all --to sqlite:///shop.db --table clicks", DATABASE),
    Odd("lists into no table", "accord recommend run --all --to sqlite:///lists.db"),
    Odd("a table in the address", "accord recommend run --all --to postgresql://ann@db/shop/lists"),
    Odd("a server without a database", "accord recommend run --all --to postgresql://ann@db --table lists"),
    Odd("a query of a file", "accord train clicks.csv --query 'select * from clicks'"),
)  # fmt: skip

PYTHON = (
    Odd("a list length of 2.5", "rec.recommend(['u1'], k=2.5)"),
    Odd("a number for a user", "rec.recommend(1)"),
    Odd("an item that is not there", "rec.similar(['i999'])"),
    Odd("pairs that are none", "rec.score(['u1', 'u2'], ['i1'])"),
    Odd("a frame without a user", "accord.load(frame(who=['a', 'b'], item=['x', 'y']))"),
    Odd("a frame with two columns named alike",
        "accord.load(frame(user=['a'], item=['x'], other=['y']).rename(columns={'other': 'item'}))"),
    Odd("a frame with a missing id", "accord.load(frame(user=['a', None], item=['x', 'y']))"),
    Odd("a frame of two rows", "accord.load(frame(user=['a', 'b'], item=['x', 'y']))"),
    Odd("a frame with a column of lists", "accord.load(frame(user=[['a'], ['b']], item=['x', 'y']))"),
    Odd("a frame without columns", "accord.load(frame())"),
    Odd("a column that is a number", "accord.load('clicks.csv', columns={'user': 0})"),
    Odd("shares that are text", "accord.load('clicks.csv', ratios='80/10/10')"),
    Odd("a seed that is text", "accord.load('clicks.csv', seed='one')"),
    Odd("a split that is a number", "accord.load('clicks.csv', split=0.2)"),
    Odd("columns as a list", "accord.load('clicks.csv', columns=['user', 'item'])"),
    Odd("a list of rows", "accord.load([('u1', 'i1'), ('u2', 'i2')])"),
    Odd("a model that is a number", "accord.fit('clicks.csv', 3)"),
    Odd("a method for a model that is solved", "accord.fit('clicks.csv', 'ease', 'deca')"),
    Odd("seeds that are text", "accord.fit('clicks.csv', 'ease', seeds='many')"),
    Odd("an option without a section", "accord.fit('clicks.csv', 'ease', options={'l2': 1.0})"),
    Odd("a callback that is a function", "accord.fit('clicks.csv', 'ease', callbacks=[len])"),
    Odd("seeds of an audit that are text", "accord.audit('clicks.csv', seeds='five')"),
    Odd("a run on a device that is not here", "accord.Recommender.load('run', device='gpu')"),
    Odd("nothing new to evaluate on", "rec.evaluate('clicks.csv')"),
    Odd("nothing", "accord.load(None)"),
)  # fmt: skip

READ = (
    Odd("a pair that comes twice", "accord data check log.csv", with_rows("u1,i1,5,1600000000"), note="repeat a"),
    Odd("a value that is missing", "accord data check log.csv", with_rows("u1,i1,,1600000000"), note="have no value"),
    Odd("an infinite value", "accord data check log.csv", with_rows("u1,i99,inf,1600000000"), note="not finite"),
    Odd("ids that differ by case alone", "accord data check log.csv", with_rows("U1,i1,5,1600000000"),
        note="look like others"),
    Odd("ids like 12.0, as pandas writes them", "accord data check log.csv",
        log("user,item\n" + "".join(f"{n % 50}.0,i{n * 7 % 41}\n" for n in range(400))), note="whole numbers"),
    Odd("no times", "accord data check log.csv",
        log("user,item\n" + "".join(f"u{n % 50},i{n * 7 % 41}\n" for n in range(400))), note="split random"),
)  # fmt: skip

GROUPS = {
    "Files": FILES,
    "Columns, ids, values and times": COLUMNS,
    "Labels, events and clean rules": LABELS,
    "Training, comparing and auditing": TRAINING,
    "Runs: recommending, updating, serving": RUNS,
    "Databases": DATABASES,
    "Python": PYTHON,
    "Odd, and read with a note": READ,
}


@contextlib.contextmanager
def folder() -> Iterator[Path]:
    """An empty folder with the honest log and its two runs, to be copied for each input."""
    with tempfile.TemporaryDirectory() as name, contextlib.redirect_stderr(io.StringIO()):
        made = Path(name).resolve()
        (made / "clicks.csv").write_text(CLICKS)
        (made / "titles.csv").write_text(TITLES)
        accord.fit(made / "clicks.csv", "ease", out=made / "run")
        accord.fit(made / "clicks.csv", "mf", "normal", epochs=1, out=made / "learned")
        yield made


def sentence(odd: Odd, honest: Path) -> str:
    """What a wrong input gets: one sentence, and exit code 2 if it is a command. Anything else is an AssertionError."""
    with tempfile.TemporaryDirectory() as name:
        place = Path(name).resolve() / "here"
        shutil.copytree(honest, place)
        for path, content in odd.files.items():
            target = place / path
            target.parent.mkdir(exist_ok=True)
            if callable(content):
                content(target)
            else:
                target.write_bytes(content if isinstance(content, bytes) else content.encode())
        with contextlib.chdir(place), mock.patch.dict(os.environ, NOT_HERE), _without(odd.missing):
            said = _in_python(odd) if odd.is_python else _by_command(odd)
        return said.replace(f"{place}/", "")


@contextlib.contextmanager
def _without(modules: tuple[str, ...]) -> Iterator[None]:
    """A time in which these cannot be imported, as if they were not installed."""
    before = {name: sys.modules.get(name, ...) for name in modules}
    sys.modules.update(dict.fromkeys(modules))  # type: ignore[arg-type]
    try:
        yield
    finally:
        for name, module in before.items():
            if module is ...:
                del sys.modules[name]
            else:
                sys.modules[name] = module


def _by_command(odd: Odd) -> str:
    out, error = io.StringIO(), io.StringIO()
    words = mock.patch.object(sys, "argv", shlex.split(odd.asked))
    with words, contextlib.redirect_stdout(out), contextlib.redirect_stderr(error):
        try:
            main()
        except SystemExit as ended:
            code = ended.code
    lines = [line for line in error.getvalue().splitlines() if line.strip()]
    if odd.note is not None:
        notes = [line.removeprefix("- ") for line in out.getvalue().splitlines() if odd.note in line]
        assert (code, len(notes)) == (0, 1), f"{odd.asked}: exit code {code}, said {lines}, notes {notes}"
        return notes[0]
    assert code == 2, f"{odd.asked}: exit code {code}, said {lines}"
    assert lines[-1].startswith("accord: "), f"{odd.asked}: said {lines}"
    return lines[-1].removeprefix("accord: ")


def _in_python(odd: Odd) -> str:
    import pandas

    known = {
        "accord": accord,
        "rec": accord.Recommender.load("run"),
        "frame": lambda **columns: pandas.DataFrame(columns),
    }
    try:
        eval(odd.asked, known)
    except accord.InputError as error:
        return str(error)
    raise AssertionError(f"{odd.asked}: no error")


def tables() -> str:
    """The tables of docs/errors.md."""
    parts = []
    with folder() as honest:
        for title, group in GROUPS.items():
            rows = [f"| {odd.what} | `{_cell(odd.asked)}` | {_plain(sentence(odd, honest))} |" for odd in group]
            parts.append("\n".join([f"## {title}\n", *HEADING, *rows]))
    return "\n\n".join(parts) + "\n"


HEADING = ("| what is wrong | what was asked | what is said |", "|---|---|---|")


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _plain(text: str) -> str:
    return re.sub(r"([<>&*_`\[\]|\\$])", r"\\\1", " ".join(text.split()))
