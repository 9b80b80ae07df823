"""One large run on several ranks: whether the results are those of one process, its memory, its traffic, a killed rank.

    python benchmarks/scale_ranks.py [PART …]     writes benchmarks/scale/ranks.json

Parts: equality, memory, traffic, killed. `scale_ranks_page.py` then writes the tables of docs/records/scaling.md.

The traffic is measured in a network of its own (`unshare`), so that the loopback interface counts nothing else.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa
import torch

import accord
from accord.data.csr import Csr
from accord.data.interactions import Dataset, Interactions
from accord.data.sampling import TrainingPairs
from accord.data.user_shard import sampler_of, shard_of
from accord.fitting import fit_run
from accord.methods.base import Method
from accord.nn.layers import shared_out
from accord.nn.ranks import LARGE_TABLE, Ranks, SeveralRanks, joined
from accord.random import generators
from accord.training.plan import plan
from accord.training.run import RunSpec
from accord.training.stack import train_stack

HERE = Path(__file__).parent
RESULTS = HERE / "scale" / "ranks.json"
DATA, EPOCHS = "ml-100k", 3
SMALL = {"users": 300, "items": 200, "interactions": 8_000, "seed": 1}  # generated
MODELS, METHODS = ("mf", "gmf", "neumf", "cdae", "lightgcn"), ("normal", "deca", "deca-p")
ALSO = [("gmf", "wbpr"), ("gmf", "rce"), ("gmf", "ensemble")]
CASES = [*((model, method) for model in MODELS for method in METHODS), *ALSO]
SOME = [*((model, "deca") for model in MODELS), ("gmf", "deca-p"), ("neumf", "normal")]
RANKS = (1, 2, 4)
BATCH = 2048
SENT = [
    *(("mf", "normal", False), ("gmf", "deca", False), ("neumf", "deca-p", False), ("cdae", "deca", False)),
    ("lightgcn", "normal", False),
    *(("mf", "normal", True), ("gmf", "deca", True)),
]
CPU = torch.device("cpu")
MANY_USERS, FEW_ITEMS, PAIRS = 400_000, 2_000, 2_000_000


def main() -> None:
    parts = sys.argv[1:] or ["equality", "memory", "traffic", "killed"]
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    results["machine"] = {"cores": os.cpu_count(), "torch": torch.__version__, "python": platform.python_version()}
    for part in parts:
        began = time.perf_counter()
        results[part] = globals()[part]()
        results[part]["at"] = datetime.now(UTC).strftime("%Y-%m-%d %H:%M")
        results[part]["seconds"] = round(time.perf_counter() - began, 1)
        RESULTS.write_text(json.dumps(results, indent=1) + "\n")
        print(part, json.dumps(results[part], indent=1))


# --- starting processes


def torchrun(ranks: int, *words: str) -> list[str]:
    return [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(ranks), *words]


def work(task: str, ranks: int, apart: bool = False) -> Any:
    """What rank 0 of this many measured; 0 ranks: one process."""
    with tempfile.TemporaryDirectory() as folder:
        script = [str(Path(__file__).resolve()), "--task", task, folder]
        command = [sys.executable, *script] if ranks == 0 else torchrun(ranks, *script)
        if apart:
            command = ["unshare", "-rn", "sh", "-c", 'ip link set lo up && exec "$@"', "sh", *command]
        subprocess.run(command, check=True, env=quiet(), stderr=subprocess.PIPE)
        return json.loads((Path(folder) / "found.json").read_text())


def quiet() -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}


def task(name: str, folder: Path) -> None:
    torch.set_num_threads(1)
    with joined() as ranks:
        found = globals()[f"task_{name}"](ranks)
        if ranks.rank == 0:
            (folder / "found.json").write_text(json.dumps(found))


# --- equality with one process


def trained(data: Dataset, cases: Sequence[tuple[str, str]], ranks: Ranks) -> dict[str, Any]:
    """Loss and validation of every epoch, figures of the test and the sizes of all tensors, of every case."""
    found = {}
    for model, method in cases:
        made = fit_run(data, plan(data, model, method, epochs=EPOCHS), device="cpu", ranks=ranks)
        if made is not None:
            log = made.history
            found[f"{model} {method}"] = {
                "loss": [loss for entry in log for loss in entry["loss"]],
                "valid": [value for entry in log for value in entry["valid"]],
                "test": made.metrics["mean"],
                "weights": [float(t.double().norm()) for t in made.method.state_dict().values()],
            }
    return found


def task_float64(ranks: Ranks) -> dict[str, Any]:
    torch.set_default_dtype(torch.float64)
    return trained(accord.simulate(**SMALL).dataset, CASES, ranks)


def task_float32(ranks: Ranks) -> dict[str, Any]:
    return trained(accord.load(DATA), SOME, ranks)


def task_nudged(ranks: Ranks) -> dict[str, Any]:
    """One process again, each weight moved by its last bit at the start: how much float32 makes of almost nothing."""
    build = RunSpec.build

    def nudged(self: RunSpec, train: Csr) -> Method:
        method = build(self, train)
        stream = torch.Generator().manual_seed(0)
        with torch.no_grad():
            for weight in method.parameters():
                weight *= 1 + 2**-23 * torch.randint(-1, 2, weight.shape, generator=stream)
        return method

    RunSpec.build = nudged  # type: ignore[method-assign]
    return trained(accord.load(DATA), SOME, ranks)


def equality() -> dict[str, Any]:
    """Of every case and number of ranks, how far the figures are from those of one process."""
    tables = {}
    for kind, numbers in (("float64", RANKS), ("float32", RANKS[1:])):
        alone, rows = work(kind, 0), {}
        found = {str(ranks): work(kind, ranks) for ranks in numbers}
        if kind == "float32":
            found["nudged"] = work("nudged", 0)
        for case, one in alone.items():
            rows[case] = {n: {part: apart(one[part], of[case][part]) for part in one} for n, of in found.items()}
        tables[kind] = rows
    return {"float64": SMALL, "float32": DATA, "epochs": EPOCHS, "largest_relative_difference": tables}


def apart(one: Any, other: Any) -> float:
    """The largest relative difference of two lists or tables of figures."""
    if isinstance(one, dict):
        assert one.keys() == other.keys()
        one, other = list(one.values()), [other[name] for name in one]
    assert len(one) == len(other), "not as many epochs"
    return max(abs(a - b) / max(abs(a), 1e-12) for a, b in zip(one, other, strict=True))


# --- memory


def many_users() -> Dataset:
    draw = np.random.default_rng(0)
    users, items = np.arange(PAIRS) % MANY_USERS, draw.integers(0, FEW_ITEMS, PAIRS)
    whole = Interactions.of(pa.array(users), pa.array(items)).merged(ordered=True)
    empty = whole.take(np.empty(0, dtype=np.int64))
    return Dataset.of("many users", whole, empty, whole.take(np.arange(100)))


def task_memory(ranks: Ranks) -> dict[str, Any]:
    """Bytes of the user tables of GMF with DeCA, the optimiser's state included, and of the whole process."""
    assert isinstance(ranks, SeveralRanks)
    data = many_users()
    options = {"train.early_stop": False, "train.batch_size": 65_536}
    run = plan(data, "gmf", "deca", "corrected", 1, options, 1, [20])
    before = psutil.Process().memory_info().rss
    method, _ = train_stack(data, run, CPU, ranks=ranks)
    rows = sum(method.state_dict()[name].nbytes for name in shared_out(method))
    figures = torch.tensor([rows, before, psutil.Process().memory_info().rss])
    every = ranks.gathered(figures, "memory").tolist()
    return {
        "user_rows": [row[0] for row in every],
        "before": [row[1] for row in every],
        "after": [row[2] for row in every],
    }


