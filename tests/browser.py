"""Pages in a real browser: the system's Chromium, with no way out to a network that goes unseen."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, sync_playwright


@contextmanager
def chromium() -> Iterator[Browser]:
    found = shutil.which("chromium")
    if found is None:
        pytest.skip("chromium is not here")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield browser
        browser.close()


def harms(page: Any) -> list[str]:
    """What axe has to say against a page as it is shown."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is not here").Axe()
    answer = axe.run(page, options={"resultTypes": ["violations"]}).response  # it need not describe what is well
    return [f"{one['id']}: {one['nodes'][0]['html']}" for one in answer["violations"]]


@dataclass
class Opened:
    """A page opened from disk, and what it said and asked for."""

    page: Any
    said: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)

    def harms(self) -> list[str]:
        """What axe has to say against it."""
        return harms(self.page)


@contextmanager
def opened(browser: Browser, path: Path, width: int = 1100, scheme: Any = "light") -> Iterator[Opened]:
    context = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme)
    page = context.new_page()
    page.set_default_timeout(120_000)  # a busy machine is slow, not wrong
    seen = Opened(page)
    page.on("console", lambda message: seen.said.append(message.text))
    page.on("pageerror", lambda error: seen.said.append(str(error)))
    page.on("request", lambda request: seen.asked.append(request.url))
    page.goto(path.as_uri())
    page.wait_for_function("!document.getElementById('specs') || document.documentElement.dataset.charts")
    yield seen
    context.close()
