"""Hostile and broken input: what becomes of each, in what time and with how much memory; and what a fuzzer finds.

python stress/inputs.py [--seconds 300]
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import re
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from fuzz.case import Case
from fuzz.folders import CHECKPOINTS, EXPRESSIONS, OTHERS, RUNS, honest
from fuzz.logs import COMPRESSED, PARQUET, PLACES, TEXT
from record import RESULTS, Found, Table, table_as_text

SECONDS = 30  # of the processor's time, within which every input must have ended
WALL = 300  # seconds after which one that waits for something is stopped
MOST_MEMORY = 1024  # MB that a process may have in memory at once
GROUPS = {
    "Logs as text": TEXT,
    "Compressed logs": COMPRESSED,
    "Logs as Parquet": PARQUET,
    "Places, split folders and tables of items": PLACES,
    "Run folders": RUNS,
    "Checkpoints": CHECKPOINTS,
    "Expressions and options": EXPRESSIONS,
    "Results and audit folders": OTHERS,
}
TARGETS = ("text", "parquet", "expressions", "folder", "checkpoint", "api")
FUZZING = "Fuzzing"
RESULT = RESULTS / "inputs.json"
HOW_CASES = (
    '`make stress STRESS="--only inputs"`: {number} inputs made by hand, each given to the command line in a process'
    f" of its own, forked from one that has loaded the libraries. Each must end within {SECONDS} seconds of the"
    f" processor's time and {MOST_MEMORY} MB of resident memory (Python, Arrow and torch together take about a third of"
    " that), either read whole or refused in one sentence with exit code 2, never with a traceback and never with code"
    " from the data run. {wrong} went wrong."
)
HOW_FUZZED = (
    "Then each target was fuzzed for {seconds} seconds, guided by coverage (atheris), and {wrong} went wrong. The same"
    " inputs, and some seconds of fuzzing, are among the tests."
)


@dataclass(frozen=True)
class End:
    """How a command ended."""

    code: int | None  # None: it had to be killed
    said: str
    seconds: float  # of the processor's time
    megabytes: int  # at most, resident
    harmed: bool  # whether code from the data was run

    def wrong(self, case: Case) -> str | None:
        """What is not as it must be; None if nothing."""
        if self.code is None:
            return f"it had not ended after {WALL} s"
        if self.seconds > SECONDS:
            return f"{self.seconds:.0f} s"
        if "Traceback" in self.said:
            return "a traceback"
        if self.harmed:
            return "code from the data was run"
        if self.megabytes > MOST_MEMORY:
            return f"{self.megabytes} MB"
        if self.code != (2 if case.refused else 0) or case.says not in self.said:
            return f"exit {self.code}, said {self.said[-300:]!r}"
        if case.refused and not self.sentence.startswith("accord: "):
            return f"no sentence: {self.sentence[:300]!r}"
        return None

    @property
    def sentence(self) -> str:
        """The last line, which holds the error."""
        return (self.said.strip().splitlines() or [""])[-1]


def run(case: Case, folder: Path) -> End:
    """Give a case to the command line, in a process of its own."""
    from fuzz.child import command

    os.environ["PYTHONPATH"] = str(Path(__file__).parent)  # for the process that others are forked from
    server = multiprocessing.get_context("forkserver")
    server.set_forkserver_preload(["fuzz.child", "fuzz.logs", "fuzz.folders"])
    child = server.Process(target=command, args=(case.make(folder), folder))
    child.start()
    child.join(WALL)
    killed = child.is_alive()
    if killed:
        child.kill()
        child.join()
    said = (folder / "said").read_bytes().decode("utf-8", "replace")
    used = json.loads((folder / "used").read_text()) if (folder / "used").exists() else {"seconds": 0, "megabytes": 0}
    return End(None if killed else child.exitcode, said, **used, harmed=(folder / "harmed").exists())


def outcome(case: Case, end: End, folder: Path) -> str:
    """How it ended, for the page: the sentence without the folder, or the line that shows that it was read."""
    lines = [line.strip() for line in end.said.splitlines() if case.says in line]
    text = end.sentence.removeprefix("accord: ") if case.refused else f"read: {lines[0] if lines else ''}"
    text = re.sub(r"\S*/accord-hostile-\w+/", "", text.replace(f"{folder}/", "").replace(str(folder), "the folder"))
    text = re.sub(r"\s+", " ", text)
    text = re.sub(r"([<>&*_`\[\]])", r"\\\1", text)
    return text if len(text) < 180 else f"{text[:180]}…"


def cases() -> tuple[list[Table], list[str]]:
    """Every case of every group, and what went wrong."""
    honest()
    tables, wrong = [], []
    for title, group in GROUPS.items():
        table = Table(title, ["input", "how it ended", "CPU seconds", "MB"])
        for case in group:
            with tempfile.TemporaryDirectory() as name:
                end = run(case, Path(name))
                bad = end.wrong(case)
                wrong += [f"{case.name}: {bad}"] if bad else []
                table.rows.append(
                    [case.name, f"**wrong**: {bad}" if bad else outcome(case, end, Path(name)), f"{end.seconds:.1f}",
                     end.megabytes]
                )  # fmt: skip
        print(table_as_text(table), flush=True)
        tables.append(table)
    return tables, wrong


def fuzzed(seconds: int) -> tuple[Table, list[str]]:
    """Every target fuzzed for so long, and what went wrong."""
    from fuzz.harness import fuzz

    table = Table(FUZZING, ["target", "what is fuzzed", "executions", "a second", "edges of our code", "findings"])
    wrong = []
    for name in TARGETS:
        found = fuzz(name, seconds)
        table.rows.append([name, found.what, found.executions, f"{found.executions / max(1, found.seconds):.0f}",
                           found.edges, len(found.findings)])  # fmt: skip
        wrong += [f"fuzzing {name}: {finding}" for finding in found.findings]
        print(found, flush=True)
    table.notes.append(
        "Edges: branches of Accord's own Python that were reached; libraries are not counted. A finding is an"
        " exception that is no sentence, an answer of the server with status 500, or a wrong result."
    )
    return table, wrong


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seconds", type=int, default=300, help="for each target of the fuzzer")
    options.add_argument("--only", choices=("cases", "fuzz"), help="one part; the other's results stay as they are")
    given = options.parse_args()
    before = json.loads(RESULT.read_text()) if given.only and RESULT.exists() else {"tables": [], "how": ["", ""]}
    wrong: list[str] = []
    tables = [Table(**table) for table in before["tables"] if table["title"] in GROUPS]
    fuzzing = [Table(**table) for table in before["tables"] if table["title"] == FUZZING]
    how_cases, how_fuzzed = before["how"]
    if given.only != "fuzz":
        tables, wrong = cases()
        how_cases = HOW_CASES.format(number=sum(map(len, GROUPS.values())), wrong=len(wrong))
    if given.only != "cases":
        table, found = fuzzed(given.seconds)
        fuzzing, wrong = [table], wrong + found
        how_fuzzed = HOW_FUZZED.format(seconds=given.seconds, wrong=len(found))
    Found("Hostile and broken input", [how_cases, how_fuzzed], [*tables, *fuzzing]).write("inputs")
    for text in wrong:
        print(f"wrong: {text}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
