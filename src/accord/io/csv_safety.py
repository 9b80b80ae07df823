"""Cells of CSV files that a spreadsheet would run as a formula: how they are written, and how they are read back.

A cell that begins with =, +, -, @ or their full-width forms, even after blanks, is run as a formula; after a ' it is
plain text, and the ' is not shown. So a ' is put before such text (and before text that has one there already, so
that it can be removed again), and never before a number."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

RUNS = r"(?:[\s\pZ\pC]*[=+\-@＝＋－＠]|[\t\r\n])"
NUMBER = r"^[+-]?(?:(?:[0-9][0-9,]*\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?%?(?: ± [0-9.]+%?)?|(?i:inf|nan))$"


def is_guarded(column: Any) -> Any:
    """Which texts of a column have a ' that keeps them from being run."""
    return _matches(column, f"^'+{RUNS}", pc.utf8_slice_codeunits(column, 1))


def guarded(column: Any) -> Any:
    quote, nothing = (pa.scalar(text, column.type) for text in ("'", ""))
    quoted = pc.binary_join_element_wise(quote, column, nothing)
    return pc.if_else(_matches(column, f"^'*{RUNS}", column), quoted, column)


def unguarded(column: Any) -> Any:
    """The texts as they were before `guarded`."""
    return pc.if_else(is_guarded(column), pc.utf8_slice_codeunits(column, 1), column)


def write_csv(table: Any, target: Any, delimiter: str = ",") -> None:
    """Write an Arrow table to a file or a path, safe in a spreadsheet, names of columns too, all text quoted."""
    safe = pa.table([_guarded(column) for column in table.columns], names=list(map(guarded_text, table.column_names)))
    pyarrow.csv.write_csv(safe, target, pyarrow.csv.WriteOptions(delimiter=delimiter))


def guarded_text(text: str) -> str:
    return str(guarded(pa.array([text]))[0].as_py())


def _guarded(column: Any) -> Any:
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    return guarded(column.cast(pa.large_string())) if is_text else column


def _matches(column: Any, pattern: str, number: Any) -> Any:
    return pc.and_not(pc.match_substring_regex(column, pattern), pc.match_substring_regex(number, NUMBER))
