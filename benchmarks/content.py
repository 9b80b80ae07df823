"""Whether attributes of items help to tell noise: AUC of p_real over the interactions without a label, 5% having one
or as many as is said, without attributes and with them; a line in content.jsonl for each of ten draws.

    python benchmarks/content.py MovieTweetings ratings.csv items.csv "rating>=8"     # of shared/data/logs
    python benchmarks/content.py Coat user.csv items.csv "rating>=4" 0.2
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
import when

import accord
from accord.evaluation.noise import auc
from accord.posteriors.estimate import estimate

RESULTS = Path(__file__).with_suffix(".jsonl")
DRAWS = range(10)


def main(name: str, log: str, items: str, rule: str, share: str = "0.05") -> None:
    torch.set_num_threads(1)
    data = accord.load(log, items=items, labels=rule).everything()
    train = data.csr(data.train, columns=("label",))
    label = train.columns["label"]
    for draw in DRAWS:
        given = np.random.default_rng(draw).random(len(label)) < float(share)
        found: dict[str, Any] = {}
        for kind, info in ("without", None), ("with", data.item_info):
            made = estimate(train, np.where(given, label, np.nan), info=info)
            found[kind] = {"auc": auc(made.p_real[~given], label[~given] > 0.5), "used": made.used}
            found[kind] |= {"held_out": made.figures.get("auc"), "penalties": made.figures.get("penalties")}
        line = {"log": name, "rule": rule, "share": float(share), "draw": draw, "labels": int(given.sum()), **found}
        with RESULTS.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line | when.measured()) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
