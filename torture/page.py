"""docs/reliability.md from the campaigns' results: `python torture/page.py`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "reliability.md"

INTRODUCTION = """# Reliability

Faults, load and hostile input that Accord was put to, and what became of it. Every figure below comes from a command
that anybody can run: `make torture` runs all of them and writes this page, `make torture TORTURE="--only crash"` one.
A small version of each is among the tests of `make test`.
"""

# in this order; what a reader should know that the figures do not say
TEXTS = {
    "crash": "",
    "faults": "",
    "determinism": "",
    "determinism-cuda": "",
    "arithmetic": "",
    "inputs": """
Nothing that comes from a file is trusted: not its size, its encoding, its counts, nor what it says it is. Each of the
inputs below was made to do harm or is what a crash leaves behind. It is read whole, or refused in one sentence.
Limits that make this so: a compressed log may hold 100 times its size, Parquet may have 100 rows a byte, a run 1,000
seeds and embeddings 16,384 wide. What is not noticed: numbers in a log or in weights that were changed into other
numbers; run folders have no checksums.
""",
    "load": """
More is asked than [the server](serve.md) can answer, by clients of which some are broken or hostile, while the run
folder is replaced, overwritten, cut short and deleted. What it cannot answer it refuses at once, and what it answers is
right: every body is compared byte by byte with what was computed before, for the run that is served at that moment, and
the lists among them were checked against the scores of the model itself. The command fails on one wrong answer, one
failed health check, a trace in the log, or memory that grows by more than 5 %.
""",
    "supply": """
Commands for releases and dependencies, with what they found here. `make audit-deps` fails with a sentence where
the service cannot be reached; that is not taken for an answer. See [SECURITY.md](../SECURITY.md) and the
[threat model](threat-model.md).
""",
}


def page(results: dict[str, dict[str, Any]]) -> str:
    """The page; campaigns without a text of their own come last."""
    names = [*(name for name in TEXTS if name in results), *sorted(set(results) - set(TEXTS))]
    return "\n".join([INTRODUCTION, *(_section(results[name], TEXTS.get(name, "")) for name in names)])


def _section(found: dict[str, Any], text: str) -> str:
    parts = [f"## {found['title']}", text.strip(), " ".join(found["how"])]
    parts += [f"![{found['title']}](images/{figure})" for figure in found.get("figures", [])]
    parts += [_table(table) for table in found["tables"]]
    return "\n\n".join(part for part in parts if part) + "\n"


def _table(table: dict[str, Any]) -> str:
    rows = [table["heads"], ["---"] * len(table["heads"]), *table["rows"]]
    lines = ["| " + " | ".join(_cell(cell) for cell in row) + " |" for row in rows]
    return "\n\n".join([f"**{table['title']}**", "\n".join(lines), *table.get("notes", [])])


def _cell(value: Any) -> str:
    if value is None:
        return ""
    text = f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
    return text.replace("|", "\\|").replace("\n", " ")


def read(folder: Path = HERE / "results") -> dict[str, dict[str, Any]]:
    return {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))}


if __name__ == "__main__":
    PAGE.write_text(page(read()), encoding="utf-8")
