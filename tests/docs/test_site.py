"""The site: every page is in it, every public name is in its reference, and nothing in it asks another host."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import accord
from browser import chromium, opened
from documents import ROOT

MKDOCS = ROOT / ".docs-venv" / "bin" / "mkdocs"
NAV = re.findall(r"^ +- .+: (\S+\.md)$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.MULTILINE)


def test_every_page_is_in_the_navigation() -> None:
    docs = ROOT / "docs"
    made = ["api.md", *(f"notebooks/{path.stem}.md" for path in (docs / "notebooks").glob("*.ipynb"))]
    pages = [path.relative_to(docs).as_posix() for path in docs.glob("*.md")]
    named = {name for name in NAV if not name.startswith("reproduction/")} | {"README.md"}
    assert named == {*pages, *made}
    assert all((docs / name).is_file() for name in NAV if name not in made)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not MKDOCS.exists():
        pytest.skip("the tools of the site are not here; `make docs` installs them")
    built = tmp_path_factory.mktemp("site")
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    command = [str(MKDOCS), "build", "--strict", "--site-dir", str(built)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    return built


def test_the_reference_has_every_public_name(site: Path) -> None:
    text = (site / "api.html").read_text(encoding="utf-8")
    for name in accord.__all__:
        if name != "__version__":
            assert f"accord.{name}" in text or f"<code>{name}</code>" in text, name
    assert "&gt;&gt;&gt;" in text  # the examples
    assert "Recommender.recommend" in text  # what is inherited


@pytest.fixture(scope="module")
def browser() -> Iterator[object]:
    with chromium() as found:
        yield found


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["index", "method", "api", "errors", "notebooks/a_table_of_the_paper"])
def test_a_page_asks_nobody_and_fits(site: Path, browser, name: str, scheme: str, width: int) -> None:  # type: ignore[no-untyped-def]
    with opened(browser, site / f"{name}.html", width, scheme) as seen:
        assert seen.asked
        assert not [url for url in seen.asked if not url.startswith(("file:", "data:", "blob:"))]
        assert seen.page.evaluate("document.documentElement.scrollWidth") <= width
        if name == "method":
            assert seen.page.locator("math").count() >= 10
            assert not re.search(r"\\[a-z]+\{|&amp;amp;", seen.page.inner_html("article"))