def memory() -> dict[str, Any]:
    found = {str(n): work("memory", n) for n in RANKS}
    return {"users": MANY_USERS, "items": FEW_ITEMS, "pairs": PAIRS, "ranks": found}


# --- bytes


def task_traffic(ranks: Ranks) -> dict[str, Any]:
    """Bytes of a step and rank: counted by what is sent, and by the interface; two epochs after a first one."""
    assert isinstance(ranks, SeveralRanks)
    data, found = accord.load(DATA), {}
    for model, method, apart in SENT:
        ranks.large = 0 if apart else LARGE_TABLE
        run = plan(data, model, method, "corrected", 1, {"train.early_stop": False, "train.batch_size": BATCH}, 3, [20])
        moments: list[tuple[int, int]] = []

        def moment(_method: Any, _epoch: int, moments: list[tuple[int, int]] = moments) -> None:
            ranks.from_first("here")
            moments.append((sum(ranks.sent.values()), looped()))

        states = train_stack(data, run, CPU, each_epoch=moment, ranks=ranks)[1]
        steps = states[-1].step // 3 * 2
        counted, fetched = moments[2][0] - moments[0][0], fetched_rows(data, ranks) if apart else 0
        sums = ranks.gathered(torch.tensor([counted, fetched]), "traffic").sum(0).tolist()
        found[f"{model} {method}" + (", items shared out" if apart else "")] = {
            "steps": steps,
            "counted": sums[0] / steps / ranks.size,
            "interface": (moments[2][1] - moments[0][1]) / steps / ranks.size,
            "fetched": sums[1] / steps / ranks.size,
            "sent": {name: list(ranks.shapes[name]) for name in sorted(ranks.sent)},
        }
        ranks.sent.clear()
        ranks.shapes.clear()
    return found


def fetched_rows(data: Dataset, ranks: Ranks) -> int:
    """Different items of this rank's batches that other ranks hold, in the second and third epoch, drawn anew."""
    train = data.csr(data.train)
    part = shard_of(train, ranks.share(train.num_users))
    sampler = sampler_of(part, TrainingPairs.of(part, CPU), generators([2019], "sampling 1/1"), BATCH, "unseen")
    first, size = ranks.share(train.num_items)
    rows = 0
    for epoch in range(3):
        for batch in sampler.epoch():
            items = batch.items.unique()
            rows += int(((items < first) | (items >= first + size)).sum()) * (epoch > 0)
    return rows


