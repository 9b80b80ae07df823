"""Tables and figures as files: Markdown, HTML, CSV, LaTeX and SVG."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from accord.io.files import replacing
from accord.report.page import Page
from accord.report.tables import Figure, Table, csv_rows, csv_text, latex, markdown, markdown_paragraph, markdown_text


def write_all(
    folder: Path, name: str, parts: Sequence[Table | Figure], intro: Sequence[str], title: str | None = None
) -> list[Path]:
    """Write NAME.md, NAME.html, NAME.csv, NAME.tex and the file of each figure.

    A CSV of several tables has each under its title, with an empty line between them.
    """
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
        section.table(part) if isinstance(part, Table) else section.figure(part)
    return page
