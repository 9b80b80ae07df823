"""Text that a spreadsheet would take for a formula, in all the CSV that is written, and how it is read back.

A cell that begins with =, +, -, @ or their full-width forms, even after blanks, is run as a formula; after a ' it is
text, and the ' is not shown. So a ' is put before such a text (and before one that has a ' there already, so that it
can be taken away again), and never before a number.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

SIGN = r"\s*[=+\-@＝＋－＠]|[\t\r\n]"
NUMBER = r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
BARE = rf"^(?:{SIGN})"
GUARDED = rf"^'+(?:{SIGN})"
EITHER = rf"^'*(?:{SIGN})"


def runs(column: Any, pattern: str = EITHER) -> Any:
    """Which texts of a column are of a pattern, and not numbers."""
    return pc.and_not(pc.match_substring_regex(column, pattern), pc.match_substring_regex(column, rf"^{NUMBER}$"))


def guarded(column: Any) -> Any:
    """A column of an Arrow table as a spreadsheet may have it: texts that it would run get a '."""
    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        return column
    return pc.if_else(runs(column), pc.binary_join_element_wise("'", column, ""), column)


def guarded_table(table: Any) -> Any:
    """A table for a CSV file, its column names among the texts."""
    columns = [guarded(column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column)
               for column in table.columns]  # fmt: skip
    return pa.table(columns, names=[guarded_text(name) for name in table.column_names])


def guarded_text(text: str) -> str:
    found: str = guarded(pa.array([text]))[0].as_py()
    return found


def unguarded(column: Any) -> Any:
    """The texts as they were before `guarded`."""
    return pc.replace_substring_regex(column, rf"^'('*(?:{SIGN}))", r"\1")
