"""Tables of results as Markdown, HTML, CSV and LaTeX. Text is shown as it is, never read as markup."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from importlib import resources
from pathlib import Path

from accord.io.csv_safety import csv_writer, guarded_text
from accord.io.files import replacing

Cell = str | float | None
# nothing is loaded and nothing runs; the figures' own styles are in them
POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"

_NUMBER = re.compile(r"[<>≤≥]? ?[-+−]?(\d[\d,]*(\.\d+)?(e[-+]?\d+)?%?( ± [\d.]+%?)?|inf\b|nan\b)", re.IGNORECASE)
_MARKDOWN = {ord(sign): f"\\{sign}" for sign in "\\`*_[]|~$#"} | str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})
_LATEX = str.maketrans(
    {sign: f"\\{sign}" for sign in "&%$#_{}"}
    | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "`": r"\textasciigrave{}"}
    | {"[": "{[}", "*": "{*}"}  # at the start of a row either would be an argument of the \\ before it
    | {"–": "--", "—": "---", "…": r"\ldots{}", "“": "``", "”": "''", '"': "''"}
    | {"<": "$<$", ">": "$>$", "|": "$|$", "±": r"$\pm$", "−": "$-$", "×": r"$\times$", "·": r"$\cdot$"}
    | {"≤": r"$\leq$", "≥": r"$\geq$", "≠": r"$\neq$", "≈": r"$\approx$", "→": r"$\to$", "∞": r"$\infty$", "′": "$'$"}
    | {"α": r"$\alpha$", "β": r"$\beta$", "λ": r"$\lambda$", "σ": r"$\sigma$", "Δ": r"$\Delta$"}
    | {chr(ord("₀") + digit): f"$_{digit}$" for digit in range(10)}
)


@dataclass(frozen=True)
class Table:
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    notes: tuple[str, ...] = ()
    marked: frozenset[tuple[int, int]] = frozenset()  # (row, column) of the cells shown bold; CSV stays plain

    def __post_init__(self) -> None:
        assert all(len(row) == len(self.columns) for row in self.rows), "every row has a cell for each column"
        assert all(0 <= row < len(self.rows) and 0 <= column < len(self.columns) for row, column in self.marked)

    def numeric(self) -> list[bool]:
        """For each column, whether all its cells are numbers, with or without ± and %."""
        columns = [[_text(row[place]) for row in self.rows] for place in range(len(self.columns))]
        return [any(texts) and all(_NUMBER.match(text) for text in texts if text) for texts in columns]

    def only(self, places: Sequence[int]) -> Table:
        """The columns at these places, and what is marked in them."""
        moved = {old: new for new, old in enumerate(places)}
        marked = frozenset((row, moved[column]) for row, column in self.marked if column in moved)
        rows = tuple(tuple(row[place] for place in places) for row in self.rows)
        return Table(self.title, tuple(self.columns[place] for place in places), rows, self.notes, marked)

    def cells(self, plain: Callable[[str], str], bold: Callable[[str], str]) -> list[list[str]]:
        """The rows as text made safe by `plain`, the marked ones in `bold`."""
        texts = [[plain(_text(cell)) for cell in row] for row in self.rows]
        for row, column in self.marked:
            if texts[row][column]:
                texts[row][column] = bold(texts[row][column])
        return texts


@dataclass(frozen=True)
class Figure:
    """A drawing made by Accord: its SVG is put into the page unescaped, and into a file beside it."""

    title: str
    svg: str
    caption: str = ""
    file: str = ""  # its name beside the page


def markdown(table: Table) -> str:
    lines = [
        [_markdown(name) for name in table.columns],
        ["---:" if number else "---" for number in table.numeric()],
        *table.cells(_markdown, "**{}**".format),
    ]
    body = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    title = [f"## {_markdown(table.title)}"] if table.title else []
    return "\n\n".join([*title, body, *map(_paragraph, table.notes)]) + "\n"


def html(table: Table) -> str:
    """A fragment for a page."""
    kinds = [' class="number"' if number else "" for number in table.numeric()]
    head = "".join(
        f'<th scope="col"{kind}>{escape(name)}</th>' for kind, name in zip(kinds, table.columns, strict=True)
    )
    rows = [
        "<tr>" + "".join(f"<td{kind}>{cell}</td>" for kind, cell in zip(kinds, row, strict=True)) + "</tr>"
        for row in table.cells(escape, "<strong>{}</strong>".format)
    ]
    return "\n".join(
        [
            *([f"<h2>{escape(table.title)}</h2>"] if table.title else []),
            f'<div class="scroll" tabindex="0"><table>\n<thead><tr>{head}</tr></thead>\n<tbody>',
            *rows,
            "</tbody></table></div>",
            *(f'<p class="soft">{escape(note)}</p>' for note in table.notes),
        ]
    )


def page(title: str, parts: Sequence[Table | Figure | str]) -> str:
    """A page that needs no other file; a `str` among the parts is a paragraph of plain text."""
    style = resources.files("accord").joinpath("report/style.css").read_text(encoding="utf-8")
    lines = [
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">',
        f"<title>{escape(title)}</title>\n<style>\n{style}</style>\n</head>",
        f"<body>\n<main>\n<h1>{escape(title)}</h1>",
        *map(_part, parts),
        "</main>\n</body>\n</html>",
    ]
    return "\n".join(lines) + "\n"


def csv_text(table: Table) -> str:
    """Only columns and rows, so that it can be read back as a table."""
    return _csv([list(table.columns), *table.cells(str, str)])


def latex(table: Table) -> str:
    """A table for a paper; the document needs booktabs."""
    kinds = "".join("r" if number else "l" for number in table.numeric())
    rows = [[_latex(name) for name in table.columns], *table.cells(_latex, r"\textbf{{{}}}".format)]
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


def write_all(
    folder: Path, name: str, parts: Sequence[Table | Figure], intro: Sequence[str], title: str | None = None
) -> list[Path]:
    """NAME.md, NAME.html, NAME.csv and NAME.tex, and each figure's own file.

    A CSV of several tables has each under its title, with an empty line between them.
    """
    title = title or name.replace("-", " ").replace("_", " ").capitalize()
    tables = [part for part in parts if isinstance(part, Table)]
    several = len(tables) > 1
    texts = {
        f"{name}.md": "\n".join(
            [f"# {_markdown(title)}\n", *(f"{_paragraph(text)}\n" for text in intro), *map(_markdown_part, parts)]
        ),
        f"{name}.html": page(title, [*intro, *parts]),
        f"{name}.csv": "\n".join((_csv([[table.title]]) if several else "") + csv_text(table) for table in tables),
        f"{name}.tex": "% \\usepackage{booktabs}\n" + "\n".join(map(latex, tables)),
    } | {part.file: part.svg for part in parts if isinstance(part, Figure)}
    for file, text in texts.items():
        with replacing(folder / file) as temporary:
            temporary.write_text(text, encoding="utf-8", newline="")
    return [folder / file for file in texts]


def _markdown_part(part: Table | Figure) -> str:
    if isinstance(part, Table):
        return markdown(part)
    caption = f"\n{_paragraph(part.caption)}\n" if part.caption else ""
    return f"## {_markdown(part.title)}\n\n![{_markdown(part.title)}]({part.file})\n{caption}"


def _text(cell: Cell) -> str:
    if cell is None:
        return ""
    return str(cell) if isinstance(cell, str | int) else f"{cell:z.4f}"  # z: no -0.0000


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _markdown(text: str) -> str:
    return _one_line(text).translate(_MARKDOWN)


def _paragraph(text: str) -> str:
    """Markdown of a text that is a block of its own, where a first `-` or `1.` would make it a list."""
    return re.sub(r"^(\d+)(?=[.)](\s|$))|^(?=[-+=])", r"\1\\", _markdown(text))


def _latex(text: str) -> str:
    # A minus is longer than a hyphen; two hyphens, as in --seeds, would become a dash.
    signed = re.sub(r"(?<![\w-])-(?=\.?\d)", "−", _one_line(text))
    return "-{}-".join(part.translate(_LATEX) for part in signed.split("--"))


def _csv(rows: Sequence[Sequence[str]]) -> str:
    out = io.StringIO()
    has_returns = any("\r" in cell for row in rows for cell in row)
    csv_writer(out, ",", has_returns).writerows([[guarded_text(cell) for cell in row] for row in rows])
    return out.getvalue()


def _part(part: Table | Figure | str) -> str:
    if isinstance(part, Table):
        return html(part)
    if isinstance(part, str):
        return f"<p>{escape(part)}</p>"
    svg = part.svg[part.svg.index("<svg") :]  # without the XML declaration, which may not stand inside a page
    label = f'<svg role="img" aria-label="{escape(part.title)}"'
    caption = f"<figcaption>{escape(part.caption)}</figcaption>" if part.caption else ""
    return f"<h2>{escape(part.title)}</h2>\n<figure>{svg.replace('<svg', label, 1)}{caption}</figure>"
