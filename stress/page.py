"""docs/reliability.md from the campaigns' results: `python stress/page.py`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "reliability.md"

INTRODUCTION = """# Reliability

Faults, load and hostile input that Accord was tested with, and what happened. Every figure below comes from a command
that you can run: `make stress` runs all of them and writes this page, `make stress STRESS="--only crash"` only one.
A small version of each is among the tests of `make test`; 200 kills and five minutes of load are `make heavy`. Every
record says on which day and at which commit it was made, and from which seed.
"""

# in this order; what a reader should know that the figures do not say
TEXTS = {
    "crash": """
Every file is written under a temporary name first and renamed when it is complete. A run folder is replaced only when
all files of the new run are on the disk; `metrics.json` is removed before the first of them is moved and comes back
with the last, and a folder without it does not load. The results of a stack are added all at once or not at all. What a
killed process left behind is removed by the next one. In the tests, training is killed before every single change of
the disk.
""",
    "chaos": """
What is on this page one by one, in no order: whatever was on its way when something happened, nothing is served that is
not a whole run, and nothing that was finished has to be done again.
""",
    "faults": """
One process at a time writes to a folder (a lock that ends with the process, however it ends); another one is refused.
""",
    "determinism": """
The same seed on the same machine gives the same bits, without being asked to. Three things were in the way: MKL's
matrix products depend on the number of threads unless `MKL_CBWR` is set, which `import accord` does (`AUTO,STRICT`; set
it yourself to have it otherwise; MKL keeps this promise on processors with AVX2 and more); so does LAPACK's inverse,
which EASE takes with one thread, and where there are many items in blocks, each by one thread; and two long sums.
Another processor, another version of torch, or training with and without numba may give other last bits.
""",
    "determinism-cuda": """
On CUDA `--deterministic` (in Python: `accord.deterministic()` before CUDA is used) has torch add up in one order,
leaves our own kernels out, which do not, and multiplies the graph of LightGCN without cuSPARSE.
""",
    "arithmetic": """
All methods work on logits, and guard their logarithms. The gradients of DeCA are a thousandth off where probabilities
are nearly 0 or 1: there 1 − p has few digits in float32, and the released code's guard of 10⁻⁵ is of the same size.
Training that diverges, whose loss or weights became NaN or infinite, is noticed at the end of the epoch and ends with
one sentence and exit code 2; the last good checkpoint stays. In a stack only the runs that diverged are left out: the
others continue and are saved, and the exit code is still 2.
""",
    "inputs": """
Nothing that comes from a file is trusted: not its size, its encoding, its counts, nor what it says it is. Each of the
inputs below was made to do harm or is what a crash leaves behind. It is read completely, or refused in one sentence.
Limits that make this so: a compressed log may hold 100 times its size, Parquet may have 100 rows a byte, a run 1,000
seeds and embeddings 16,384 wide. A run folder has the sizes and sha256 of its files in `manifest.json`, so that any
change of them is refused; folders below are without it where nothing else is said, so that what comes after it is tried
too. What is not noticed: numbers in a log, or in a folder without a manifest, that were changed into other numbers.
""",
    "load": """
More is asked than [the server](serve.md) can answer, by clients of which some are broken or hostile, while the run
folder is replaced, overwritten, cut short and deleted. What it cannot answer it refuses at once, and what it answers is
right: every body is compared byte by byte with what was computed before, for the run that is served at that moment, and
the lists among them were checked against the scores of the model itself. The command fails on one wrong answer, one
failed health check, a trace in the log, or memory that grows by more than 5 %.
""",
    "mutation": """
A test that cannot fail proves nothing. Changes that no test notices are shown with why they may stay, where that is
known.
""",
    "supply": """
Commands for releases and dependencies, with what they found here. `make audit-deps` fails with a sentence where
the service cannot be reached; that is not taken for an answer. See [SECURITY.md](../SECURITY.md) and the
[threat model](threat-model.md).
""",
}


def page(results: dict[str, dict[str, Any]]) -> str:
    """The page as Markdown; campaigns without a text here come last."""
    names = [*(name for name in TEXTS if name in results), *sorted(set(results) - set(TEXTS))]
    return "\n".join([INTRODUCTION, *(_section(results[name], TEXTS.get(name, "")) for name in names)])


def _section(found: dict[str, Any], text: str) -> str:
    parts = [
        f"## {found['title']}",
        text.strip(),
        " ".join([*found["how"], *([_made(found["made"])] if found["made"] else [])]),
    ]
    parts += [f"![{found['title']}](images/{figure})" for figure in found.get("figures", [])]
    parts += [_table(table) for table in found["tables"]]
    return "\n\n".join(part for part in parts if part) + "\n"


def _table(table: dict[str, Any]) -> str:
    rows = [table["heads"], ["---"] * len(table["heads"]), *table["rows"]]
    lines = ["| " + " | ".join(_cell(cell) for cell in row) + " |" for row in rows]
    of = [_made(table["made"])] if table.get("made") else []
    return "\n\n".join([f"**{table['title']}**", "\n".join(lines), *table.get("notes", []), *of])


def _made(of: dict[str, Any]) -> str:
    """From when a record is; an old one knows only in which commit it was kept."""
    drawn = "no seed, as nothing is drawn" if of["seed"] is None else f"seed {of['seed']}"
    began = "Kept" if of.get("kept") else "Run"
    return f"{began} on {of['date']}, commit `{of['commit']}`, {drawn}."


def _cell(value: Any) -> str:
    if value is None:
        return ""
    text = f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
    return text.replace("|", "\\|").replace("\n", " ")


def read(folder: Path = HERE / "results") -> dict[str, dict[str, Any]]:
    return {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))}


if __name__ == "__main__":
    PAGE.write_text(page(read()), encoding="utf-8")
