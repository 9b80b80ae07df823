"""What each compiled loop of the CPU is worth, on a path that users take: `python benchmarks/kernels.py [--rounds 5]`.

Every case runs with the loops and without them (plain torch, numpy and scipy, which define what they compute) in turn,
in one process and with one thread: CPU seconds, the fastest of the rounds. Lines go to kernels.jsonl, and `page.py`
shows them. MovieLens-100k is read from the folder that ACCORD_DATA names."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch
import when

import accord
from accord.data.interactions import Dataset
from accord.evaluation.ranking import Ranker
from accord.kernels import cpu, inverse
from accord.methods.base import Method
from accord.training.plan import plan
from accord.training.stack import train_stack
from data import generated

RESULTS = Path(__file__).with_name("kernels.jsonl")
CPU = torch.device("cpu")
TOP, SIZE = 20, 4000
MEMBERS = [{"model": name, "weight": 1.0} for name in ("ease", "item-knn", "ials", "graph-filter")]


def trained(data: Dataset, model: str, method: str = "normal", **options: Any) -> Method:
    given = {name.replace("__", "."): value for name, value in options.items()}
    learned = {"epochs": 2} if method != "normal" or model == "mf" else {}
    if learned:
        given["train.early_stop"] = False
    return train_stack(data, plan(data, model, method, options=given, **learned), CPU)[0]


def ranked(data: Dataset, method: Method) -> None:
    rows = data.csr(data.train)
    ranker = Ranker.of(method.target, method.score_all, 1, rows, rows, accord.CORRECTED, CPU)
    for _ in ranker.rank(np.flatnonzero(rows.counts), TOP):
        pass


def made(pairs: int, users: int, items: int) -> Dataset:
    rows = generated(pairs, users, items)
    return accord.load(pa.table(dict(zip(("user", "item"), rows, strict=True))), ratios=(1, 0, 0))


def inverted(gram: Any) -> None:
    if cpu.compiled():
        inverse.sweep(gram.copy())
    else:
        table = torch.from_numpy(gram)
        torch.cholesky_inverse(torch.linalg.cholesky(table))


def cases() -> dict[tuple[str, str], Callable[[], Any]]:
    """What is timed, by the loops that it takes and the path."""
    small, wide = accord.load("ml-100k"), made(400_000, 20_000, 20_000)
    many = made(400_000, 200_000, 20_000)
    vote = accord.fit(small, "consensus", options={"model.members": MEMBERS}, refit=False, device="cpu").method
    knn, by_user, vectors = (
        trained(small, "item-knn"),
        trained(small, "user-knn"),
        trained(wide, "ials", model__iterations=1),
    )
    rng = np.random.default_rng(0)
    x = rng.standard_normal((SIZE, SIZE)).astype(np.float32)
    gram = x @ x.T + SIZE * np.eye(SIZE, dtype=np.float32)
    return {
        ("dot products of rows", "two epochs of MF"): lambda: trained(small, "mf"),
        ("dot products of rows", "two epochs of GMF with DeCA"): lambda: trained(small, "gmf", "deca"),
        ("rows in the decoupled Adam", "two epochs of MF with 200,000 users"): lambda: trained(many, "mf"),
        ("best items", "the 20 best of 20,000 items, iALS"): lambda: ranked(wide, vectors),
        ("standardised votes", "scores of a consensus of four"): lambda: ranked(small, vote),
        ("conjugate gradients", "fitting iALS"): lambda: trained(small, "ials"),
        ("nearest items", "fitting item-knn"): lambda: trained(small, "item-knn"),
        ("sums over histories", "recommending by item-knn"): lambda: ranked(small, knn),
        ("nearest users", "recommending by user-knn"): lambda: ranked(small, by_user),
        ("ridges of neighbours", "fitting sparse-ease"): lambda: trained(small, "sparse-ease"),
        ("inverse in blocks, against LAPACK", "EASE of 4,000 items"): lambda: inverted(gram),
    }


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rounds", type=int, default=5)
    rounds = options.parse_args().rounds
    torch.set_num_threads(1)
    on = {"on": when.processor(), "torch": torch.__version__, "rounds": rounds, **when.measured()}
    lines = []
    for (loops, path), work in cases().items():
        seconds: dict[bool, list[float]] = {False: [], True: []}
        for _ in range(rounds + 1):
            for without in (False, True):
                with cpu.left_out(without):
                    began = time.process_time()
                    work()
                    seconds[without].append(time.process_time() - began)
        took = {name: round(min(seconds[without][1:]), 4) for name, without in (("with", False), ("without", True))}
        lines.append({"loops": loops, "path": path, **took, **on})
        print(json.dumps(lines[-1]), flush=True)
    RESULTS.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")


if __name__ == "__main__":
    main()
