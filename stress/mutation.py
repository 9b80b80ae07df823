"""Every small change that mutmut can make to the modules that results and safety hang on, and whether tests notice.

make mutation                            all modules
make mutation MUTATION="guard files"     some of them: what is known of the others stays
make mutation MUTATION="--again votes"   as many other changes of those with slow tests, for which no test was written
make mutation MUTATION=--explain         only the result again, after a change of mutation.toml

Each module is changed in a copy of the tree, one change at a time, and only the tests of that module are run; where
these take long, only the short ones, for some of the changes, always the same ones.
What was found goes to results/mutation.json; why a change that no test noticed may stay is said in mutation.toml.
"""

from __future__ import annotations

import ast
import difflib
import json
import math
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from record import Found, Table

ROOT = Path(__file__).resolve().parents[1]
RESULT = ROOT / "stress" / "results" / "mutation.json"
REASONS = ROOT / "stress" / "mutation.toml"
COPIED = ("src", "tests", "stress", "docs", "benchmarks", "README.md", "CHANGELOG.md", "pyproject.toml", "Makefile")
DRAWN, SEED = 40, 0  # of the changes of a module whose tests take long, so many are tried
LONGEST_SECONDS = 2.0  # of a test that is run then
SLOW = (
    "fitting",
    "families",
    "votes",
    "consensus",
    "posteriors",
    "updating",
    "run-folder",
    "labels",
    "databases",
    "label-studies",
)
SURVIVED, NOT_RUN = (0,), (5, 33, 34)  # exit codes of mutmut; all others are of tests that failed, or hung

# What is changed, and the tests that should notice.
MODULES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "metrics": (("evaluation/metrics.py",), ("evaluation/test_metrics.py",)),
    "losses": (
        ("methods/normal.py", "accord_lab/methods/denoising_losses.py", "kernels/agreement.py"),
        (
            "methods/test_normal.py", "lab/methods/test_denoising_losses.py", "lab/methods/test_labels.py",
            "lab/methods/test_dcf.py", "lab/methods/test_noise_rate.py", "methods/test_deca.py",
            "methods/test_labels.py", "kernels/test_agreement.py",
        ),
    ),
    "ranking": (("evaluation/ranking.py",), ("evaluation/test_ranking.py", "evaluation/test_evaluate.py")),
    "tuning": (("accord_lab/comparing/tuning.py",), ("lab/comparing/test_tuning.py",)),
    "significance": (("evaluation/significance.py",), ("evaluation/test_significance.py",)),
    "files": (("io/files.py",), ("io/test_files.py", "io/test_parquet.py")),
    "guard": (("serve/guard.py",), ("serve/test_guard.py",)),
    "sampling": (("data/sampling.py",), ("data/test_sampling.py", "data/test_sampling_draws.py")),
    "splits": (("data/split.py",), ("data/test_split.py",)),
    "checkpoints": (("training/checkpoints.py",), ("training/test_checkpoints.py",)),
    "fitting": (("fitting.py",), ("test_fitting.py",)),
    "families": (("consensus/families.py",), ("consensus/test_families.py",)),
    "votes": (("consensus/votes.py", "models/consensus.py"), ("models/test_consensus.py", "consensus/test_votes.py")),
    "consensus": (
        ("consensus/labels.py", "consensus/members.py", "consensus/search.py", "consensus/training.py"),
        (
            "consensus/test_search.py", "consensus/test_labels.py", "consensus/test_members.py",
            "consensus/test_training.py",
        ),
    ),
    "posteriors": (
        ("posteriors/estimate.py", "posteriors/features.py", "posteriors/leave_one_out.py", "posteriors/logistic.py"),
        (
            "posteriors/test_estimate.py", "posteriors/test_features.py", "posteriors/test_leave_one_out.py",
            "posteriors/test_logistic.py", "posteriors/test_posterior.py",
        ),
    ),
    "labels": (("data/labels.py", "data/rules.py"), ("data/test_labels.py", "data/test_rules.py")),
    "updating": (("recommender/updating.py",), ("recommender/test_updating.py",)),
    "databases": (("data/databases.py",), ("data/test_databases.py",)),
    "run-folder": (("recommender/run_folder.py",), ("recommender/test_run_folder.py",)),
    "label-studies": (
        (
            "accord_lab/labels/draws.py", "accord_lab/labels/shares.py", "accord_lab/labels/study.py",
        ),
        (
            "lab/labels/test_shares.py", "lab/labels/test_draws.py", "lab/labels/test_study.py",
        ),
    ),
}  # fmt: skip


