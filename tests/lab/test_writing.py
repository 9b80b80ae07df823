"""Tables as Markdown, HTML, CSV and LaTeX, read back by parsers: every cell comes out as it went in."""

from __future__ import annotations

import base64
import csv
import io
import re

import pytest

from accord.report.tables import Table
from accord_lab.writing import Figure, csv_text, latex, markdown, only_columns, write_all
from nasty_tables import NASTY, SMALL, TABLE, Reader, expected, rendered


def test_markdown_shows_every_text_as_it_is():
    read = rendered(markdown(TABLE))
    assert read.cells == expected(TABLE)
    assert {tag for tag, _ in read.tags} == {"h2", "table", "thead", "tbody", "tr", "th", "td", "p"}
    assert "".join(read.text["h2"]) == TABLE.title
    assert [text for text in read.text["p"] if text.strip()] == list(TABLE.notes)


def test_csv_reads_back_and_runs_nothing():
    rows = list(csv.reader(io.StringIO(csv_text(TABLE))))
    assert rows[0] == ["method", "recall@20", "'=cmd|'x'"]
    for row, text in zip(rows[1:], NASTY, strict=True):
        assert row[0] in {text, f"'{text}"}
        assert not row[0].startswith(tuple("=+-@"))


@pytest.mark.parametrize(
    "text", ["=1+1", "+1+1", "-1+1", "@x", " =1", "\t=1", "\n-x", "＝1", "-", "-1 ± =1", "--seeds"]
)
def test_formulas_are_neutral_in_csv(text):
    assert next(csv.reader(io.StringIO(csv_text(Table("", (text,), ()))))) == [f"'{text}"]


@pytest.mark.parametrize("text", ["-1", "+1.5%", "-0.1200 ± 0.0030", "-1e-05", "-inf", "1-2", "a=b", ""])
def test_numbers_stay_numbers_in_csv(text):
    assert list(csv.reader(io.StringIO(csv_text(Table("", ("x", "y"), (("1", text),))))))[1] == ["1", text]


def undone(text):
    """LaTeX of one cell as the reader of the paper sees it."""
    for pattern, shown in (
        (r"\\textbackslash\{\}", "\0"),
        (r"\\textasciitilde\{\}", "~"),
        (r"\\textasciicircum\{\}", "^"),
        (r"\\textasciigrave\{\}", "`"),
        (r"-\{\}-", "--"),
        (r"\{([*[])\}", r"\1"),
        (r"\$\\times\$", "×"),
        (r"\$\\pm\$", "±"),
        (r"\$\\geq\$", "≥"),
        (r"\$\\lambda\$", "λ"),
        (r"\$_1\$", "₁"),
        (r"\$_2\$", "₂"),
        (r"(?<!\\)\$(['<>|-])(?<!\\)\$", r"\1"),
        (r"\\([&%$#_{}])", r"\1"),
    ):
        text = re.sub(pattern, shown, text)
    return text.replace("\0", "\\")


def test_latex_is_well_formed_and_shows_every_text_as_it_is():
    text = latex(TABLE)
    bare = re.sub(r"\\[\\{}&%$#_]", "", text)  # what is left after escapes is LaTeX's own
    assert bare.count("{") == bare.count("}")
    assert bare.count("$") % 2 == 0
    assert not set(bare) & set("%#~^")
    depth = 0
    for sign in bare:
        depth += (sign == "{") - (sign == "}")
        assert depth >= 0
    rows = [line for line in text.splitlines() if line.endswith(r" \\")]
    assert len(rows) == 1 + len(TABLE.rows)
    assert not any(row.startswith(("[", "*")) for row in rows)
    for row, shown in zip(rows[1:], TABLE.rows, strict=True):
        cells = re.split(r"(?<!\\)&", row.removesuffix(r" \\"))
        assert len(cells) == len(TABLE.columns)
        assert undone(cells[0].strip()) == shown[0].replace("′", "'").replace('"', "''")
    assert [text.count(rf"\{rule}") for rule in ("toprule", "midrule", "bottomrule")] == [1, 1, 1]
    assert r"\caption{50\%\_x\& $<$b$>$a$|$b$<$/b$>$}" in text


def test_numbers_nothing_and_marks():
    assert markdown(SMALL).splitlines()[2:] == [
        "| method | mean | spread | p |",
        "| --- | ---: | ---: | ---: |",
        r"| DeCA | **0.1235** | 0.1 ± 0.02 |  |",
        r"| Normal | 0.0000 | **-0.5 ± 0.1** | &lt;0.001 |",
        r"| EASE | 3 |  | 1.0000 |",
    ]
    assert csv_text(SMALL).splitlines()[1:] == [
        "DeCA,0.1235,0.1 ± 0.02,",
        "Normal,0.0000,-0.5 ± 0.1,<0.001",
        "EASE,3,,1.0000",
    ]
    text = latex(SMALL)
    assert r"\begin{tabular}{lrrr}" in text
    assert r"DeCA & \textbf{0.1235} & 0.1 $\pm$ 0.02 &  \\" in text
    assert r"Normal & 0.0000 & \textbf{$-$0.5 $\pm$ 0.1} & $<$0.001 \\" in text


def test_minus_and_hyphen_are_told_apart_in_latex():
    assert latex(Table("ml-100k of 1998-04, -0.5 -.5 (-1)", (), ())).splitlines()[2] == (
        r"\caption{ml-100k of 1998-04, $-$0.5 $-$.5 ($-$1)}"
    )


def test_a_line_break_stays_inside_its_cell():
    table = Table("a\n\nb", ("x\r\ny",), (("1\n\n2",),))
    assert rendered(markdown(table)).cells == ["x y", "1 2"]
    assert "\n\n" not in latex(table)
    assert list(csv.reader(io.StringIO(csv_text(table), newline="")))[1] == ["1\n\n2"]


def test_a_table_without_rows():
    empty = Table("", ("a", "b"), ())
    assert markdown(empty) == "| a | b |\n| --- | --- |\n"
    assert csv_text(empty) == "a,b\n"
    assert r"\begin{tabular}{ll}" in latex(empty)


def test_some_columns_keep_their_marks():
    table = Table("T", ("what", "a", "b"), (("x", 1.0, 2.0), ("y", 3.0, 4.0)), ("Note.",), frozenset({(0, 1), (1, 2)}))
    assert only_columns(table, {"what", "b"}.__contains__) == Table(
        "T", ("what", "b"), (("x", 2.0), ("y", 4.0)), ("Note.",), frozenset({(1, 1)})
    )


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
