"""axe, which looks for what keeps people from using a page, finds nothing on any page, in light and in dark."""

from __future__ import annotations

import pytest

from accord.serve.guard import Meters
from accord.serve.snapshots import Holder
from browser import chromium, harms, opened
from serving import serving

SIZES = [(1280, "light"), (390, "dark")]  # the other two differ in nothing that these have not


@pytest.fixture(scope="module")
def browser():
    with chromium() as found:
        yield found


@pytest.mark.parametrize("name", ["run", "compared", "audited"])
@pytest.mark.parametrize(("width", "scheme"), SIZES)
def test_reports(browser, request, name, width, scheme):
    """As they open in one size, and with everything that is folded in the other."""
    with opened(browser, request.getfixturevalue(name) / "report.html", width, scheme) as seen:
        if scheme == "dark":
            seen.page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true; })")
        assert seen.harms() == []


@pytest.fixture(scope="module")
def address(run, audited):
    with serving(Holder(run, Meters(), audited)) as served:
        yield served


@pytest.mark.parametrize(("width", "scheme"), SIZES)
def test_the_server(browser, address, width, scheme):
    """Empty, with a user, the audit, and the description of the API."""
    page = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme).new_page()
    page.goto(address)
    page.locator("#user-matches button").first.wait_for()
    assert harms(page) == []
    page.locator("#user-matches button").first.click()
    page.locator("#recommended > li").first.wait_for()
    assert harms(page) == []
    for path, shown in (("/#audit", ".verdict"), ("/docs", "section")):
        page.goto(address + path)
        page.locator(shown).first.wait_for()
        assert harms(page) == []
    page.context.close()


def test_axe_would_notice(browser, tmp_path):
    """Else the tests above could not fail."""
    (tmp_path / "page.html").write_text("<title>x</title><main><p style='color: #ccc'>Pale</p><input></main>")
    with opened(browser, tmp_path / "page.html") as seen:
        assert {one.partition(":")[0] for one in seen.harms()} >= {"color-contrast", "label", "html-has-lang"}
