"""Tables of results, and their Markdown, CSV and LaTeX. All text is escaped, never read as markup."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from accord.io.csv_safety import csv_writer, guarded_text

Cell = str | float | None

_NUMBER = re.compile(r"[<>≤≥]? ?[-+−]?(\d[\d,]*(\.\d+)?(e[-+]?\d+)?%?( ± [\d.]+%?)?|inf\b|nan\b)", re.IGNORECASE)
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
class Table:
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    notes: tuple[str, ...] = ()
    marked: frozenset[tuple[int, int]] = frozenset()  # (row, column) of the bold cells; CSV has no bold

    def __post_init__(self) -> None:
        assert all(len(row) == len(self.columns) for row in self.rows), "every row has a cell for each column"
        assert all(0 <= row < len(self.rows) and 0 <= column < len(self.columns) for row, column in self.marked)

    @classmethod
    def of(cls, title: str, columns: Mapping[str, Sequence[Cell]], *notes: str) -> Table:
        """A table from its columns."""
        return cls(title, tuple(columns), tuple(zip(*columns.values(), strict=True)), notes)

    def numeric(self) -> list[bool]:
        """Whether each column has only numbers, with or without ± and %."""
        columns = [[cell_text(row[place]) for row in self.rows] for place in range(len(self.columns))]
        return [any(texts) and all(_NUMBER.match(text) for text in texts if text) for texts in columns]

    def only(self, places: Sequence[int]) -> Table:
        """The columns at these places."""
        moved = {old: new for new, old in enumerate(places)}
        marked = frozenset((row, moved[column]) for row, column in self.marked if column in moved)
        rows = tuple(tuple(row[place] for place in places) for row in self.rows)
        return Table(self.title, tuple(self.columns[place] for place in places), rows, self.notes, marked)

    def texts(self, escape: Callable[[str], str] = str, bold: str = "{}") -> list[list[str]]:
        """The escaped text of each row; the marked cells in `bold`."""
        texts = [[escape(cell_text(cell)) for cell in row] for row in self.rows]
        for row, column in self.marked:
            texts[row][column] = bold.format(texts[row][column]) if texts[row][column] else ""
        return texts


@dataclass(frozen=True)
class Figure:
    """A drawing as SVG; `file` is its name in the folder of the page."""

    title: str
    svg: str
    caption: str = ""
    file: str = ""


def cell_text(cell: Cell) -> str:
    if cell is None:
        return ""
    return str(cell) if isinstance(cell, str | int) else f"{cell:z.4f}"  # z: no -0.0000


def signed(number: float) -> str:
    """With + or a minus sign, which is longer than a hyphen."""
    return f"{number:+.4f}".replace("-", "−")


def p_text(p: float) -> str:
    return "< 0.0001" if p < 1e-4 else f"{p:.4f}"


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
    has_returns = any("\r" in cell for row in rows for cell in row)
    csv_writer(out, ",", has_returns).writerows([[guarded_text(cell) for cell in row] for row in rows])
    return out.getvalue()
