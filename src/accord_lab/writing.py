"""Tables and figures as Markdown, HTML, CSV and LaTeX. All text is escaped, never read as markup."""

from __future__ import annotations

import base64
import csv
import io
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from accord.comparing.results import read_lines
from accord.io.csv_safety import guarded_text
from accord.io.files import replacing
from accord.report.page import Page
from accord.report.tables import Table

_MARKDOWN = {ord(sign): f"\\{sign}" for sign in "\\`*_[]|~$#"} | str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})
_LATEX = str.maketrans(
    {sign: f"\\{sign}" for sign in "&%$#_{}"}
    | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "`": r"\textasciigrave{}"}
    | {"[": "{[}", "*": "{*}"}  # at the start of a row they would be arguments of the \\ before
    | {"–": "--", "—": "---", "…": r"\ldots{}", "“": "``", "”": "''", '"': "''"}
    | {"<": "$<$", ">": "$>$", "|": "$|$", "±": r"$\pm$", "−": "$-$", "×": r"$\times$", "·": r"$\cdot$"}
    | {"≤": r"$\leq$", "≥": r"$\geq$", "≠": r"$\neq$", "≈": r"$\approx$", "→": r"$\to$", "∞": r"$\infty$", "′": "$'$"}
    | {"α": r"$\alpha$", "β": r"$\beta$", "λ": r"$\lambda$", "σ": r"$\sigma$", "Δ": r"$\Delta$"}
    | {chr(ord("₀") + digit): f"$_{digit}$" for digit in range(10)}
)


@dataclass(frozen=True)
class Figure:
    """A drawing as SVG; `file` is its name in the folder of the page."""

    title: str
    svg: str
    caption: str = ""
    file: str = ""


def only_columns(table: Table, wanted: Callable[[str], bool]) -> Table:
    places = [place for place, name in enumerate(table.columns) if wanted(name)]
    moved = {old: new for new, old in enumerate(places)}
    marked = frozenset((row, moved[column]) for row, column in table.marked if column in moved)
    rows = tuple(tuple(row[place] for place in places) for row in table.rows)
    return Table(table.title, tuple(table.columns[place] for place in places), rows, table.notes, marked)


def write_all(
    folder: Path, name: str, parts: Sequence[Table | Figure], intro: Sequence[str], title: str | None = None
) -> list[Path]:
    """Write NAME.md, NAME.html, NAME.csv, NAME.tex and the file of each figure.
    A CSV of several tables has each under its title, with an empty line between them."""
    title = title or name.replace("-", " ").replace("_", " ").capitalize()
    tables = [part for part in parts if isinstance(part, Table)]
    several = len(tables) > 1
    paragraphs = [f"{markdown_paragraph(text)}\n" for text in intro]
    texts = {
        f"{name}.md": "\n".join([f"# {markdown_text(title)}\n", *paragraphs, *map(_markdown, parts)]),
        f"{name}.html": _page(title, parts, intro).html(),
        f"{name}.csv": "\n".join((csv_rows([[table.title]]) if several else "") + csv_text(table) for table in tables),
        f"{name}.tex": "% \\usepackage{booktabs}\n" + "\n".join(map(latex, tables)),
    } | {part.file: part.svg for part in parts if isinstance(part, Figure)}
    for file, text in texts.items():
        with replacing(folder / file) as temporary:
            temporary.write_text(text, encoding="utf-8", newline="")
    return [folder / file for file in texts]


def _markdown(part: Table | Figure) -> str:
    if isinstance(part, Table):
        return markdown(part)
    title, caption = markdown_text(part.title), f"\n{markdown_paragraph(part.caption)}\n" if part.caption else ""
    return f"## {title}\n\n![{title}]({part.file})\n{caption}"


def _page(title: str, parts: Sequence[Table | Figure], intro: Sequence[str]) -> Page:
    page = Page(title)
    page.section("Summary").text(*intro)
    for part in parts:
        section = page.section(part.title)
        if isinstance(part, Table):
            section.table(part)
        else:
            source = f"data:image/svg+xml;base64,{base64.b64encode(part.svg.encode()).decode()}"
            section.blocks.append({"kind": "figure", "figure": part, "source": source})
    return page


def page_of_lines(
    name: str, title: str, note: str, tables: Callable[[Sequence[Any]], list[Table]], folder: Path
) -> list[Table]:
    """Write a page from the raw results alone, NAME.jsonl of the folder."""
    made = tables(read_lines(folder / f"{name}.jsonl"))
    write_all(folder, name, made, [note], title)
    return made


def markdown(table: Table) -> str:
    lines = [
        [markdown_text(name) for name in table.columns],
        ["---:" if number else "---" for number in table.numeric()],
        *table.texts(markdown_text, "**{}**"),
    ]
    body = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    title = [f"## {markdown_text(table.title)}"] if table.title else []
    return "\n\n".join([*title, body, *map(markdown_paragraph, table.notes)]) + "\n"


def csv_text(table: Table) -> str:
    """The columns and rows, so that it can be read back as a table."""
    return csv_rows([list(table.columns), *table.texts()])


def latex(table: Table) -> str:
    """A table for a paper. The document must use the package booktabs."""
    kinds = "".join("r" if number else "l" for number in table.numeric())
    rows = [[_latex(name) for name in table.columns], *table.texts(_latex, r"\textbf{{{}}}")]
    head, *body = [" & ".join(row) + r" \\" for row in rows]
    lines = [
        r"\begin{table}",
        r"\centering",
        *([rf"\caption{{{_latex(table.title)}}}"] if table.title else []),
        rf"\begin{{tabular}}{{{kinds}}}",
        *(r"\toprule", head, r"\midrule", *body, r"\bottomrule"),
        r"\end{tabular}",
        *(rf"\par\smallskip{{\footnotesize {_latex(note)}\par}}" for note in table.notes),
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def _one_line(text: str) -> str:
    return " ".join(text.split())


def markdown_text(text: str) -> str:
    return _one_line(text).translate(_MARKDOWN)


def markdown_paragraph(text: str) -> str:
    """A paragraph of Markdown, in which a leading `-` or `1.` does not start a list."""
    return re.sub(r"^(\d+)(?=[.)](\s|$))|^(?=[-+=])", r"\1\\", markdown_text(text))


def _latex(text: str) -> str:
    # A minus sign is not a hyphen, and two hyphens, as in --seeds, would become a dash.
    signed = re.sub(r"(?<![\w-])-(?=\.?\d)", "−", _one_line(text))
    return "-{}-".join(part.translate(_LATEX) for part in signed.split("--"))


def csv_rows(rows: Sequence[Sequence[str]]) -> str:
    out = io.StringIO()
    has_returns = any("\r" in cell for row in rows for cell in row)  # csv quotes a lone one only since Python 3.13
    quoting: Any = csv.QUOTE_NONNUMERIC if has_returns else csv.QUOTE_MINIMAL
    writer = csv.writer(out, lineterminator="\n", quoting=quoting)
    writer.writerows([[guarded_text(cell) for cell in row] for row in rows])
    return out.getvalue()