def looped() -> int:
    """Bytes that the loopback interface has sent."""
    line = next(line for line in Path("/proc/net/dev").read_text().splitlines() if line.strip().startswith("lo:"))
    return int(line.split()[9])


def shared_elements(model: str, method: str, items: int, dim: int = 32) -> int:
    """Floats of item tables and dense layers whose gradient a step sums."""
    wide = 4 * dim
    mlp = sum((2 * wide // 2**n) * (wide // 2**n) + wide // 2**n for n in range(3))
    of = {
        "mf": items * dim,
        "gmf": items * dim + dim + 1,
        "neumf": items * (dim + wide) + mlp + 2 * dim + 1,
        "cdae": items * (2 * dim + 1) + dim,
    }
    of["lightgcn"] = (2 * 3 + 2) * items * 64  # three layers, forward and back, and the gradient in two steps
    # DeCA trains the target, one of the two corruption networks, and (DeCA(p) does not) the partner: MF each
    return of[model] + {"normal": 0, "deca": 2, "deca-p": 1}[method] * of["mf"]


def formula(model: str, method: str, items: int, ranks: int, fetched: float | None) -> float:
    """Bytes that a rank sends in a step. `fetched`: rows that it asks others for, of each of the networks."""
    if fetched is None:  # a ring: each element goes once round to be summed and once to be handed out
        return 2 * (ranks - 1) / ranks * 4 * shared_elements(model, method, items)
    networks = {"normal": 1, "deca": 3, "deca-p": 3}[method]  # DeCA(p)'s frozen partner only reads
    dense = 2 * (ranks - 1) / ranks * 4 * shared_elements(model, method, 0)
    # a row is asked for by 8 bytes, sent, and its gradient sent back
    return dense + networks * (8 * (ranks - 1) + fetched * (8 + 2 * 4 * 32))


def traffic() -> dict[str, Any]:
    data = accord.load(DATA)
    items, rows = len(data.items), {}
    for ranks in RANKS[1:]:
        for case, found in work("traffic", ranks, apart=True).items():
            assert not any("user" in name for name in found["sent"]), "a row of a user was sent"
            model, method = case.partition(",")[0].split()
            expected = formula(model, method, items, ranks, found["fetched"] if "shared out" in case else None)
            rows.setdefault(case, {})[str(ranks)] = {
                "formula": round(expected), "counted": round(found["counted"]), "interface": round(found["interface"]),
                "interface_over_formula": round(found["interface"] / expected, 4), "sent": found["sent"],
            }  # fmt: skip
    return {"data": DATA, "users": len(data.users), "items": items, "bytes_per_step_and_rank": rows}


# --- a rank that is killed


def killed() -> dict[str, Any]:
    found: dict[str, Any] = {}
    base = Path(tempfile.mkdtemp())
    command = ["train", DATA, "--model", "gmf", "--method", "deca", "--device", "cpu", "--epochs", "40"]
    command += ["--set", "train.early_stop=false", "--set", "train.checkpoint_seconds=0"]
    try:
        whole = base / "whole"
        subprocess.run(
            [sys.executable, "-m", "accord", *command, "--out", whole], check=True, env=quiet(), capture_output=True
        )
        cut = base / "cut"
        job = subprocess.Popen(
            torchrun(4, "-m", "accord", *command, "--out", str(cut)), env=quiet(), stderr=subprocess.PIPE, text=True
        )
        while not list(cut.glob("checkpoint-1.safetensors")):
            time.sleep(0.05)
            assert job.poll() is None, job.stderr and job.stderr.read()
        time.sleep(0.5)
        rank(job.pid, 2).send_signal(signal.SIGKILL)
        began = time.perf_counter()
        printed = job.communicate()[1]
        found["seconds_until_the_job_ended"] = round(time.perf_counter() - began, 2)
        found["said"] = [line for line in printed.splitlines() if line.startswith("accord: ")]
        found["left"] = [path.name for path in cut.iterdir()]
        expected = json.loads((whole / "metrics.json").read_text())["mean"]
        for ranks in (0, 1, 2, 3):
            again = base / f"again-{ranks}"
            shutil.copytree(cut, again)
            start = [sys.executable, "-m", "accord"] if ranks == 0 else torchrun(ranks, "-m", "accord")
            subprocess.run([*start, *command, "--out", again, "--resume"], check=True, env=quiet(), capture_output=True)
            log, one = (
                [json.loads(line) for line in (f / "log.jsonl").read_text().splitlines()] for f in (again, whole)
            )
            assert [entry["epoch"] for entry in log] == list(range(1, 41))
            found[f"resumed at {ranks or 'one process'}"] = {
                "loss": apart([e["loss"][0] for e in one], [e["loss"][0] for e in log]),
                "test": apart(expected, json.loads((again / "metrics.json").read_text())["mean"]),
            }
    finally:
        shutil.rmtree(base)
    return found


def rank(parent: int, number: int) -> psutil.Process:
    """The process of a rank."""
    children = psutil.Process(parent).children(recursive=True)
    return next(child for child in children if child.environ().get("RANK") == str(number))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--task"]:
        task(sys.argv[2], Path(sys.argv[3]))
    else:
        main()
