"""Tables and figures as files, read back by parsers."""

from __future__ import annotations

import base64
import csv

from accord.report.export import write_all
from accord.report.tables import Figure, Table, csv_text
from nasty_tables import SMALL, TABLE, Reader, expected, rendered


def test_write_all(tmp_path):
    folder = tmp_path / "new"
    paths = write_all(folder, "noise-rates", [TABLE, SMALL], ["1. Not a <list>.", "Second."])
    assert sorted(path.name for path in folder.iterdir()) == [
        f"noise-rates.{end}" for end in ("csv", "html", "md", "tex")
    ]
    assert set(paths) == set(folder.iterdir())
    shown = rendered((folder / "noise-rates.md").read_text(encoding="utf-8"))
    page_of = Reader((folder / "noise-rates.html").read_text(encoding="utf-8"))
    assert shown.cells == page_of.cells
    assert shown.text["h1"] == page_of.text["h1"] == ["Noise rates"]
    assert page_of.text["p"][:2] == ["1. Not a <list>.", "Second."]
    assert not {"ol", "ul"} & {tag for tag, _ in shown.tags}
    rows = list(csv.reader((folder / "noise-rates.csv").open(encoding="utf-8", newline="")))
    assert rows[0] == [TABLE.title]
    assert rows[len(TABLE.rows) + 2 :][:2] == [[], ["Small"]]
    assert (folder / "noise-rates.tex").read_text(encoding="utf-8").count(r"\begin{tabular}") == 2
    write_all(folder, "one", [SMALL], [], title="One & only")
    assert (folder / "one.csv").read_text(encoding="utf-8") == csv_text(SMALL)
    assert (folder / "one.md").read_text(encoding="utf-8").startswith("# One &amp; only\n\n## Small\n\n| method")


def html_of(folder, parts, intro=(), title="Title"):
    write_all(folder, "page", parts, intro, title)
    return (folder / "page.html").read_text(encoding="utf-8")


def test_html_shows_every_text_as_it_is(tmp_path):
    read = Reader(html_of(tmp_path, [TABLE]))
    assert read.cells == expected(TABLE)
    assert not {tag for tag, _ in read.tags} & {"b", "i"}
    assert read.text["h2"][-1] == TABLE.title
    assert all(note in read.text["p"] for note in TABLE.notes)


def test_marked_cells_are_bold_and_numbers_align(tmp_path):
    html = html_of(tmp_path, [SMALL])
    assert html.count("<strong>") == 2
    assert '<td class="number"><strong>0.1235</strong></td>' in html
    assert Reader(html_of(tmp_path, [Table("", ("a", "b"), ())])).cells == ["a", "b"]


def test_a_page_has_its_figures_inside(tmp_path):
    svg = '<?xml version="1.0"?>\n<!DOCTYPE svg>\n<svg width="1"><path d="M0 0"/></svg>'
    figure = Figure('Drawn "so"', svg, "What <it> shows", "drawn.svg")
    text = html_of(tmp_path, [SMALL, figure], ["First & last"], "A <page>")
    read = Reader(text)
    assert read.text["title"] == read.text["h1"] == ["A <page>"]
    assert "First & last" in read.text["p"]
    assert read.text["figcaption"] == ["What <it> shows"]
    ((_, image),) = (one for one in read.tags if one[0] == "img")
    assert image["alt"] == 'Drawn "so"'
    assert base64.b64decode(image["src"].removeprefix("data:image/svg+xml;base64,")).decode() == svg
    assert (tmp_path / "drawn.svg").read_text(encoding="utf-8") == svg
