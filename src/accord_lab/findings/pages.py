"""Pages of results whose sentences are generated: what they hold, and what they should hold."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path

from accord.errors import InputError
from accord_lab.findings import corrected, published

PART = re.compile(r"(<!-- generated: ([\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)
Part = Callable[[Path], str]
PAGES: Mapping[str, Mapping[str, Part]] = {
    "README.md": published.PARTS_OF_PAGE,
    "corrected/README.md": corrected.PARTS_OF_PAGE,
}


def is_there(folder: Path, page: str) -> bool:
    """Whether a folder has the page: one of the same name that has none of its parts is another."""
    file = folder / page
    if not file.exists():
        return False
    return not PAGES[page].keys().isdisjoint(match[2] for match in PART.finditer(file.read_text(encoding="utf-8")))


def filled(folder: Path, page: str) -> str:
    """A page of the folder with its generated parts made anew from its raw results."""
    parts, text = PAGES[page], (folder / page).read_text(encoding="utf-8")
    if missing := set(parts) - {match[2] for match in PART.finditer(text)}:
        raise InputError(f"{folder / page} has no place for {', '.join(sorted(missing))}: <!-- generated: NAME -->.")
    return PART.sub(lambda match: f"{match[1]}{parts[match[2]](folder)}{match[3]}", text)
