"""Pages in a real browser: the system's Chromium, with no way out to a network that goes unseen."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
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


@contextmanager
def blank(
    browser: Browser, width: int, height: int = 800, scheme: Any = "light", **heard: Callable[[Any], Any]
) -> Iterator[Any]:
    """The page of a browser, with nothing on it, and who hears of its events by their names. All use the same one: the
    window of another costs a second of the processor. What keeps anything in its storage makes a context instead."""
    context = browser.contexts[0] if browser.contexts else browser.new_context()
    page = context.pages[0] if context.pages else context.new_page()
    page.set_default_timeout(120_000)  # a busy machine is slow, not wrong
    page.set_viewport_size({"width": width, "height": height})
    page.emulate_media(media="null", color_scheme=scheme)
    for event, hear in heard.items():
        page.on(event, hear)  # type: ignore[call-overload]
    try:
        yield page
    finally:
        for event, hear in heard.items():
            page.remove_listener(event, hear)
        page.goto("about:blank")


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
    said: list[str] = []
    asked: list[str] = []
    heard: dict[str, Callable[[Any], Any]] = {
        "console": lambda message: said.append(message.text),
        "pageerror": lambda error: said.append(str(error)),
        "request": lambda request: asked.append(request.url),
    }
    with blank(browser, width, scheme=scheme, **heard) as page:
        page.goto(path.as_uri())
        page.wait_for_function("!document.getElementById('specs') || document.documentElement.dataset.charts")
        yield Opened(page, said, asked)
