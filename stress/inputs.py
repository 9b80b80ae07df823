"""Hostile and broken input: what becomes of each, in what time and with how much memory; what is generated, and what a
fuzzer finds.

python stress/inputs.py [--number 1000] [--seconds 300] [--seed 1]
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from fuzz.case import Case
from fuzz.folders import CHECKPOINTS, EXPRESSIONS, OTHERS, RUNS, honest
from fuzz.generated import KINDS, request
from fuzz.logs import COMPRESSED, PARQUET, PLACES, TEXT
from record import RESULTS, Found, Table, stamp, table_as_text

SECONDS = 30  # of the processor's time, within which every input must have ended
WALL = 300  # seconds after which one that waits for something is stopped
LONGEST = 1500  # characters of a sentence
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
GENERATED = "Generated"
FUZZING = "Fuzzing"
RESULT = RESULTS / "inputs.json"
HOW_CASES = (
    '`make stress STRESS="--only inputs"`: {number} inputs made by hand, each given to the command line in a process'
    f" of its own, forked from one that has loaded the libraries. Each must end within {SECONDS} seconds of the"
    f" processor's time and {MOST_MEMORY} MB of resident memory (Python, Arrow and torch together take about a third of"
    " that), either read whole or refused in one sentence with exit code 2, never with a traceback and never with code"
    " from the data run. {wrong} went wrong."
)
HOW_GENERATED = (
    "{number} more are generated from a seed: of the right form, with something in them that is not. Each is judged in"
    " the same way, and {wrong} went wrong."
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
        right = {True: (2,), False: (0,), None: (0, 2)}[case.refused]
        if self.code not in right or case.says not in self.said:
            return f"exit {self.code}, said {self.said[-300:]!r}"
        if self.code == 2 and not (self.sentence.startswith("accord: ") and len(self.sentence) < LONGEST):
            return f"no sentence: {self.sentence[:300]!r}"
        return None

    @property
    def sentence(self) -> str:
        """The last line, which holds the error."""
        return (self.said.strip().splitlines() or [""])[-1]


def run(case: Case, folder: Path) -> End:
    """Give a case to the command line, in a process of its own."""
    from fuzz.child import command

    here = str(Path(__file__).parent)
    if here not in (before := os.environ.get("PYTHONPATH", "")).split(os.pathsep):
        # for the process that others are forked from; an empty entry would be the working folder
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [here, before]))
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


def generated(number: int, seed: int) -> tuple[Table, list[str]]:
    """So many inputs, a quarter of each kind, and what went wrong."""
    table = Table(GENERATED, ["what", "inputs", "read", "refused in a sentence", "wrong"])
    from fuzz.targets import Api

    wrong: list[str] = []
    honest()
    share = number // (len(KINDS) + 1)
    for kind, write in KINDS.items():
        codes: Counter[int | None] = Counter()
        bad = []
        for place in range(share):
            with tempfile.TemporaryDirectory() as name:
                end, trouble = _one(
                    f"{kind} {seed}.{place}", write, random.Random(f"{seed} {kind} {place}"), Path(name)
                )
            codes[end.code] += 1
            bad += [trouble] if trouble else []
        table.rows.append([kind, share, codes[0], codes[2], len(bad)])
        wrong += bad
        print(table.rows[-1], *bad, sep="\n", flush=True)
    target = Api()
    bad = []
    for place in range(number - share * len(KINDS)):
        try:
            target.generated(request(random.Random(f"{seed} request {place}")))
        except Exception as error:  # whatever it is, it is a finding
            bad.append(f"request {seed}.{place}: {type(error).__name__}: {error}")
    target.close()
    table.rows.append(
        ["requests to the server", number - share * len(KINDS), target.answers[True], target.answers[False], len(bad)]
    )
    print(table.rows[-1], *bad, sep="\n", flush=True)
    return table, wrong + bad


def _one(
    name: str, write: Callable[[random.Random, Path], list[str]], draw: random.Random, folder: Path
) -> tuple[End, str]:
    """One input, how it ended, and what was wrong with that. A run that has a manifest must not be read."""
    arguments = write(draw, folder)
    case = Case(name, lambda _: arguments, "", True if (folder / "run" / "manifest.json").exists() else None)
    end = run(case, folder)
    bad = end.wrong(case)
    return end, f"{name}: {bad} ({' '.join(arguments[:1] + arguments[2:])})" if bad else ""


def fuzzed(seconds: int, seed: int) -> tuple[Table, list[str]]:
    """Every target fuzzed for so long, and what went wrong."""
    from fuzz.harness import fuzz

    table = Table(FUZZING, ["target", "what is fuzzed", "executions", "a second", "edges of our code", "findings"])
    wrong = []
    for name in TARGETS:
        found = fuzz(name, seconds, seed)
        table.rows.append([name, found.what, found.executions, f"{found.executions / max(1, found.seconds):.0f}",
                           found.edges, len(found.findings)])  # fmt: skip
        wrong += [f"fuzzing {name}: {finding}" for finding in found.findings]
        print(found, flush=True)
    table.notes.append(
        "Edges: branches of Accord's own Python that were reached; libraries are not counted. A finding is an"
        " exception that is no sentence, an answer of the server with status 500, or a wrong result."
    )
    return table, wrong


PARTS = ("cases", "generated", "fuzz")


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--number", type=int, default=1000, help="of inputs that are generated")
    options.add_argument("--seconds", type=int, default=300, help="for each target of the fuzzer")
    options.add_argument("--seed", type=int, default=1, help="of what is generated and fuzzed")
    options.add_argument("--only", nargs="+", default=PARTS, choices=PARTS, help="the results of the others stay")
    given = options.parse_args()
    before = json.loads(RESULT.read_text()) if set(given.only) < set(PARTS) and RESULT.exists() else {}
    parts: dict[str, tuple[str, list[Table]]] = {}
    wrong: list[str] = []
    for part, how in zip(PARTS, before.get("how", []), strict=False):  # as they were, and from when they are
        own = [Table(**table) for table in before["tables"] if _part(table["title"]) == part]
        for table in own:
            table.made = table.made or before["made"]
        parts[part] = how, own
    if "cases" in given.only:
        tables, wrong = cases()
        parts["cases"] = HOW_CASES.format(number=sum(map(len, GROUPS.values())), wrong=len(wrong)), tables
    if "generated" in given.only:
        table, found = generated(given.number, given.seed)
        parts["generated"] = HOW_GENERATED.format(number=f"{given.number:,}", wrong=len(found)), [table]
        wrong += found
    if "fuzz" in given.only:
        table, found = fuzzed(given.seconds, given.seed)
        parts["fuzz"] = HOW_FUZZED.format(seconds=given.seconds, wrong=len(found)), [table]
        wrong += found
    known = [parts[part] for part in PARTS if part in parts]
    all_tables = [table for _, own in known for table in own]
    Found("Hostile and broken input", [how for how, _ in known], all_tables, made=stamp(given.seed)).write("inputs")
    for text in wrong:
        print(f"wrong: {text}", file=sys.stderr)
    return 1 if wrong else 0


def _part(title: str) -> str:
    return {GENERATED: "generated", FUZZING: "fuzz"}.get(title, "cases")


if __name__ == "__main__":
    sys.exit(main())
