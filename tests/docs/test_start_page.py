"""docs/README.md, the start of the site: its commands run, and print what is shown."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pyarrow as pa
import pytest

import postgres
from accord.data.databases import database_of
from documents import BLOCK, ROOT, assert_same, run

ADDRESS = "postgresql://ann@db.example.org/shop"
LEFT_OUT = "\n…\n"
PAGE = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
LISTS = re.compile(r"^user +rank.*", re.MULTILINE | re.DOTALL)


def section(heading: str) -> tuple[str, str]:
    """The code of a section, and what is shown below it."""
    start = PAGE.index(f"## {heading}\n")
    (_, code), (_, shown) = BLOCK.findall(PAGE[start : PAGE.find("\n## ", start + 1)])
    return code, shown.strip()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the log in each of its forms, as the page makes them."""
    assert run("python", next(code for language, code in BLOCK.findall(PAGE) if language == "python"), tmp_path) == ""
    return tmp_path


def test_what_the_page_imports_is_installed_by_it() -> None:
    """By its own first command: what Accord depends on, and what else the command names."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    (install,) = re.findall(r"^pip install -c constraints.txt (.*)$", PAGE, re.MULTILINE)
    there = {re.split(r"[^\w-]", name)[0] for name in (*project["dependencies"], *install.split())} | {"accord"}
    code = "\n".join(code for language, code in BLOCK.findall(PAGE) if language == "python")
    needed = {*re.findall(r"^(?:import|from) (\w+)", code, re.MULTILINE)} | (
        {"pandas"} & {*re.findall(r"pandas", code)}
    )
    assert needed <= there


@pytest.mark.heavy  # a whole search, as that of the README is, which is run every time
def test_the_first_log_gives_what_is_shown(folder: Path) -> None:
    code, shown = section("A CSV without a header line")
    assert_same(shown, run("bash", code, folder))


def test_the_first_log_is_read_as_is_shown(folder: Path) -> None:
    """The notes, with a model that is quick, and a list of as many rows as is shown."""
    code, shown = section("A CSV without a header line")
    printed = run("bash", code.replace(" --out", " --model ease --out"), folder)
    before, after = shown.split("auto tries ")
    assert_same(before, printed[: printed.index("clicks: 200 users, 100 items, 3,200 train")])
    rows = [[line.split()[:2] for line in LISTS.findall(text)[0].splitlines()] for text in (after, printed)]
    assert rows[0] == rows[1]


def assert_read(code: str, shown: str, folder: Path) -> None:
    """The notes, with a model that is quick; and that the lists are those of the first log, as the log is."""
    before, after = shown.split(LEFT_OUT)
    printed = run("bash", code.replace(" --out", " --model ease --out"), folder)
    notes, _, rest = printed.partition(": 200 users, 100 items, 3,200 train")
    assert rest
    assert_same(before, notes.rpartition("\n")[0])
    _, first = section("A CSV without a header line")
    assert LISTS.findall(after) == LISTS.findall(first)


@pytest.mark.parametrize("name", ["clicks.jsonl", "clicks.txt", "clicks"])
def test_other_files_are_the_same_log(name: str, folder: Path) -> None:
    code, shown = (text.replace("clicks.jsonl", name) for text in section("Other files"))
    assert name in code
    assert f"`{name}`" in PAGE or name == "clicks.jsonl"
    assert_read(code, shown, folder)


def test_a_table_of_postgresql_is_the_same_log(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    programs = postgres.programs()
    if programs is None:
        pytest.skip("PostgreSQL is not here")
    import adbc_driver_postgresql.dbapi as driver

    rows = [line.split() for line in (folder / "clicks.txt").read_text().splitlines()[1:]]
    table = pa.table({name: [row[place] for row in rows] for place, name in enumerate(("user_id", "item_id"))})
    monkeypatch.setenv("PGPASSWORD", postgres.PASSWORD)
    with postgres.server(programs) as address:
        with driver.connect(address) as connection:
            with connection.cursor() as cursor:
                cursor.adbc_ingest("clicks", table)
            connection.commit()
        code, shown = section("A PostgreSQL table")
        assert ADDRESS in code
        known = database_of(address)
        assert known is not None
        assert_read(code.replace(ADDRESS, f"'{address}'"), shown.replace(ADDRESS, known.label), folder)


def test_a_frame_gives_the_lists_of_the_first_log(folder: Path) -> None:
    """With a model that is quick, of the frame and of the first log; what is shown is the first log's list."""
    code, shown = section("A pandas frame in a notebook")
    command, first = section("A CSV without a header line")
    assert "accord.fit(frame)" in code
    printed = run("python", code.replace("accord.fit(frame)", 'accord.fit(frame, model="ease")'), folder)
    expected = run("bash", command.replace(" --out", " --model ease --out"), folder)
    for frame, listed in ((shown, first), (printed, expected)):
        rows = [line.split() for line in LISTS.findall(listed)[0].splitlines()]
        header, *lines = frame.splitlines()
        assert header.split() == rows[0]
        assert len(lines) == len(rows) - 1 == 3
        for place, (line, row) in enumerate(zip(lines, rows[1:], strict=True)):
            number, user, rank, item, score, source = line.split()
            assert (number, user, rank, item, source) == (str(place), *row[:3], row[4])
            assert float(score) == pytest.approx(float(row[3]), abs=1e-4)
