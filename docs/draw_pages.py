"""Take the pictures of the report and of the server's page:

    accord demo
    python docs/draw_pages.py runs/demo

The report: a screen in light colours, and beside it a phone in dark ones. The server: a user whose history was changed.
Needs Chromium, and what the tests need.
"""

from __future__ import annotations

import io
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

PICTURES = Path(__file__).parent / "images"
SCREEN, PHONE, GAP = (1060, 1000), (420, 1000), 16
BELIEVED = "section[aria-labelledby='which-interactions-are-real']"


def main(demo: Path) -> None:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        screen = _report(browser, demo / "report.html", SCREEN, "light", "")
        phone = _report(browser, demo / "report.html", PHONE, "dark", BELIEVED)
        both = Image.new("RGB", (SCREEN[0] + GAP + PHONE[0], SCREEN[1]), "#d0d7de")
        both.paste(screen, (0, 0))
        both.paste(phone, (SCREEN[0] + GAP, 0))
        _save(both, "report.png")
        with _served(demo / "auto") as address:
            _save(_server(browser, address), "serve.png")
        browser.close()


def _report(browser: Browser, page: Path, size: tuple[int, int], scheme: str, section: str) -> Image.Image:
    width, height = size
    opened = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)  # type: ignore[arg-type]
    opened.goto(page.resolve().as_uri())
    opened.wait_for_function("document.documentElement.dataset.charts === 'drawn'")
    if section:
        opened.evaluate("selector => document.querySelector(selector).scrollIntoView()", f"{section} figure")
    return _seen(opened)


@contextmanager
def _served(run: Path) -> Iterator[str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = ["serve", str(run), "--port", str(port)]
    server = subprocess.Popen([sys.executable, "-m", "accord", *words])
    try:
        yield f"http://127.0.0.1:{port}/"
    finally:
        server.terminate()
        server.wait()


def _server(browser: Browser, address: str) -> Image.Image:
    """The least sure of a history left out, and an item added that was recommended."""
    opened = browser.new_page(viewport={"width": SCREEN[0], "height": SCREEN[1]}, color_scheme="light")
    for _ in range(60):  # until it listens
        try:
            opened.goto(address)
            break
        except Exception:
            opened.wait_for_timeout(1000)
    opened.locator("#user-matches button").nth(1).click()
    opened.locator("#recommended > li").nth(19).wait_for()
    opened.locator("#order").select_option("noisiest")
    opened.locator("#item-query").fill(opened.locator("#recommended .title").nth(4).inner_text().removeprefix("item "))
    opened.locator("#item-matches button").first.click()
    opened.locator("#history .added").wait_for()
    for number in (0, 2):
        opened.locator("#history input").nth(number).uncheck()
    opened.locator("#recommended .badge").first.wait_for()
    opened.evaluate("document.activeElement.blur(); scrollTo(0, 0)")
    return _seen(opened)


def _seen(page: Page) -> Image.Image:
    page.wait_for_timeout(1500)
    return Image.open(io.BytesIO(page.screenshot())).convert("RGB")


def _save(picture: Image.Image, name: str) -> None:
    made = picture.quantize(256, Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE)
    made.save(PICTURES / name, optimize=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
