"""Tables whose text looks like markup, and a reader of HTML that says what of it is shown."""

from __future__ import annotations

from html.parser import HTMLParser

from markdown_it import MarkdownIt

from accord.report.tables import Table

NASTY = [
    *("<script>alert(1)</script>", "a|b", "50%_x&", "=1+1", "&amp;", "**b** _i_ `c` ~~d~~ $e$", "[x](http://y.z)"),
    *("\\|", "\\", "{}$^~#\"'", "--seeds", "C₁ × C₂, λ′ ≥ 0.5 ± 1", "映画 Amélie", "* x", "[1]", "- x", "1. x", "# x"),
]
TABLE = Table(
    title="50%_x& <b>a|b</b>",
    columns=("method", "recall@20", "=cmd|'x'"),
    rows=tuple((text, number / 7, text) for number, text in enumerate(NASTY)),
    notes=("- Mean ± sd <i>", "1. of 50%_x&"),
)
SMALL = Table(
    title="Small",
    columns=("method", "mean", "spread", "p"),
    rows=(("DeCA", 0.12345, "0.1 ± 0.02", None), ("Normal", -0.00001, "-0.5 ± 0.1", "<0.001"), ("EASE", 3, None, 1.0)),
    marked=frozenset({(0, 1), (1, 2), (2, 2)}),
)


class Reader(HTMLParser):
    """The cells of a page, and every tag; fails where tags do not match."""

    VOID = frozenset({"meta", "img"})

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.cells, self.text = [], [], [], {}
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag not in self.VOID:
            self.open.append(tag)
        if tag in {"td", "th"}:
            self.cells.append("")

    def handle_endtag(self, tag):
        if tag not in self.VOID:
            assert self.open.pop() == tag

    def handle_data(self, data):
        if {"td", "th"} & set(self.open):
            self.cells[-1] += data
        elif self.open:
            self.text.setdefault(self.open[-1], []).append(data)


def expected(table):
    return [*table.columns, *(f"{cell:.4f}" if isinstance(cell, float) else cell for row in table.rows for cell in row)]


def rendered(text):
    return Reader(MarkdownIt("commonmark").enable(["table", "strikethrough"]).render(text))
