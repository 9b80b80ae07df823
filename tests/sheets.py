"""Excel files, written as little more than what a reader looks at."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

NAMESPACE = "http://schemas.openxmlformats.org"
DATE_STYLE = 1


def write_book(path: Path, sheets: dict[str, Sequence[Sequence[Any]]], raw: str | None = None) -> Path:
    """A workbook of sheets; `raw` is the XML of the first sheet's rows, where they are not to be written for us.

    A cell is text, a number, None, or ("date", number of days since 1900)."""
    book = "".join(f'<sheet name="{name}" sheetId="{n}" r:id="rId{n}"/>' for n, name in enumerate(sheets, 1))
    relations = "".join(
        f'<Relationship Id="rId{n}" Type="{NAMESPACE}/officeDocument/2006/relationships/worksheet"'
        f' Target="worksheets/sheet{n}.xml"/>'
        for n in range(1, len(sheets) + 1)
    )
    styles = (
        f'<Relationship Id="rId99" Type="{NAMESPACE}/officeDocument/2006/relationships/styles" Target="styles.xml"/>'
    )
    package = f"{NAMESPACE}/package/2006/relationships"
    main = f'xmlns="{NAMESPACE}/spreadsheetml/2006/main"'
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(
            "xl/workbook.xml",
            f'<workbook {main} xmlns:r="{NAMESPACE}/officeDocument/2006/relationships">'
            f"<sheets>{book}</sheets></workbook>",
        )
        office = f"{NAMESPACE}/officeDocument/2006/relationships/officeDocument"
        archive.writestr(
            "_rels/.rels",
            f'<Relationships xmlns="{package}"><Relationship Id="rId1" Type="{office}" Target="xl/workbook.xml"/>'
            "</Relationships>",
        )
        archive.writestr(
            "xl/_rels/workbook.xml.rels", f'<Relationships xmlns="{package}">{relations}{styles}</Relationships>'
        )
        archive.writestr(
            "xl/styles.xml", f'<styleSheet {main}><cellXfs><xf numFmtId="0"/><xf numFmtId="22"/></cellXfs></styleSheet>'
        )
        for number, rows in enumerate(sheets.values(), 1):
            cells = raw if raw is not None and number == 1 else "".join(map(_row, range(1, len(rows) + 1), rows))
            archive.writestr(
                f"xl/worksheets/sheet{number}.xml", f"<worksheet {main}><sheetData>{cells}</sheetData></worksheet>"
            )
    return path


def _row(number: int, row: Sequence[Any]) -> str:
    cells = "".join(_cell(f"{chr(65 + place)}{number}", value) for place, value in enumerate(row))
    return f'<row r="{number}">{cells}</row>'


def _cell(place: str, value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, tuple):
        return f'<c r="{place}" s="{DATE_STYLE}"><v>{value[1]}</v></c>'
    if isinstance(value, str):
        return f'<c r="{place}" t="inlineStr"><is><t>{escape(value)}</t></is></c>'
    return f'<c r="{place}"><v>{value}</v></c>'
