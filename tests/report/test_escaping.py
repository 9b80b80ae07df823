"""Ids, titles and names that are scripts, on every page there is: shown as they are in a real browser, never run."""

from __future__ import annotations

import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pytest
from fuzz.logs import columns

import accord
from accord.auditing import audit as auditing
from accord.cli import app
from accord.fitting import fit_run
from accord.io.noted import noting
from accord.report.run_report import write_report
from accord.serve.holder import Holder
from accord.serve.meters import Meters
from accord.training.plan import plan
from browser import chromium
from serving import serving

# One for the name of a file too, so without a slash; it closes what it may stand in.
HARM = "'\"--><img src=x onerror=window.harmed=1><svg onload=window.harmed=1>"
TITLE = (
    f'{HARM}</script></style></title><script>window.harmed=1</script>{{{{7*7}}}}<a href="javascript:window.harmed=1">'
)


@pytest.fixture(scope="module")
def browser():
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def log(tmp_path_factory) -> Path:
    """A log in a file of a harmful name, its ids harmful too, and a table of harmful titles."""
    folder = tmp_path_factory.mktemp("harm")
    rows = columns()
    rows["user"] = [f"{one}{HARM}" for one in rows["user"]]
    rows["item"] = [f"{one}{HARM}" for one in rows["item"]]
    items = sorted(set(rows["item"]))
    pyarrow.csv.write_csv(
        pa.table({"id": items, "title": [f"{one[:3]}{TITLE}" for one in items]}), folder / "items.csv"
    )
    path = folder / f"{HARM}.csv"
    pyarrow.csv.write_csv(pa.table(rows), path)
    return path


@pytest.fixture(scope="module")
def run(log: Path) -> Path:
    data = accord.load(log, items=log.parent / "items.csv")
    folder = log.parent / f"run{HARM}"
    run = plan(data, "gmf", "deca", epochs=1, options={"model.dim": 4})
    with noting(command=f"accord {HARM}"):
        trained = fit_run(data, run, out=folder)
    write_report(folder / "report.html", [(str(folder), trained)])
    return folder


@pytest.fixture(scope="module")
def compared(log: Path) -> Path:
    out = log.parent / "compared"
    words = ["accord", "compare", str(log), "--methods", "normal", "--seeds", "1", "--epochs", "1", "--out", str(out)]
    before, sys.argv = sys.argv, words
    try:
        with pytest.raises(SystemExit) as ended:
            app.main()
    finally:
        sys.argv = before
    assert ended.value.code == 0
    return out


@pytest.fixture(scope="module")
def audited(log: Path) -> Path:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(auditing, "verdict", lambda *_, **__: None)  # which says nothing of ids, and takes long
        with noting(command=f"accord {HARM}"):
            made = auditing.audit(log, items=log.parent / "items.csv", seeds=1, folds=2)
    return made.save(log.parent / "audited")


def look_at(browser, address: str, wait: str | None = None) -> str:
    """Open a page and see that nothing harmful ran, that its policy is strict, and what it shows."""
    page = browser.new_context(viewport={"width": 1100, "height": 800}).new_page()
    dialogs, asked, errors = [], [], []
    page.on("dialog", lambda dialog: (dialogs.append(dialog.message), dialog.dismiss()))
    page.on("request", lambda request: asked.append(request.url))
    page.on("console", lambda message: errors.append(message.text) if "Content Security" in message.text else None)
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
    text = page.locator("body").inner_text()
    title = page.title()
    page.context.close()
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
