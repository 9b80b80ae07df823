"""The raw results in docs/reproduction, read without any code of ours."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[1] / "docs" / "reproduction"


def raw(name: str, **wanted: Any) -> Iterator[dict[str, Any]]:
    """The lines of a file with these fields or settings (`c1=10.0` stands for `method.c1`)."""
    for text in (FOLDER / name).read_text(encoding="utf-8").splitlines():
        line = json.loads(text)
        if all(line.get(key, line["settings"].get(f"method.{key}")) == value for key, value in wanted.items()):
            yield line


def metric(name: str, which: str = "recall@20", **wanted: Any) -> list[float]:
    return [line["metrics"][which] for line in raw(name, **wanted)]


def words(page: str) -> str:
    """A page as one line, so that a sentence may go over several."""
    return " ".join((FOLDER / page).read_text(encoding="utf-8").split())


def rows(page: str, part: str) -> list[list[str]]:
    """The cells of the generated table of a page, row by row."""
    text = (FOLDER / page).read_text(encoding="utf-8")
    inside = text.partition(f"<!-- generated: {part} -->\n")[2].partition("<!-- end -->")[0]
    body = [line for line in inside.splitlines() if line.startswith("|")][2:]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in body]
