"""Formulas in CSV: a spreadsheet runs none, and what is read back is what was written."""

from __future__ import annotations

import csv
import io
import re

import pyarrow as pa
from hypothesis import example, given, settings
from hypothesis import strategies as st

from accord.auditing.audit import write_table
from accord.cli.display import table_as_text
from accord.data.columns import NO_TEXT_ID
from accord.data.read import read_table
from accord.io.csv_safety import guarded, guarded_text, unguarded
from accord.report.tables import Table
from accord_lab.writing import csv_text

SIGNS = "=+-@＝＋－＠'\t\r\n \u00a0\0"
texts = st.text(st.one_of(st.sampled_from(SIGNS + "1.e%±"), st.characters(codec="utf-8")), max_size=12)


def would_run(text: str) -> bool:
    """What OWASP warns of, said apart from the code: the first sign, blanks aside; or a tab or line end before."""
    first = re.sub(r"^[\s\x00-\x1f\u00a0]+", "", text)[:1]
    return (first != "" and first in "=+-@＝＋－＠") or text[:1] in ("\t", "\r", "\n")


def is_number(text: str) -> bool:
    return re.fullmatch(r"[+-]?([0-9][0-9,]*\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?%?( ± [0-9.]+%?)?|[+-]?(inf|nan)",
                        text, re.IGNORECASE) is not None  # fmt: skip


@given(texts)
@example("=1+1")
@example("'=1+1")
@example("-5")
@example("'-5")
@example("''-5")
def test_nothing_runs_and_nothing_is_lost(text):
    safe = guarded_text(text)
    assert not would_run(safe) or is_number(safe)
    assert unguarded(pa.array([safe]))[0].as_py() == text
    assert safe in (text, f"'{text}")


@given(st.lists(texts, max_size=5, unique=True))
def test_different_texts_stay_different(given):
    column = pa.array(given, pa.string())
    assert len(guarded(column).unique()) == len(given)


def test_numbers_are_left_alone():
    for text in ("-1", "+1.5", "-.5", "-1e-5", "-3%", "-0.1 ± 0.2", "-inf"):
        assert guarded_text(text) == text


def is_an_id(text):
    return "\0" not in text and text not in NO_TEXT_ID and not text.endswith(".0")  # 12.0 is read as 12


HARM = ["=cmd|' /C calc'!A0", "@SUM(1)", "+1-1", "-x", "\t=1", "'=1", "'x", "plain", "-7", "a'b"]


@settings(max_examples=20, deadline=None)
@given(st.lists(texts.filter(lambda text: text.strip() and is_an_id(text)), min_size=2, max_size=6, unique=True))
@example(HARM)
def test_a_cleaned_log_reads_back_to_the_same_ids(tmp_path_factory, ids):
    rows = pa.table({"user": ids * 2, "item": [f"i{n}" for n in range(2 * len(ids))], "value": [-1.5] * 2 * len(ids)})
    folder = tmp_path_factory.mktemp("clean")
    for name in ("clean.csv", "clean.tsv", "clean.parquet"):
        write_table(folder / name, rows)
        found, _ = read_table(folder / name)
        assert set(map(str, found.users.to_pylist())) == set(ids)
        assert found.column("value").tolist() == [-1.5] * 2 * len(ids)


def cells(text: str) -> list[str]:
    return [cell for row in csv.reader(io.StringIO(text, newline="")) for cell in row]


def test_no_writer_lets_a_formula_out(tmp_path):
    table = pa.table({"=user": HARM, "score": [-1.5] * len(HARM)})
    write_table(tmp_path / "clean.csv", table)
    written = [
        (tmp_path / "clean.csv").read_text(encoding="utf-8"),
        table_as_text(table, "csv"),
        csv_text(Table("t", ("=user", "score"), tuple((text, -1.5) for text in HARM))),
    ]
    for text in written:
        assert not [cell for cell in cells(text) if would_run(cell) and not is_number(cell)]
        assert "'=user" in cells(text)
        assert any(cell.startswith("-1.5") for cell in cells(text))  # a number stays one


def test_an_id_that_begins_with_a_sign_is_left_as_it_is(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("user,item\n-_kP3x,i1\n@anna,i2\n'tHooft,i1\n'-5,i1\n-5,i2\n")
    assert set(read_table(path)[0].users.to_pylist()) == {"-_kP3x", "@anna", "'tHooft", "'-5", "-5"}


def test_a_quote_that_is_taken_away_is_said(tmp_path):
    file = tmp_path / "log.csv"
    file.write_text("user,item\na,'=1+1\nb,'@x\na,plain\n", encoding="utf-8")
    read, notes = read_table(file)
    assert set(read.items.to_pylist()) == {"=1+1", "@x", "plain"}
    assert [note for note in notes if "text mark" in note and "'item'" in note]
