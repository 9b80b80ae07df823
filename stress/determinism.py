"""The same seed, the same bits: every model with every method, trained again in other processes.

    python stress/determinism.py                  on a CPU, with one thread, again, and with two; --models: parts of it
    python stress/determinism.py --device cuda    with --deterministic, again, and as usual: what it costs

A case is trained as one run and as a stack of three. Weights, metrics, lists and the probabilities of noise are
compared by their sha256. Exits with 1 where bits differ that must not.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

from record import RESULTS, Found, Table, stamp, table_as_text

LEARNED = ("mf", "gmf", "neumf", "cdae", "lightgcn")
CLOSED = ("popularity", "ease", "sparse-ease", "ials", "item-knn", "user-knn", "graph-filter", "auto")
METHODS = ("normal", "wbpr", "tce", "rce", "dcf", "udt", "pld", "eard", "ensemble", "deca", "deca-p")
STACKS = (1, 3)
SIZES = {"cpu": (600, 500, 30_000), "cuda": (1_000, 1_700, 100_000)}  # users, items, interactions
EPOCHS = {"cpu": 2, "cuda": 5}
SEED = 3  # of the data
OPTIONS = {"train.batch_size": 2048}  # large enough that torch shares its operations out
PARTS = ("weights", "metrics", "lists", "noise")
CPU_WORKERS = {"1 thread": 1, "1 thread, again": 1, "2 threads": 2}
CUDA_WORKERS = {"deterministic": True, "deterministic, again": True, "usual": False}
Case = tuple[str, str, int]


def cases(models: tuple[str, ...] = LEARNED, methods: tuple[str, ...] = METHODS) -> Iterator[Case]:
    yield from ((model, method, runs) for model in models for method in methods for runs in STACKS)


# --- in a process of its own


def digest(*parts: Any) -> str:
    made = hashlib.sha256()
    for part in parts:
        made.update(part if isinstance(part, bytes) else json.dumps(part).encode())
    return made.hexdigest()[:16]


def trained(data: Any, case: Case, device: str) -> dict[str, Any]:
    """Train a case, and say what came of it in hashes."""
    import accord

    model, method, runs = case
    closed = model in CLOSED
    made = accord.fit(
        data, model, method, seeds=runs, epochs=EPOCHS[device], device=device, options={} if closed else OPTIONS
    )
    weights = [made.method.state_dict()[name].cpu().numpy().tobytes() for name in sorted(made.method.state_dict())]
    figures = [made.metrics["mean"], *(run["metrics"] for run in made.metrics["runs"]), *_losses(made.history)]
    lists = made.recommend(k=20)
    beliefs = b"" if closed else made.beliefs(data.train).column("belief").to_numpy().tobytes()
    return {
        "weights": digest(*weights),
        "metrics": digest(*figures),
        "lists": digest(lists.column("item").to_pylist(), lists.column("score").to_numpy().tobytes()),
        "noise": digest(beliefs),
        "seconds": sum(run["train_seconds"] for run in made.metrics["runs"]),
    }


def _losses(history: list[dict[str, Any]]) -> list[Any]:
    return [[entry["loss"], entry.get("valid")] for entry in history]


def audited(data: Any, device: str) -> dict[str, Any]:
    """The same of an audit."""
    import accord

    log = accord.Interactions(data.train.table.select(["user", "item"])).table
    made = accord.audit(log, seeds=1, device=device)
    said = {key: made.summary[key] for key in ("noise", "verdict", "detection")}
    return {"summary": digest(said), "p_real": digest(made.interactions.column("p_real").to_numpy().tobytes())}


def work(device: str, deterministic: bool, wanted: list[Case], with_audit: bool) -> None:
    """Train every case and print a line of JSON for each. On CUDA twice: the first time compiles."""
    import accord

    if deterministic:
        accord.deterministic()
    users, items, interactions = SIZES[device]
    data = accord.simulate(users=users, items=items, interactions=interactions, seed=SEED).dataset
    for case in wanted:
        first = trained(data, case, device)
        second = trained(data, case, device) if device == "cuda" else first
        repeats = all(first[part] == second[part] for part in PARTS)
        print(json.dumps({"case": case, "found": second, "repeats": repeats}), flush=True)
    if with_audit:
        print(json.dumps({"case": ["audit", "", 1], "found": audited(data, device), "repeats": True}), flush=True)


# --- from outside


def run_worker(device: str, name: str, wanted: list[Case], with_audit: bool) -> dict[Case, dict[str, Any]]:
    """What a new process finds of every case."""
    command = [sys.executable, __file__, "--device", device, "--work", json.dumps(wanted)]
    command += ["--deterministic"] if CUDA_WORKERS.get(name) else []
    command += ["--audit"] if with_audit else []
    environment = os.environ | ({"OMP_NUM_THREADS": str(CPU_WORKERS[name])} if device == "cpu" else {})
    found = {}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            answer = json.loads(line)
            found[tuple(answer["case"])] = answer["found"] | {"repeats": answer["repeats"]}
            print(f"{name}: {' '.join(str(part) for part in answer['case'])}", flush=True)
    if process.returncode:
        raise SystemExit(f"the worker '{name}' ended with {process.returncode}")
    return found


def same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return all(other.get(key) == value for key, value in one.items() if key not in ("seconds", "repeats"))


def verdicts(found: dict[str, dict[Case, dict[str, Any]]], must: list[str]) -> dict[Case, bool]:
    """Whether a case gave the same bits in every worker of `must`."""
    first, *others = must
    return {
        case: answer["repeats"] and all(same(answer, found[other][case]) for other in others)
        for case, answer in found[first].items()
    }


def grid(title: str, good: dict[Case, bool]) -> Table:
    """Models by methods: 'identical' where both the run alone and the stack of three gave the same bits."""
    methods = list(dict.fromkeys(method for model, method, _ in good if model in LEARNED))
    table = Table(title, ["", *methods])
    for model in dict.fromkeys(model for model, *_ in good if model in LEARNED):
        row = [[good[case] for case in good if case[:2] == (model, method)] for method in methods]
        table.rows.append([model, *("identical" if all(one) else "**differs**" for one in row)])
    others = [model for model, *_ in good if model not in LEARNED]
    if others:
        bad = [model for model in others if not all(ok for case, ok in good.items() if case[0] == model)]
        said = "identical" if not bad else f"**different: {', '.join(bad)}**"
        table.notes.append(f"Besides these, {', '.join(dict.fromkeys(others))}: {said}.")
    return table


def on_cpu(wanted: list[Case]) -> tuple[Found, bool]:
    whole = {case[0] for case in wanted} >= {*LEARNED, *CLOSED}
    found = {name: run_worker("cpu", name, wanted, whole) for name in CPU_WORKERS}
    good = verdicts(found, list(CPU_WORKERS))
    users, items, interactions = SIZES["cpu"]
    how = [
        f"`python stress/determinism.py`: {users} users, {items} items, {interactions:,} generated interactions, "
        f"{EPOCHS['cpu']} epochs; every case as one run and as a stack of three, in a process with one thread, in "
        "another with one thread and in another with two.",
        "Compared by sha256: all weights, all metrics, losses and validation values, every user's list with its "
        "scores, and the probability of every training interaction; of the audit its table and its summary.",
    ]
    table = grid("Over processes and threads", good)
    if not whole:  # some models again, the others as they were
        before = json.loads((RESULTS / "determinism.json").read_text(encoding="utf-8"))["tables"][0]
        again = {row[0]: row for row in table.rows}
        table = Table(table.title, table.heads, [again.get(row[0], row) for row in before["rows"]], before["notes"])
    return Found("The same bits twice, on a CPU", how, [table, cost_table()], made=stamp(SEED)), all(good.values())


def on_cuda(wanted: list[Case]) -> tuple[Found, bool]:
    found = {name: run_worker("cuda", name, wanted, False) for name in CUDA_WORKERS}
    good = verdicts(found, ["deterministic", "deterministic, again"])
    usual, exact = found["usual"], found["deterministic, again"]
    table = Table("What --deterministic costs", ["model", "method", "usual, s", "deterministic, s", "times as long"])
    for case in (case for case in good if case[2] == STACKS[-1] and case[0] in LEARNED):
        before, after = usual[case]["seconds"], exact[case]["seconds"]
        table.rows.append([*case[:2], f"{before:.3f}", f"{after:.3f}", f"{after / max(before, 1e-9):.1f}"])
    repeated = sum(answer["repeats"] for answer in usual.values())
    table.notes.append(
        f"Training of a stack of three, the second time in a process. As usual, {repeated} of {len(usual)} cases gave "
        "the same bits twice in one process."
    )
    users, items, interactions = SIZES["cuda"]
    command = " ".join(["python stress/determinism.py", *sys.argv[1:]])
    how = [
        f"`{command}`, on {device_name()}: {users:,} users, {items:,} items, "
        f"{interactions:,} generated interactions, {EPOCHS['cuda']} epochs; every case as one run and as a stack of "
        "three, twice in a process and in two processes, compared as on the CPU.",
        f"{sum(good.values())} of {len(good)} cases are the same bit for bit with `--deterministic`.",
    ]
    tables = [grid("With --deterministic, over processes", good), table]
    return Found("The same bits twice, on CUDA", how, tables, made=stamp(SEED)), all(good.values())


def device_name() -> str:
    code = "import torch; print(torch.cuda.get_device_name(), 'with torch', torch.__version__)"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


# --- what it costs on a CPU

PRODUCTS = """
import os, sys, time
if sys.argv[1] == "as they come":
    os.environ["MKL_CBWR"] = ""
