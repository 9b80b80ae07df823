"""The page of an audit."""

from __future__ import annotations

from accord.auditing.page import write_page
from audit_logs import HARM
from browser import chromium, opened


def test_the_page_opens_from_disk(made):
    _, folder = made
    path = folder / "audit" / "report.html"
    assert path.stat().st_size < 5 * 2**20
    with chromium() as browser:
        for width, scheme in ((1100, "light"), (390, "dark")):
            with opened(browser, path, width, scheme) as seen:
                assert seen.page.title() == "Audit of clicks"
                assert seen.said == []
                assert [url for url in seen.asked if not url.startswith(("file:", "data:"))] == []
                assert HARM in seen.page.inner_text("body")
                assert seen.page.evaluate("document.documentElement.scrollWidth") <= width
                assert seen.page.locator("figure svg, figure canvas").count() >= 7
                assert seen.harms() == []


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
