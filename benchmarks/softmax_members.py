"""Seconds of training the softmax members of a log, each with the options that `auto` tries first: a line for each log.

    python benchmarks/softmax_members.py DEVICE LOG [LOG ...] >> benchmarks/softmax-members.jsonl

Each is trained twice in one process; the second time counts, the first, with compilation, is beside it.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import replace

import torch

import accord
from accord.consensus.families import plan_search
from accord.models.base import Shape, memory_of


def main(device: str, *logs: str) -> None:
    name = torch.cuda.get_device_name() if device == "cuda" else f"{torch.get_num_threads()} threads"
    for log in logs:
        data = accord.load(log, split="random" if log.endswith(".csv") else "auto")
        shape = replace(Shape.of(data.training_csr()), gpu=device == "cuda")
        families = plan_search(shape, 120, memory=memory_of(torch.device(device))).families
        members = {}
        for family in families:
            if family.method != "softmax":
                continue
            took = []
            for _ in range(2):
                cpu = time.process_time()
                options = dict(family.member().options)
                made = accord.fit(data, family.model, "softmax", options=options, device=device, refit=False, ks=[20])
                took.append((made.metrics["seconds"]["train"], round(time.process_time() - cpu, 1)))
            (run,) = made.metrics["runs"]
            members[family.name] = {
                "first": took[0][0], "later": took[1][0], "cpu": took[1][1], "epochs": run["epochs"],
                "valid_ndcg@20": round(run["valid_ndcg@20"], 4),
            }  # fmt: skip
        print(json.dumps({"log": data.name, "device": name, "members": members}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