import accord
from accord.training.plan import plan
from accord.training.stack import train_stack
import torch
data = accord.simulate(users=600, items=500, interactions=30_000, seed=3).dataset
run = plan(data, "neumf", "normal", "corrected", 1, {"train.batch_size": 2048, "train.early_stop": False}, 3, None)
train_stack(data, run, torch.device("cpu"))
began = time.process_time()
train_stack(data, run, torch.device("cpu"))
print(time.process_time() - began)
"""
INVERSE = """
import sys, time
import accord, numpy as np, torch
from accord.models.ease import _inverse
draws = np.random.default_rng(0).random((4000, 2000)) < 0.03
gram = draws.T.astype(float) @ draws + 500 * np.eye(2000)
began = time.process_time()
if sys.argv[1] == "as they come":
    np.linalg.inv(gram)
else:
    _inverse(torch.from_numpy(gram))
print(time.process_time() - began)
"""


def cost_table(times: int = 3) -> Table:
    """CPU seconds, the least of several: others may be using the machine."""
    table = Table(
        "What that costs", ["", "sums as they come, CPU s", "the same with any number of threads, CPU s", "change"]
    )
    for what, code in (
        ("NeuMF, three epochs, one thread (matrix products)", PRODUCTS),
        ("EASE, 2,000 items, one thread (inverse)", INVERSE),
    ):
        took: dict[str, list[float]] = {"as they come": [], "exact": []}
        for _ in range(times):
            for kind in took:
                command = [sys.executable, "-c", code, kind]
                environment = os.environ | {"OMP_NUM_THREADS": "1"}
                done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
                took[kind].append(float(done.stdout))
        before, after = (min(took[kind]) for kind in ("as they come", "exact"))
        table.rows.append([what, f"{before:.2f}", f"{after:.2f}", f"{after / before - 1:+.0%}"])
    table.notes.append(
        "The least of three; on a machine that others use, repetitions differ by a fifth. Two other sums, of a "
        "gradient in CDAE and of long losses, are taken in order, at no cost."
    )
    return table


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    options.add_argument(
        "--models", nargs="+", default=[*LEARNED, *CLOSED], choices=[*LEARNED, *CLOSED], metavar="MODEL"
    )
    options.add_argument("--methods", nargs="+", default=[*METHODS], choices=METHODS, metavar="METHOD")
    options.add_argument("--work", help=argparse.SUPPRESS)
    options.add_argument("--deterministic", action="store_true", help=argparse.SUPPRESS)
    options.add_argument("--audit", action="store_true", help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.work is not None:
        work(given.device, given.deterministic, [tuple(case) for case in json.loads(given.work)], given.audit)
        return 0
    began = time.perf_counter()
    wanted = [*cases(), *((model, "normal", 1) for model in CLOSED)]
    wanted = [case for case in wanted if case[0] in given.models and (case[0] in CLOSED or case[1] in given.methods)]
    found, good = (on_cpu if given.device == "cpu" else on_cuda)(wanted)
    found.write("determinism" if given.device == "cpu" else "determinism-cuda")
    for table in found.tables:
        print(table_as_text(table))
    print(f"{time.perf_counter() - began:.0f} s")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
