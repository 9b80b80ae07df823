"""docs/reliability.md and docs/records/reliability.md from the campaigns' results: `python stress/page.py`."""

from __future__ import annotations

import json
import re
import statistics
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
DOCS = HERE.parent / "docs"
PAGE, RECORD = DOCS / "reliability.md", DOCS / "records" / "reliability.md"

SHORT = """# Reliability

What happens when a process is killed, the disk fills up, a file is malicious, or the server is overloaded. Every row
is a campaign that you can repeat: `make stress` runs all of them, `make stress STRESS="--only crash"` one.

{table}

- Every file is written under a temporary name and renamed when it is complete, so a killed process leaves either the
  old run or a folder that does not load, and the same command (with `--resume` where it has that) continues from there.
- One process at a time writes to a folder; a second one is refused.
- The same seed on the same machine gives the same bits on a CPU, with any number of threads; on CUDA, pass
  `--deterministic`, which makes training {slower} times as long (median of {timed} cases).
- Another processor or another version of torch may give other last bits.
- Training that becomes NaN or infinite stops at the end of the epoch with one sentence and exit code 2; the last good
  checkpoint stays, and other runs of the batch continue.
- A log, a run folder or a request that cannot be read is refused in one sentence, without a traceback, and no code from
  it is run.
- A changed run folder is refused, since its `manifest.json` has the size and sha256 of every file; numbers in a log
  that were changed into other numbers are not noticed.
- A server that gets more requests than it can answer refuses the rest with 503 and answers health checks first. Over
  half an hour of such load its memory changed by {memory}.
- {vulnerabilities}
- The [full record](records/reliability.md) has every table, with the date, commit and seed of each campaign. A small
  version of each campaign is part of `make test`.
"""

INTRODUCTION = """# Reliability: the full record

The short version is [Reliability](../reliability.md). Faults, load and hostile input that Accord was tested with, and
what happened. Every figure below comes from a command that you can run: `make stress` runs all of them and writes both
pages, `make stress STRESS="--only crash"` only one. A small version of each is among the tests of `make test`; 200
kills and five minutes of load are `make heavy`. Every record says on which day and at which commit it was made, and
from which seed.
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
More is asked than [the server](../serve.md) can answer, by clients of which some are broken or hostile, while the run
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
the service cannot be reached; that is not taken for an answer. See [SECURITY.md](../../SECURITY.md) and the
[threat model](../threat-model.md).
""",
}


Results = dict[str, dict[str, Any]]
BITS_CUDA = "determinism-cuda"


def page(results: Results) -> str:
    """The short page: a row for each campaign, then what follows from them."""
    costs = [float(row[-1]) for row in _rows(results, "determinism-cuda", "What --deterministic costs")]
    load = dict(_rows(results, "load", "Load"))
    (asked, answer), *_ = _rows(results, "supply", "Known vulnerabilities")
    return SHORT.format(
        table=_lines(["what we did", "how often", "what went wrong"], _summary(results)),
        slower=f"{statistics.median(costs):.1f}",
        timed=len(costs),
        memory=load["**memory over time**"],
        vulnerabilities=f"Known vulnerabilities of dependencies ({asked}): {answer}",
    )


