"""axe, which looks for what keeps people from using a page, finds nothing on a report, in light and in dark.

The pages of the server are looked at by tests/serve.
"""

from __future__ import annotations

import pytest

from browser import chromium, opened

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


def test_axe_would_notice(browser, tmp_path):
    """Else the tests above could not fail."""
    (tmp_path / "page.html").write_text("<title>x</title><main><p style='color: #ccc'>Pale</p><input></main>")
    with opened(browser, tmp_path / "page.html") as seen:
        assert {one.partition(":")[0] for one in seen.harms()} >= {"color-contrast", "label", "html-has-lang"}
