"""Logs larger than memory, measured: generated, prepared, trained on for an epoch; and recommendations for all users.

    python benchmarks/scale_store.py [--rows N --users N --items N] [--folder FOLDER] [STEP ...]

The steps are make, read (pyarrow alone, for comparison), prepare, train (GMF with DeCA, from the store, for an epoch),
run (of a log with a tenth of the users and rows, with as many items) and recommend (to all of them). Each is a process
of its own whose resident memory is watched, and its figures go into benchmarks/scale/store.json. What a step leaves in
FOLDER the next one uses, so that they can be measured one by one.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import reading

RESULTS = Path(__file__).parent / "scale" / "store.json"
PAGE = Path(__file__).parent.parent / "docs" / "scaling.md"
MARK = "<!-- measured: store -->\n"
WATCHED = 0.05  # seconds between two looks at a process
PLAIN = "import pyarrow.parquet as pq, sys; pq.read_table(sys.argv[1])"
FITTED = (
    *("--model", "gmf", "--epochs", "1", "--k", "20", "--set", "train.early_stop=false"),
    # exact Adam changes every row in every step, so the time of an epoch grows with the number of steps
    *("--set", "train.batch_size=131072"),
    *("--clean", "time>=1657600000"),  # few users are evaluated: that is not what is measured
)
STEPS = ("make", "read", "prepare", "train", "run", "recommend")


def watched(command: list[str]) -> dict[str, Any]:
    """Run a command; its seconds, its peak of resident memory, and how much of that is files."""
    began, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    process = subprocess.Popen(command)
    peak: dict[str, int] = {"VmHWM": 0, "VmRSS": 0, "RssAnon": 0, "RssFile": 0}
    most_own = 0
    while process.poll() is None:
        now = memory_of(process.pid)
        if now.get("VmRSS", 0) > peak["VmRSS"]:
            peak = now
        most_own = max(most_own, now.get("RssAnon", 0))
        high = max(now.get("VmHWM", 0), peak["VmHWM"])
        peak["VmHWM"] = high
        time.sleep(WATCHED)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {process.returncode}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "seconds": round(time.perf_counter() - began, 1),
        "cpu_seconds": round(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, 1),
        "resident_bytes": peak["VmHWM"],
        "own_bytes_at_peak": peak["RssAnon"],
        "file_bytes_at_peak": peak["RssFile"],
        "most_own_bytes": most_own,
    }


def memory_of(pid: int) -> dict[str, int]:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return {}
    kept = ("VmHWM", "VmRSS", "RssAnon", "RssFile")
    return {
        name: int(value.split()[0]) * 1024 for name, _, value in (line.partition(":") for line in lines) if name in kept
    }


def accord(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "accord", *arguments]


def size_of(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def table(results: dict[str, Any]) -> str:
    """The figures as docs/scaling.md shows them; GB are 10^9 bytes."""
    rows, users = results["shape"]["rows"], results["shape"]["users"]
    lines = ["| what | resident at most | of that, files | bound | CPU time |", "|---|---|---|---|---|"]
    plain = results["read"]["cpu_seconds"]
    prepared = f"`accord data prepare`, `--memory {results['prepare']['memory']}`"
    for step, what, bound in (
        ("read", f"pyarrow alone reads the file ({rows:,} rows)", None),
        ("prepare", prepared, 6),
        ("train", "`accord train` from the store: an epoch of GMF with DeCA, the test, the report", 8),
        ("recommend", f"`accord recommend --all`, {users // 10:,} users", 4),
    ):
        if step not in results:
            continue
        found = results[step]
        resident, of_files = found["resident_bytes"] / 1e9, found["file_bytes_at_peak"] / 1e9
        verdict = "" if bound is None else f"{bound} GB, {'met' if resident <= bound else '**missed**'}"
        seconds = f"{found['cpu_seconds']:,.0f} s"
        if step == "prepare":
            seconds += f", {found['cpu_seconds'] / plain:.1f} times the plain read"
        lines.append(f"| {what} | {resident:.2f} GB | {of_files:.2f} GB | {verdict} | {seconds} |")
    return "\n".join(lines) + "\n"


def fill(page: Path, results: dict[str, Any]) -> None:
    text = page.read_text(encoding="utf-8")
    start, end = text.index(MARK) + len(MARK), text.index("<!-- end -->", text.index(MARK))
    page.write_text(text[:start] + table(results) + text[end:], encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("steps", nargs="*", metavar="STEP", help=f"of {', '.join(STEPS)} (all)")
    parser.add_argument("--rows", type=int, default=100_000_000)
    parser.add_argument("--users", type=int, default=2_000_000)
    parser.add_argument("--items", type=int, default=100_000)
    parser.add_argument("--memory", default="2GB", help="of prepare")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "accord-scale")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--page", action="store_true", help="measure nothing, but write the figures into the page")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    results: dict[str, Any] = json.loads(given.results.read_text()) if given.results.exists() else {}
    shape = {"rows": given.rows, "users": given.users, "items": given.items}
    if results.get("shape") != shape:
        results = {"shape": shape, "cores": os.cpu_count()}
    for step in () if given.page else given.steps or STEPS:
        results[step] = measured(step, given)
        given.results.parent.mkdir(exist_ok=True)
        given.results.write_text(json.dumps(results, indent=1) + "\n")
        print(step, json.dumps(results[step]), flush=True)
    if given.results == RESULTS:
        fill(PAGE, results)


def measured(step: str, given: argparse.Namespace) -> dict[str, Any]:
    folder = given.folder
    log, store, fewer = folder / "log.parquet", folder / "store", folder / "fewer"
    if step == "make":
        reading.write_log(log, given.rows, given.users, given.items, False)
        return {"file_bytes": log.stat().st_size}
    if step == "read":
        return watched([sys.executable, "-c", PLAIN, str(log)])
    if step == "prepare":
        shutil.rmtree(store, ignore_errors=True)
        figures = watched(accord("data", "prepare", str(log), "--out", str(store), "--memory", given.memory))
        return figures | {"memory": given.memory, "store_bytes": size_of(store)}
    if step == "train":
        shutil.rmtree(store / "splits", ignore_errors=True)
        shutil.rmtree(folder / "run", ignore_errors=True)
        return watched(accord("train", str(store), "--method", "deca", *FITTED, "--out", str(folder / "run")))
    if step == "run":
        shutil.rmtree(fewer, ignore_errors=True)
        fewer.mkdir()
        reading.write_log(fewer / "log.parquet", given.rows // 10, given.users // 10, given.items, False)
        subprocess.run(accord("data", "prepare", str(fewer / "log.parquet"), "--out", str(fewer / "store")), check=True)
        return watched(
            accord("train", str(fewer / "store"), "--method", "normal", *FITTED, "--out", str(fewer / "run"))
        )
    lists = fewer / "lists.parquet"
    lists.unlink(missing_ok=True)
    figures = watched(accord("recommend", str(fewer / "run"), "--all", "--out", str(lists)))
    return figures | {"users": given.users // 10, "items": given.items, "file_bytes": lists.stat().st_size}


if __name__ == "__main__":
    main()