def source_of(file: str) -> str:
    return f"src/{file}" if file.startswith("accord_lab/") else f"src/accord/{file}"


def mutate(name: str, seed: int = SEED) -> dict[str, Any]:
    """The changes of a module: how many, how many were noticed, and those that were not."""
    files, tests = MODULES[name]
    with tempfile.TemporaryDirectory(prefix="mutation-") as place:
        tree = Path(place)
        for one in COPIED:
            copy = shutil.copytree if (ROOT / one).is_dir() else shutil.copyfile
            copy(ROOT / one, tree / one)
        made: dict[str, dict[str, str]] = {}
        for file in files:
            made |= changes(tree, source_of(file))
        longest = LONGEST_SECONDS if name in SLOW else math.inf
        codes = tried(tree, drawn(name, sorted(made), seed), [f"tests/{test}" for test in tests], longest)
    left = [key for key, code in codes.items() if code in (*SURVIVED, *NOT_RUN)]
    return {
        "files": [source_of(file) for file in files],
        "tests": [f"tests/{test}" for test in tests],
        "made": len(made),
        "mutants": len(codes),
        "killed": len(codes) - len(left),
        "survived": [made[key] for key in left],
    }


def drawn(name: str, made: list[str], seed: int = SEED) -> list[str]:
    """The changes of a module that are tried."""
    return random.Random(seed).sample(made, DRAWN) if name in SLOW and len(made) > DRAWN else made


def changes(tree: Path, file: str) -> dict[str, dict[str, str]]:
    """Put all changes of a file into it, each to be switched on by its name, and say what they are."""
    from mutmut.mutation.file_mutation import mutate_file_contents  # which the tests of this module do without
    from mutmut.utils.format_utils import get_mutant_name

    path = tree / file
    made = mutate_file_contents(file, path.read_text(encoding="utf-8"))
    path.write_text(made.code, encoding="utf-8")
    functions = [one for one in ast.walk(ast.parse(made.code)) if isinstance(one, ast.FunctionDef)]
    written = {one.name: "\n".join(made.code.splitlines()[one.lineno - 1 : one.end_lineno]) for one in functions}
    result = {}
    for name in made.mutant_names:
        before = written[f"{name.partition('__mutmut_')[0]}__mutmut_orig"].splitlines()
        after = written[name].replace(name, f"{name.partition('__mutmut_')[0]}__mutmut_orig").splitlines()
        lines = list(difflib.unified_diff(before, after, n=0, lineterm=""))[2:]
        old, new = (" ".join(line[1:].strip() for line in lines if line.startswith(mark)) for mark in "-+")
        function = re.sub(r"^(x_|xǁ)|__mutmut_\d+$", "", name).replace("ǁ", ".")
        result[get_mutant_name(Path(file), name)] = {"function": function, "old": old, "new": new}
    return result


def tried(tree: Path, names: list[str], tests: list[str], longest: float) -> dict[str, int]:
    """How the tests end with each of these changes; of slow ones only those that take so many seconds."""
    asked, answer = tree / "asked.json", tree / "answer.json"
    asked.write_text(json.dumps({"names": names, "tests": tests, "longest": longest}))
    environment = os.environ | {"PYTHONPATH": str(tree / "src"), "OMP_NUM_THREADS": "1"}  # for what tests start, too
    command = [sys.executable, str(ROOT / "stress" / "tries.py"), str(asked), str(answer)]
    ended = subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True)
    if not answer.exists():
        raise RuntimeError(f"the tests could not be run:\n{ended.stdout[-2000:]}{ended.stderr[-2000:]}")
    return dict(json.loads(answer.read_text()))


def reasons(file: Path = REASONS) -> list[dict[str, str]]:
    return list(tomllib.loads(file.read_text(encoding="utf-8"))["reason"])


