"""The page that reports share: one file, safe whatever is in it, readable by everyone."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser

import altair as alt
import pyarrow as pa
import pytest

from accord.report import page as page_module
from accord.report.page import NOISE, Chart, Fact, Finding, Page
from accord.report.tables import Table
from browser import chromium, opened

HARM = "</script><script>document.title = 'harmed'</script><img src=x onerror=\"document.title='harmed'\">"


def everything(harm: str = HARM) -> Page:
    """Every kind of block, with a text that would do harm in each of its places."""
    page = Page(f"Page {harm}", f"Lead {harm}")
    first = page.section(f"First {harm}", f"Section lead {harm}")
    first.text(harm, "Second paragraph.")
    first.note(harm)
    first.heading(harm)
    first.callout(harm, "good")
    first.facts([Fact(harm, harm, harm), Fact("users", "400")])
    first.findings([Finding("warning", harm, [harm, harm], harm), Finding("bad", "Nothing else")])
    table = Table(harm, ("name", "share", harm), ((harm, 0.25, harm), ("b", None, "c")), (harm,), frozenset({(0, 1)}))
    first.table(table)
    second = page.section("Second")
    second.table(table, folded=f"Folded {harm}")
    second.code(harm)
    rows = pa.table({"x": [1, 2, 1, 2], "y": [1.0, float("nan"), float("inf"), 2.0], "what": [harm, harm, "b", "b"]})
    drawn = alt.Chart(rows).mark_point(color=NOISE, size=200)
    drawn = drawn.encode(x="x:Q", y="y:Q", color=alt.Color("what:N", title=harm))
    chart = Chart(f"Chart {harm}", drawn, f"Summary {harm}", Table("Data", ("x",), ((1,),)))
    second.chart(chart)
    second.charts([chart] * 3)
    page.section("Second")
    return page


@pytest.fixture(scope="module")
def browser():
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return everything().write(tmp_path_factory.mktemp("page") / "deep" / "page.html")


def test_nothing_outside_is_needed_and_little_is_inside(path):
    html = path.read_text(encoding="utf-8")
    links = []

    class Links(HTMLParser):
        def handle_starttag(self, tag, attributes):
            links.extend(v for k, v in attributes if k in ("src", "href", "xlink:href") and not v.startswith("#"))

    Links().feed(html)
    assert links == []
    assert html.count('id="vega"') == 1  # once, however many charts there are
    assert path.stat().st_size < 500_000
    assert list(path.parent.iterdir()) == [path]  # nothing temporary is left


def test_a_page_without_charts_is_small():
    page = Page("Plain")
    page.section("One").text("Text")
    html = page.html()
    assert html.count("<script") == 1
    assert len(html) < 20_000


def test_charts_are_written_as_json_that_ends_no_script(path):
    html = path.read_text(encoding="utf-8")
    found = re.search(r'<script type="application/json" id="specs">(.*?)</script>', html, re.DOTALL)
    specs = json.loads(found[1], parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    assert len(specs) == 4
    (rows,) = specs[0]["datasets"].values()
    assert [row["y"] for row in rows] == [1.0, None, None, 2.0]
    assert rows[0]["what"] == HARM


def test_sections_of_one_name_have_places_of_their_own():
    assert page_module._names(["A b", "a-b", "A B", "<>", "A b 2"]) == ["a-b", "a-b--2", "a-b--3", "section", "a-b-2"]


def test_the_script_is_made_once_and_needs_no_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("ACCORD_CACHE", str(tmp_path / "cache"))
    made = []

    def bundle(snippet):
        made.append(snippet)
        return "/* made */"

    monkeypatch.setattr("vl_convert.javascript_bundle", bundle)
    for _ in range(2):
        page_module._vega.cache_clear()
        assert page_module._vega() == "/* made */"
    assert len(made) == 1
    (tmp_path / "file").touch()
    monkeypatch.setenv("ACCORD_CACHE", str(tmp_path / "file"))  # where no folder can be made
    page_module._vega.cache_clear()
    assert page_module._vega() == "/* made */"
    assert len(made) == 2
    page_module._vega.cache_clear()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_in_a_browser(browser, path, scheme):
    """Opened from disk: what looks like markup is text, nothing is fetched, nothing complains."""
    with opened(browser, path, scheme=scheme) as seen:
        page = seen.page
        assert page.title() == f"Page {HARM}"
        assert page.evaluate("document.documentElement.dataset.charts") == "drawn"
        assert page.locator("figure svg").count() == 4
        assert page.locator("img").count() == 0
        assert HARM in page.locator("tbody th").first.inner_text()
        assert seen.said == []
        assert seen.asked == [path.as_uri()]
        titles = page.evaluate("[...document.querySelectorAll('h1, h2, h3')].map(one => one.tagName)")
        assert titles[0] == "H1"
        assert "H1" not in titles[1:]
        assert [one for one in seen.harms() if not one.startswith("landmark-unique")] == []  # two are called Second
        line = page.locator("#chart-0 path[stroke^='var(--']").first
        page.emulate_media(color_scheme="light")
        light = line.evaluate("one => getComputedStyle(one).stroke")
        page.emulate_media(color_scheme="dark")
        assert line.evaluate("one => getComputedStyle(one).stroke") != light  # the same drawing, other colours
        page.emulate_media(color_scheme="dark", media="print")
        assert line.evaluate("one => getComputedStyle(one).stroke") == light
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"


def test_on_a_phone_and_by_keyboard(browser, path):
    with opened(browser, path, width=380) as seen:
        page = seen.page
        assert page.evaluate("document.documentElement.scrollWidth") == 380
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.className") == "skip"
        assert page.locator(".skip").bounding_box()["x"] >= 0
        page.keyboard.press("Enter")
        assert page.evaluate("document.activeElement.id") == "main"
        page.locator("summary").first.focus()
        page.keyboard.press("Enter")
        assert page.locator("details").first.evaluate("one => one.open")


def test_a_folded_section_opens_where_it_is_linked_to_and_on_paper(browser, tmp_path):
    page = Page("Page")
    for title in ("One", "Two", "Three"):
        page.section(title, folded=title != "One").text(f"Text of {title}")
    with opened(browser, page.write(tmp_path / "page.html")) as seen:
        text = seen.page.get_by_text("Text of Two")
        assert not text.is_visible()
        seen.page.locator("nav a", has_text="Two").click()
        text.wait_for(state="visible")
        last = seen.page.get_by_text("Text of Three")
        assert not last.is_visible()
        for event, shown in (("beforeprint", True), ("afterprint", False)):
            seen.page.evaluate("name => dispatchEvent(new Event(name))", event)
            assert last.is_visible() == shown
        assert text.is_visible()  # it was open before
        assert seen.said == []


def test_charts_that_are_folded_have_the_width_of_the_page(browser, tmp_path):
    drawn = alt.Chart(pa.table({"x": [1, 2]})).mark_point().encode(x="x:Q")
    page = Page("Page")
    page.section("One", folded=True).chart(Chart("Chart", drawn, "Two points."))
    with opened(browser, page.write(tmp_path / "page.html")) as seen:
        seen.page.locator("summary").click()
        seen.page.wait_for_function("document.querySelector('#chart-0 svg').clientWidth > 800")


def test_a_warning_shows_its_title_until_it_is_clicked_and_a_problem_everything(browser, tmp_path):
    page = Page("Page")
    page.section("One").findings([Finding(level, f"A {level}", advice=f"Do {level}.") for level in ("warning", "bad")])
    with opened(browser, page.write(tmp_path / "page.html")) as seen:
        assert seen.page.get_by_text("A warning").is_visible()
        assert seen.page.get_by_text("Do bad.").is_visible()
        assert not seen.page.get_by_text("Do warning.").is_visible()
        seen.page.get_by_text("A warning").click()
        assert seen.page.get_by_text("Do warning.").is_visible()
        seen.page.emulate_media(media="print")
        assert seen.page.get_by_text("A warning").is_visible()


@pytest.mark.parametrize(("width", "scrolls"), [(1100, False), (390, True)])
def test_a_table_that_scrolls_says_so_and_text_is_as_wide(browser, tmp_path, width, scrolls):
    page = Page("Page")
    section = page.section("One")
    section.text("word " * 100)
    section.table(Table("Wide", tuple(f"column {n}" for n in range(5)), (("0.1234 ± 0.01",) * 5,)))
    with opened(browser, page.write(tmp_path / "page.html"), width) as seen:
        seen.page.wait_for_timeout(100)
        said = seen.page.evaluate("getComputedStyle(document.querySelector('caption > span'), '::after').content")
        assert ("scrolls sideways" in said) == scrolls
        wide = [seen.page.locator(one).bounding_box()["width"] for one in ("section > p", ".scroll")]
        assert wide[0] == wide[1]


def test_a_tooltip_shows_text_as_text(browser, path):
    with opened(browser, path) as seen:
        page = seen.page
        page.locator("#chart-0").scroll_into_view_if_needed()
        box = page.locator("#chart-0 svg g.mark-symbol.role-mark path").first.bounding_box()
        page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        page.locator("#vg-tooltip-element.visible").wait_for()
        assert HARM in page.locator("#vg-tooltip-element").inner_text()
        assert page.title() == f"Page {HARM}"
        assert page.locator("img").count() == 0
        assert seen.said == []
