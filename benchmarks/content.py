"""Whether attributes of items help to tell noise: AUC of p_real over the interactions without a label, 5% having one
or as many as is said, as it is and with attributes among its features; a line in content.jsonl for each of ten draws.

    python benchmarks/content.py MovieTweetings ratings.csv items.csv "rating>=8"     # of shared/data/logs
    python benchmarks/content.py Coat user.csv items.csv "rating>=4" 0.2

What attributes add: the first singular vectors of their tf-idf, of the item, of what else the user has on average, and
the products of the two, each with a penalty that labels choose as they do the others; and the mean cosine with what
else the user has.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
import torch
import when

import accord
from accord.data.attributes import Attributes
from accord.evaluation.noise import auc
from accord.models.histories import interaction_matrix
from accord.posteriors import estimate as estimating
from accord.posteriors.features import FACTORS, Features
from accord.posteriors.leave_one_out import low_rank
from accord.posteriors.logistic import PENALTIES, best_penalties

RESULTS = Path(__file__).with_suffix(".jsonl")
DRAWS = range(10)
Floats = npt.NDArray[np.float64]


class WithContent(Features):
    content: ClassVar[Floats]  # [n, 1 + 3 k] of each interaction

    @classmethod
    def of(cls, *given: Any) -> Features:
        made = Features.of(*given)
        groups = np.repeat([0, 4, 5, 6], [1, *[(cls.content.shape[1] - 1) // 3] * 3])
        return cls(**vars(made) | {"groups": np.append(made.groups, groups)})

    def block(self, rows: npt.NDArray[np.int64]) -> Floats:
        return np.column_stack([super().block(rows), self.content[rows]])


def content_of(x: Any, attributes: Any) -> Floats:
    factors = low_rank(sp.csr_matrix(attributes, dtype=np.float64), FACTORS)
    vectors = factors.user * factors.values
    rows, others = x.nonzero(), np.maximum(np.diff(x.indptr) - 1, 1)[:, None]
    item = vectors[rows[1]]
    user = ((x @ vectors)[rows[0]] - item) / others[rows[0]]
    own = attributes[rows[1]]
    near = own.multiply((x @ attributes)[rows[0]]).sum(1) - own.multiply(own).sum(1)
    near = np.asarray(near).reshape(-1, 1) / others[rows[0]]
    shares = np.minimum(factors.values / factors.values[1], 1)  # the more a factor explains, the more it may tell
    parts = [(near, 1.0), (item, shares), (user, shares), (item * user, shares)]
    return np.column_stack([(part - part.mean(0)) / np.maximum(part.std(0), 1e-12) * share for part, share in parts])


def with_content(*given: Any) -> Any:
    return best_penalties(*given, start=(*PENALTIES[:4], *PENALTIES[1:4], *PENALTIES[4:]))


def main(name: str, log: str, items: str, rule: str, share: str = "0.05") -> None:
    torch.set_num_threads(1)
    data = accord.load(log, items=items, labels=rule).everything()
    train = data.csr(data.train, columns=("label",))
    label = train.columns["label"]
    WithContent.content = content_of(interaction_matrix(train), Attributes.of(data.item_info).matrix)
    for draw in DRAWS:
        given = np.random.default_rng(draw).random(len(label)) < float(share)
        some, found = np.where(given, label, np.nan), {}
        for kind, features, chosen in ("without", Features, best_penalties), ("with", WithContent, with_content):
            estimating.Features, estimating.best_penalties = features, chosen
            made = estimating.estimate(train, some)
            found[kind] = {"auc": auc(made.p_real[~given], label[~given] > 0.5), "used": made.used}
            found[kind] |= {"held_out": made.figures.get("auc"), "penalties": made.figures.get("penalties")}
        line = {"log": name, "rule": rule, "share": float(share), "draw": draw, "labels": int(given.sum()), **found}
        with RESULTS.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line | when.measured()) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