def why(module: str, change: Mapping[str, str], known: Iterable[Mapping[str, str]]) -> str | None:
    """The reason for which a change that no test noticed may stay; None: there is none yet."""
    for one in known:
        own = one.get("module", module) == module and one.get("function", change["function"]) == change["function"]
        if own and all(re.search(one.get(part, ""), change[part]) for part in ("old", "new")):
            return one["why"]
    return None


def found(record: Mapping[str, Any], known: Iterable[Mapping[str, str]]) -> dict[str, Any]:
    """The result, in the form that the page is written from, with what it was made from."""
    known = list(known)
    counts = Table(
        "Changes, and whether a test fails",
        ("module", "tests", "changes", "tried", "noticed", "share", "explained", "of another draw", "run on, commit"),
    )
    left = Table("Changes that no test notices, by why they may stay", ("module", "why", "changes", "for instance"))
    for name, own in record.items():
        by_reason: dict[str, list[dict[str, str]]] = {}
        for change in own["survived"]:
            by_reason.setdefault(why(name, change, known) or "not explained yet", []).append(change)
        explained = sum(len(changes) for reason, changes in by_reason.items() if reason != "not explained yet")
        tests = ", ".join(Path(test).name for test in own["tests"])
        share = f"{100 * own['killed'] / own['mutants']:.1f} %"
        when = f"{own['date']}, `{own['commit'][:7]}`"
        again = "{killed} of {mutants}".format(**own["again"]) if "again" in own else ""
        counts.rows.append((name, tests, own["made"], own["mutants"], own["killed"], share, explained, again, when))
        for reason, changes in by_reason.items():
            left.rows.append((name, reason, len(changes), f"`{changes[0]['old']}` → `{changes[0]['new']}`"))
    missing = ", ".join(name for name in MODULES if name not in record)
    told = Found(
        "Changes of single operators",
        [
            "Command: `make mutation`. mutmut makes every small change that it knows (another operator, number,",
            "argument, text or branch) in the modules that results and safety hang on, one at a time, and runs the",
            "tests of that module. It leaves functions with a decorator as they are. Of a module with slow tests it",
            f"tries {DRAWN} changes, drawn at random with the seed {SEED}, by the tests that take up to",
            f"{LONGEST_SECONDS:g} s; tests were written for what was not noticed among them, so that their share is",
            f"that of the other changes at best. Another draw, with the seed {SEED + 1}, was tried before any test was",
            "written for it.",
            *([f"Not run yet: {missing}."] if missing else []),
        ],
        [counts, left],
        made=None,
    )
    return asdict(told) | {"record": dict(record)}


def main(names: list[str]) -> None:
    """Change some modules, all if none is named; with `--explain`, only write the result again, with all reasons; with
    `--again`, try another draw."""
    record: dict[str, Any] = json.loads(RESULT.read_text(encoding="utf-8"))["record"] if RESULT.exists() else {}
    again = names[:1] == ["--again"]
    wanted = [] if names == ["--explain"] else names[again:] or list(SLOW if again else MODULES)
    for name in wanted:
        if name not in MODULES:
            sys.exit(f"unknown module '{name}'; choose from {', '.join(MODULES)}.")
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True).stdout.strip()
    for name in wanted:
        began = datetime.now(UTC)
        made = mutate(name, SEED + again)
        made |= {"commit": commit, "date": f"{began:%Y-%m-%d}", "tool": f"mutmut {version('mutmut')}"}
        if again:
            record[name]["again"] = made
        else:
            record[name] = made | {"seconds": round((datetime.now(UTC) - began).total_seconds())}
        _write(record)
        print(f"{name}: {made['killed']} of {made['mutants']} noticed", flush=True)
    _write(record)
    known = reasons()
    for name, own in record.items():
        for change in own["survived"]:
            if why(name, change, known) is None:
                print(f"{name}, {change['function']}, without a reason:\n  - {change['old']}\n  + {change['new']}")


def _write(record: Mapping[str, Any]) -> None:
    ordered = {module: record[module] for module in MODULES if module in record}
    RESULT.write_text(json.dumps(found(ordered, reasons()), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
