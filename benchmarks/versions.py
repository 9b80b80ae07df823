"""Two versions of Accord at the same work, in turn: the CPU seconds of whole commands, and whether figures agree.

    python benchmarks/versions.py ../accord-0.1.0
    python benchmarks/versions.py --gpu OLD NEW OLD NEW

The argument is another checkout, as `git worktree add ../accord-0.1.0 ab7b994` makes one; both run in this environment.
After --gpu: what `gpu.py` of either printed, in turn on one machine.
"""

from __future__ import annotations

import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

from when import measured

HERE = Path(__file__).parent
RESULTS = HERE / "versions.json"
ROUNDS = 3
TRAIN = ("train", "ml-100k", "--protocol", "corrected", "--device", "cpu", "--overwrite", "--epochs", "10")
CASES: dict[str, tuple[str, ...]] = {
    "MF, T-CE": (*TRAIN, "--model", "mf", "--method", "tce"),
    "GMF, Normal": (*TRAIN, "--model", "gmf", "--method", "normal"),
    "GMF, DeCA": (*TRAIN, "--model", "gmf", "--method", "deca"),
    "GMF, DeCA, three seeds": (*TRAIN, "--model", "gmf", "--method", "deca", "--seeds", "3"),
    "GMF, DeCA(p)": (*TRAIN, "--model", "gmf", "--method", "deca-p"),
    "NeuMF, DeCA": (*TRAIN, "--model", "neumf", "--method", "deca"),
    "CDAE, Normal": (*TRAIN, "--model", "cdae", "--method", "normal"),
    "LightGCN, DeCA": (*TRAIN, "--model", "lightgcn", "--method", "deca"),
    "EASE": ("train", "ml-100k", "--protocol", "corrected", "--device", "cpu", "--overwrite", "--model", "ease"),
}
AFTER = {"evaluate": ("evaluate",), "recommend to all": ("recommend", "--all", "--k", "20")}  # of the last run


def _can_refit(source: Path) -> bool:
    said = subprocess.run(
        [sys.executable, "-m", "accord", "train", "--help"], env=_environment(source), capture_output=True, text=True
    )
    return "--no-refit" in said.stdout


def _environment(source: Path) -> dict[str, str]:
    return os.environ | {"PYTHONPATH": str(source / "src"), "OMP_NUM_THREADS": "1", "COLUMNS": "200"}


def _cpu_seconds(source: Path, words: tuple[str, ...]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [sys.executable, "-m", "accord", *words], env=_environment(source), capture_output=True, text=True
    )
    if done.returncode:
        raise SystemExit(f"accord {' '.join(words)} of {source} failed:\n{done.stderr[-2000:]}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _figures(run: Path) -> list[dict[str, float]]:
    return [one["metrics"] for one in json.loads((run / "metrics.json").read_text())["runs"]]


def compare(sources: dict[str, Path], folder: Path) -> dict[str, Any]:
    """By case: the CPU seconds of each version, and whether all metrics of all runs are the same numbers."""
    extra = {name: (("--no-refit",) if _can_refit(source) else ()) for name, source in sources.items()}
    found: dict[str, Any] = {case: {name: [] for name in sources} for case in (*CASES, *AFTER)}
    for _ in range(ROUNDS + 1):  # the first fills caches and is not counted
        for case, words in CASES.items():
            for name, source in sources.items():
                out = ("--out", str(folder / name), *extra[name])
                found[case][name].append(_cpu_seconds(source, (*words, *out)))
            old, new = (_figures(folder / name) for name in sources)
            found[case]["same metrics"] = found[case].get("same metrics", True) and bool(old) and old == new
        for case, (word, *options) in AFTER.items():
            for name, source in sources.items():
                out = ("-o", str(folder / f"{name}.csv")) if word == "recommend" else ()
                found[case][name].append(_cpu_seconds(source, (word, str(folder / name), *options, *out)))
    for seconds in found.values():
        for name in sources:
            seconds[name] = [round(one, 3) for one in seconds[name][1:]]
    return found


def main(other: str) -> None:
    sources = {"old": Path(other).resolve(), "new": HERE.parent}
    commit = subprocess.run(
        ["git", "rev-parse", "--short=7", "HEAD"], cwd=sources["old"], capture_output=True, text=True, check=True
    )
    with tempfile.TemporaryDirectory() as folder:
        cases = compare(sources, Path(folder))
    kept = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    machine = f"{platform.machine()}, {os.cpu_count()} cores"
    made = kept | {**measured(), "old_commit": commit.stdout.strip(), "machine": machine, "cases": cases}
    RESULTS.write_text(json.dumps(made, indent=1) + "\n")
    for case, seconds in cases.items():
        old, new = (median(seconds[name]) for name in sources)
        same = {True: "same metrics", False: "OTHER METRICS", None: ""}[seconds.get("same metrics")]
        print(f"{case:24} old {old:6.2f} new {new:6.2f} CPU s, {new / old:.2f} times  {same}")


def take_gpu(files: list[str]) -> None:
    """Keep the seconds of training that both versions printed on a GPU."""
    cases: dict[str, dict[str, list[float]]] = {}
    made: dict[str, Any] = {}
    for place, file in enumerate(files):
        for text in Path(file).read_text(encoding="utf-8").splitlines():
            line = json.loads(text) if text.startswith("{") else {}  # the first line of 0.1.0's is plain text
            if "device" in line:
                made = line
            if "case" in line:
                found = cases.setdefault(line["case"], {"old": [], "new": []})
                found["new" if place % 2 else "old"].append(line["train"])
    kept = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    RESULTS.write_text(json.dumps(kept | {"gpu": {**made, "cases": cases}}, indent=1) + "\n")


if __name__ == "__main__":
    if sys.argv[1] == "--gpu":
        take_gpu(sys.argv[2:])
    else:
        main(sys.argv[1])
