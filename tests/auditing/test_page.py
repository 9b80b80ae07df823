"""The page of an audit."""

from __future__ import annotations

import re

import pytest

from accord.auditing.page import write_page
from audit_logs import HARM
from browser import chromium, opened


@pytest.fixture(scope="module")
def browser():
    with chromium() as found:
        yield found


def test_the_page_opens_from_disk(made, browser):
    _, folder = made
    path = folder / "audit" / "report.html"
    assert path.stat().st_size < 5 * 2**20
    for width, scheme in ((1100, "light"), (390, "dark")):
        with opened(browser, path, width, scheme) as seen:
            assert seen.page.title() == "Audit of clicks"
            assert seen.said == []
            assert [url for url in seen.asked if not url.startswith(("file:", "data:"))] == []
            assert HARM in seen.page.locator("main").text_content()
            assert seen.page.evaluate("document.documentElement.scrollWidth") <= width
            assert seen.page.locator("figure svg, figure canvas").count() >= 2


def test_it_takes_less_than_three_screens(made, browser):
    _, folder = made
    with opened(browser, folder / "audit" / "report.html", 1280) as seen:
        assert seen.page.evaluate("document.documentElement.scrollHeight") < 3 * 900
        for shown in ("In short", "Health of the log", "Noise", "Is the audit right?", "Does denoising help?"):
            assert seen.page.get_by_role("heading", name=shown, exact=True).is_visible()
        table = seen.page.get_by_role("group", name="Most probably noise")
        assert not table.is_visible()
        seen.page.get_by_text("Most probably noise", exact=True).click()
        assert table.is_visible()


def test_every_section_has_its_sentences(made):
    _, folder = made
    text = (folder / "audit" / "report.html").read_text(encoding="utf-8")
    for title in ("In short", "Health of the log", "Noise", "Is the audit right?", "Does denoising help?"):
        assert title in text
    assert "2 rows repeat a (user, item) pair" in text


def test_what_was_not_found_is_not_on_the_page(made, tmp_path):
    found, _ = made
    summary = {**found.summary, "detection": None, "verdict": None}
    text = write_page(tmp_path / "page.html", summary, found.log).read_text(encoding="utf-8")
    assert "Is the audit right?" not in text
    assert "Does denoising help?" not in text
    assert "whether denoising helps is not known" in text


@pytest.mark.parametrize(
    ("auc", "low", "level", "words"),
    [
        (0.80, 0.01, "good", "is better than popularity: AUC 0.800"),
        (0.579, 0.01, "info", "is better than popularity, but detects little: AUC 0.579"),
        (0.80, -0.01, "warning", "is no better than popularity: AUC 0.800"),
    ],
)
def test_telling_noise_apart_has_the_colour_of_what_it_is_worth(made, tmp_path, auc, low, level, words):
    found, _ = made
    detection = found.summary["detection"]
    first, *others = detection["scores"]
    gain = {"difference": 0.017, "low": low, "high": 0.03}
    summary = {**found.summary, "detection": {**detection, "scores": [{**first, "auc": auc}, *others], "gain": gain}}
    text = write_page(tmp_path / "page.html", summary, found.log).read_text(encoding="utf-8")
    (said,) = (one for one in re.findall(r'<p class="callout (.*?)</p>', text) if "the audit is" in one)
    assert said.startswith(f'{level}">')
    assert words in said


@pytest.mark.parametrize(("best", "level"), [("gmf + deca", "good"), ("auto", "info"), ("ease", "info")])
def test_denoising_is_a_success_where_nothing_else_is_better(made, tmp_path, best, level):
    found, _ = made
    verdict = found.summary["verdict"]
    rows = [{**row, "mean": 0.9 if row["name"] == best else 0.1} for row in verdict["rows"]]
    summary = {**found.summary, "verdict": {**verdict, "helps": True, "rows": rows}}
    text = write_page(tmp_path / "page.html", summary, found.log).read_text(encoding="utf-8")
    assert re.search(r'<p class="callout (\w+)">', text)[1] == level
