"""Ids, titles and names that are scripts, on every page there is: shown as they are in a real browser, never run."""

from __future__ import annotations

import pytest

from accord.serve.guard import Meters
from accord.serve.snapshots import Holder
from browser import blank, chromium
from harmful import HARM
from serving import serving


@pytest.fixture(scope="module")
def browser():
    with chromium() as found:
        yield found


def look_at(browser, address: str, wait: str | None = None) -> str:
    """Open a page and see that nothing harmful ran, that its policy is strict, and what it shows."""
    dialogs, asked, errors = [], [], []
    heard = {
        "dialog": lambda dialog: (dialogs.append(dialog.message), dialog.dismiss()),
        "request": lambda request: asked.append(request.url),
        "console": lambda message: errors.append(message.text) if "Content Security" in message.text else None,
    }
    with blank(browser, 1100, **heard) as page:
        page.goto(address)
        if wait is not None:
            page.wait_for_selector(wait)
        page.wait_for_timeout(200)
        assert page.evaluate("window.harmed") is None
        assert dialogs == []
        assert errors == []  # nothing even tried
        assert page.locator("img[src=x], a[href^=javascript]").count() == 0
        assert page.locator("svg[onload]").count() == 0
        origin = address.rpartition("/")[0]
        assert [url for url in asked if not url.startswith(origin)] == []
        # what would be if something had got in
        page.evaluate(
            "document.body.append(Object.assign(document.createElement('script'), {textContent: 'window.ran=1'}))"
        )
        page.evaluate("document.body.insertAdjacentHTML('beforeend', '<img src=y onerror=\"window.ran=1\">')")
        page.wait_for_timeout(200)
        assert page.evaluate("window.ran") is None
        page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true; })")
        text = page.locator("body").inner_text()
        title = page.title()
    return f"{title}\n{text}"


def test_the_report_of_a_run(browser, run):
    assert HARM in look_at(browser, (run / "report.html").as_uri())


def test_a_comparison(browser, compared):
    assert HARM in look_at(browser, (compared / "report.html").as_uri())
    look_at(browser, (compared / "compare.html").as_uri())


def test_the_page_of_an_audit(browser, audited):
    shown = look_at(browser, (audited / "report.html").as_uri())
    assert shown.count(HARM) > 10
    assert "{{7*7}}" in shown


def test_the_page_of_the_server(browser, run, audited):
    with serving(Holder(run, Meters(), audited)) as address:
        assert HARM in look_at(browser, f"{address}/#user=u1{HARM}", "main")
        assert HARM in look_at(browser, f"{address}/", "main")


def test_a_page_without_a_policy_would_be_noticed(browser, tmp_path):
    """Else the tests above could not fail."""
    (tmp_path / "page.html").write_text("<title>x</title><body>y")
    with pytest.raises(AssertionError):
        look_at(browser, (tmp_path / "page.html").as_uri())
    (tmp_path / "page.html").write_text(f"<title>x</title><body>{HARM}")
    with pytest.raises(AssertionError):
        look_at(browser, (tmp_path / "page.html").as_uri())
