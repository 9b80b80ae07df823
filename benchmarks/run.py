"""Everything that docs/performance.md shows about the CPU, measured in one run: `make bench`.

    python benchmarks/run.py [--huge] [--rounds N] [--only PART ...] [--results FILE]

Each part is written to the results as soon as it is finished, with the load of the machine before and after it, so a
part can be measured again alone. Afterwards the page and its plots are written from the results.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lists
import page
import reaching
import solved
import start
import torch
import two_cores
import when
from turn import in_turn, working

import data

RESULTS = Path(__file__).with_name("results.json")
Found = dict[str, Any]
# part: the case that every library gets, and the libraries besides ours
PEERS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "neumf": ({"model": "neumf", "dim": 32, "batch": 2048}, ["recbole", "cornac", "products"]),
    "lightgcn-64": ({"model": "lightgcn", "dim": 64, "batch": 2048}, ["recbole", "cornac", "products"]),
    "lightgcn-32": ({"model": "lightgcn", "dim": 32, "batch": 1024}, ["recbole", "cornac", "products"]),
    "gmf": ({"model": "gmf", "dim": 32, "batch": 2048}, ["cornac"]),
    "cdae": ({"model": "cdae", "dim": 32, "batch": 256}, ["recbole"]),
    "mf": ({"model": "mf", "dim": 32, "batch": 2048}, ["implicit"]),
}
SCRIPTS = {"ours": "ours", "products": "products", "recbole": "recbole_", "cornac": "cornac_", "implicit": "implicit_"}
QUICK = ("lightgcn-64", "lightgcn-32", "gmf", "cdae", "mf")  # milliseconds need more turns than seconds
STACKS = (1, 2, 4, 8, 16)
SIZES = (10**5, 10**6, 10**7)
STEPS = 150  # of an epoch, where it has more and all of them would take minutes
FIXED = 50_000, 20_000  # users and items, where they do not grow with the log
COPIED = 2**27  # floats: far more than any cache holds


def peers(part: str, rounds: int, folder: Path) -> Found:
    case, others = PEERS[part]
    name, users, items = data.ml_100k()
    pairs = data.write(folder / "pairs.npz", users, items)
    scripts = {library: (SCRIPTS[library], case) for library in ("ours", *others)}
    with working(scripts, pairs) as workers:
        found = in_turn(workers, ("epoch", "rank"), 3 * rounds if part in QUICK else rounds)
    return {"data": name, "pairs": len(users), "case": case, "libraries": found}


def stack(rounds: int, folder: Path) -> Found:
    """With one thread, and with one for each core: the runs of a stack are shared out."""
    name, users, items = data.ml_100k()
    pairs = data.write(folder / "pairs.npz", users, items)
    case = {"model": "gmf", "method": "deca", "dim": 32, "batch": 2048}
    scripts = {str(runs): ("ours", case | {"runs": runs}) for runs in STACKS}
    found: Found = {"data": name, "case": case}
    for key, threads in (("runs", 1), ("shared", os.cpu_count() or 1)):
        with working(scripts, pairs, threads) as workers:
            found[key] = in_turn(workers, ("epoch",), 2 * rounds)
    return found


def steps_of(pairs: Path, case: Found) -> Found:
    with working({"steps": ("steps", case)}, pairs) as workers:
        return workers["steps"].ask("epoch")


def size(sizes: tuple[int, ...], folder: Path) -> Found:
    case = {"model": "gmf", "batch": 2048, "steps": STEPS}
    found: Found = {"case": case, "growing": [], "fixed": []}
    for number in sizes:
        shapes = {"growing": (number // 50, number // 100), "fixed": FIXED}
        for kind, (users, items) in shapes.items():
            if kind == "fixed" and number > 10**7:
                continue  # most of the cells would be taken
            pairs = data.write(folder / "size.npz", *data.generated(number, users, items), users, items)
            answer = steps_of(pairs, case)
            found[kind].append({"pairs": number, "users": users, "items": items, **answer})
            if kind == "growing":
                options = {"protocol.optimiser": "decoupled"}
                found["growing"][-1]["decoupled"] = steps_of(pairs, case | {"options": options})
            pairs.unlink()
    return found


def bandwidth() -> float:
    """Bytes per second, read and written, of one thread that copies, or scales in place: the best of several.

    A copy may read what it overwrites, too, which is not counted; scaling in place does not.
    """
    torch.set_num_threads(1)
    source, target = torch.ones(COPIED), torch.zeros(COPIED)
    best = 0.0
    for move in [lambda: target.copy_(source), lambda: target.mul_(0.5)] * 5:
        began = time.process_time()  # not the wall's: others may be using the processor
        move()
        best = max(best, 8 * COPIED / (time.process_time() - began))
    return best


def electronics(rounds: int, folder: Path) -> Found:
    """Dense and row by row in turn, with the speed of a copy beside them; then other models, for their memory."""
    pairs = data.write(folder / "electronics.npz", *data.electronics_shape())
    gmf = {"model": "gmf", "batch": 2048}
    found: Found = {"rows": [], "dense": [], "copy": []}
    for number in range(max(1, rounds // 2)):
        found["copy"].append(bandwidth())
        found["rows"].append(steps_of(pairs, gmf | {"steps": 503 if number == 0 and rounds > 1 else STEPS}))
        found["dense"].append(steps_of(pairs, gmf | {"steps": 30, "by_rows": False}))
    found["copy"].append(bandwidth())
    for model in ("lightgcn", "cdae"):
        found[model] = [steps_of(pairs, {"model": model, "batch": 2048, "steps": 5})]
    return found


def machine() -> Found:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    versions = {"torch": torch.__version__, "python": platform.python_version()}
    return {"processor": when.processor(), "cores": os.cpu_count(), "memory": memory, **versions}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--huge", action="store_true", help="the size sweep up to 10^8 interactions; takes 16 GB")
    options.add_argument("--rounds", type=int, default=5, help="turns of each library")
    options.add_argument("--only", nargs="+", default=[], metavar="PART", help="measure these parts again")
    options.add_argument("--results", type=Path, default=RESULTS, help="the page is written only for the default file")
    given = options.parse_args()
    rounds, sizes = given.rounds, (*SIZES, *([10**8] if given.huge else []))
    parts: dict[str, Callable[[Path], Found]] = {
        part: lambda folder, part=part: peers(part, rounds, folder) for part in PEERS
    }
    parts["stack"] = lambda folder: stack(rounds, folder)
    parts["electronics"] = lambda folder: electronics(rounds, folder)
    parts["size"] = lambda folder: size(sizes, folder)
    parts |= {f"solved-{name}": lambda folder, name=name: solved.size(name, folder) for name in solved.SIZES}
    parts["solved-ranking"] = solved.ranking
    parts |= {f"peer-{name}": lambda folder, name=name: solved.peer(name, rounds, folder) for name in solved.PEERS}
    parts["mf-quality"] = lambda folder: reaching.reaching(rounds, folder)
    parts["two-cores"] = two_cores.whole
    parts["lists"] = lambda folder: lists.lists(rounds, folder)
    parts["start"] = start.start
    unknown = set(given.only) - set(parts)
    if unknown:
        options.error(f"no part is called {', '.join(sorted(unknown))}; parts are {', '.join(parts)}")
    results = json.loads(given.results.read_text()) if given.only and given.results.exists() else {}
    for part in given.only or parts:
        if part.startswith("peer-") and not solved.installed(part.removeprefix("peer-")):
            print(f"{part} is left out: its library is not installed beside the other peers")
            continue
        began, load = time.perf_counter(), os.getloadavg()[0]
        with tempfile.TemporaryDirectory() as folder:
            found = parts[part](Path(folder))
        took = time.perf_counter() - began
        rests_on = {"load": [load, os.getloadavg()[0]], "took": took, "machine": machine(), **when.measured()}
        results[part] = found | rests_on
        given.results.write_text(json.dumps(results, indent=1) + "\n")
        print(f"{part}: {took:.0f} s, load {load:.1f} to {os.getloadavg()[0]:.1f}", flush=True)
    if given.results == RESULTS:
        page.main()


if __name__ == "__main__":
    main()