def _summary(results: Results) -> list[list[str]]:
    killed = _rows(results, "crash", "Killed at random moments")
    ((wrong, lost),) = _rows(results, "chaos", "Judged")
    answers = sum(row[2] for row in _rows(results, "chaos", "The server, its folder, and the cluster", "server"))
    disturbed = _rows(results, "chaos", "Commands, and what happened to them")
    faults = _rows(results, "faults", "Faults")
    losses = _rows(results, "arithmetic", "The loss in float32 against float64: largest relative error")
    rates = _rows(results, "arithmetic", "Learning rates that are too large")
    by_hand = [table for table in results["inputs"]["tables"] if table["heads"][1] == "how it ended"]
    by_hand_wrong, *_ = re.findall(r"(\d+) went wrong", " ".join(results["inputs"]["how"]))
    generated, fuzzed = _rows(results, "inputs", "Generated"), _rows(results, "inputs", "Fuzzing")
    load = dict(_rows(results, "load", "Load"))
    clients, folder = _rows(results, "load", "Clients"), _rows(results, "load", "The run folder meanwhile")
    mutants = _rows(results, "mutation", "Changes, and whether a test fails")
    tried, noticed, explained = (sum(row[place] for row in mutants) for place in (3, 4, 6))
    bits = {name: _rows(results, name, results[name]["tables"][0]["title"]) for name in ("determinism", BITS_CUDA)}
    differing = {name: sum(cell != "identical" for row in rows for cell in row[1:]) for name, rows in bits.items()}
    cases = {name: sum(len(row) - 1 for row in rows) for name, rows in bits.items()}
    return [
        [
            f"killed {', '.join(f'`{row[0]}`' for row in killed)} at random moments and ran them again",
            f"{sum(row[1] for row in killed):,} kills",
            f"{sum(row[5] for row in killed)} results wrong or lost",
        ],
        [
            "killed, terminated and filled the disk of commands at random, beside a server",
            f"{sum(row[1] for row in disturbed):,} commands, {answers:,} answers",
            f"{wrong} wrong, {lost} lost",
        ],
        [
            "full disk, read-only folder, missing input, wrong clock, two writers",
            f"{len(faults)} faults",
            f"{sum(row[1] == 2 for row in faults)} ended in a sentence, {sum(row[1] == 0 for row in faults)} finished",
        ],
        [
            "trained every model with every method twice on a CPU, with other numbers of threads",
            f"{cases['determinism']} pairs",
            f"{differing['determinism']} differ in a bit",
        ],
        [
            "the same on a GPU with `--deterministic`",
            f"{cases[BITS_CUDA]} pairs",
            f"{differing[BITS_CUDA]} differ in a bit",
        ],
        [
            "losses and gradients on logits up to ± 1,000",
            f"{sum(row[1] for row in losses):,} cases",
            f"{sum(row[1] - row[2] for row in losses)} not finite",
        ],
        [
            "learning rates up to 10³⁸",
            f"{sum(row[1] + row[2] for row in rates)} trainings",
            f"{sum(row[3] for row in rates)} not noticed",
        ],
        [
            "malicious and damaged logs, run folders, checkpoints, options",
            f"{sum(len(table['rows']) for table in by_hand)} by hand, {sum(row[1] for row in generated):,} generated",
            f"{int(by_hand_wrong) + sum(row[4] for row in generated)} neither read nor refused in a sentence",
        ],
        [
            "fuzzed readers and the server, guided by coverage",
            f"{sum(row[2] for row in fuzzed):,} inputs",
            f"{sum(row[5] for row in fuzzed)} findings",
        ],
        [
            "twice the load that the server can answer, for half an hour",
            f"{load['sent']:,} requests, {sum(row[2] for row in clients):,} from broken clients",
            f"{load['**wrong, late or lost**']} wrong, late or lost; {sum(row[5] for row in clients)} ended otherwise",
        ],
        [
            "replaced, cut short and deleted the run folder meanwhile",
            f"{sum(row[1] for row in folder)} times",
            f"{sum(row[4] for row in folder)} wrong",
        ],
        [
            "changed single operators of the modules that results depend on",
            f"{tried:,} changes",
            f"{tried - noticed} not noticed by a test ({(tried - noticed) / tried:.1%}), {explained} of them explained",
        ],
    ]


def _rows(results: Results, campaign: str, title: str, first: str | None = None) -> list[Any]:
    """The rows of a campaign's table, all or those that begin so."""
    (table,) = (table for table in results[campaign]["tables"] if table["title"] == title)
    return [row for row in table["rows"] if first is None or row[0] == first]


def record(results: Results) -> str:
    """The record as Markdown; campaigns without a text here come last."""
    names = [*(name for name in TEXTS if name in results), *sorted(set(results) - set(TEXTS))]
    return "\n".join([INTRODUCTION, *(_section(results[name], TEXTS.get(name, "")) for name in names)])


def _section(campaign: dict[str, Any], text: str) -> str:
    parts = [
        f"## {campaign['title']}",
        text.strip(),
        " ".join([*campaign["how"], *([_made(campaign["made"])] if campaign["made"] else [])]),
    ]
    parts += [f"![{campaign['title']}](../images/{figure})" for figure in campaign.get("figures", [])]
    parts += [_table(table) for table in campaign["tables"]]
    return "\n\n".join(part for part in parts if part) + "\n"


def _table(table: dict[str, Any]) -> str:
    of = [_made(table["made"])] if table.get("made") else []
    lines = _lines(table["heads"], table["rows"])
    return "\n\n".join([f"**{table['title']}**", lines, *table.get("notes", []), *of])


def _lines(heads: list[str], rows: list[list[Any]]) -> str:
    return "\n".join("| " + " | ".join(map(_cell, row)) + " |" for row in [heads, ["---"] * len(heads), *rows])


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


def read(folder: Path = HERE / "results") -> Results:
    return {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))}


if __name__ == "__main__":
    PAGE.write_text(page(read()), encoding="utf-8")
    RECORD.write_text(record(read()), encoding="utf-8")
