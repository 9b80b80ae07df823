"""Take the picture of the demo's report: `python docs/draw_report.py runs/demo/report.html` after `make demo`.

A screen in light colours, and beside it a phone in dark ones. Needs Chromium, and what the tests need.
"""

from __future__ import annotations

import io
import shutil
import sys
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, sync_playwright

PICTURE = Path(__file__).parent / "images" / "report.png"
SCREEN, PHONE, GAP = (1060, 1000), (420, 1000), 16
BELIEVED = "section[aria-labelledby='which-interactions-are-real']"


def main(page: Path) -> None:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        screen = _seen(browser, page, SCREEN, "light", "")
        phone = _seen(browser, page, PHONE, "dark", BELIEVED)
        browser.close()
    both = Image.new("RGB", (SCREEN[0] + GAP + PHONE[0], SCREEN[1]), "#d0d7de")
    both.paste(screen, (0, 0))
    both.paste(phone, (SCREEN[0] + GAP, 0))
    both.quantize(256, Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE).save(PICTURE, optimize=True)


def _seen(browser: Browser, page: Path, size: tuple[int, int], scheme: str, section: str) -> Image.Image:
    width, height = size
    opened = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)  # type: ignore[arg-type]
    opened.goto(page.resolve().as_uri())
    opened.wait_for_selector("canvas, svg")
    opened.wait_for_timeout(2000)
    for _ in range(3 if section else 0):  # charts are drawn when they come into view, and move what is below them
        opened.evaluate("selector => document.querySelector(selector).scrollIntoView()", f"{section} figure")
        opened.wait_for_timeout(1500)
    return Image.open(io.BytesIO(opened.screenshot())).convert("RGB")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
