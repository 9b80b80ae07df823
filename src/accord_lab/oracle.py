"""EASE trained with the ratings, which no method gets: what a perfect denoiser could gain on that model."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
import torch
from torch import Tensor

from accord.comparing.compare import Request
from accord.data.interactions import Dataset
from accord.evaluation.evaluate import Evaluation, Relevant, evaluate
from accord.evaluation.ranking import Ranker
from accord.models.ease import item_weights
from accord.protocol import PRESETS, Protocol
from accord.training.run import preset_rules

NAME = "ease-told"


@dataclass(frozen=True)
class Told:
    """The weight of a rating of 1, 2, …, and the ridge penalty: the best found on the test, since it is a ceiling."""

    weights: tuple[float, ...]
    l2: float


TOLD = {
    "ml-100k": Told((-0.5, -0.25, 0.25, 0.7, 1.0), 200.0),
    "modcloth": Told((0.0, 0.1, 0.3, 0.7, 1.0), 2000.0),
}


def ceiling(request: Request, ks: tuple[int, ...]) -> dict[str, Any] | None:
    """The line of results of EASE with the ratings; None where no weights are known for the dataset."""
    data, rules = request.data, PRESETS[request.protocol]
    told = TOLD.get(data.name)
    if told is None or not data.train.has_value:
        return None
    began = time.perf_counter()
    counts = np.array(told.weights)[data.train.column("value").astype(np.int64) - 1]
    evaluation = evaluate_told(data, counts, told.l2, Relevant.of_test(data, rules), rules, ks)
    groups = {"warm": evaluation.warm, "cold": ~evaluation.warm}
    return {
        "dataset": data.name,
        "data": request.fingerprint,
        "model": NAME,
        "method": "none",
        "seed": 0,
        "protocol": preset_rules(rules.name),
        "settings": {"model.l2": told.l2, "model.weights": list(told.weights)},
        "metrics": evaluation.mean()[0],
        "epochs": 0,
        "seconds": round(time.perf_counter() - began, 3),
        "valid_ndcg@20": None,
        "device": "cpu",
        "groups": {name: evaluation.mean(keep)[0] if keep.any() else {} for name, keep in groups.items()},
    }


def evaluate_told(
    data: Dataset, counts: npt.NDArray[np.float64], l2: float, relevant: Relevant, rules: Protocol, ks: Sequence[int]
) -> Evaluation:
    """Of EASE that knows what each training interaction counts for, [n] in the order of the rows.

    It is used everywhere: in the matrix that is regressed, in the users' histories, and in the popularity that ranks
    for users without a history, or without one that counts. Nobody is recommended what they have, counted or not.
    """
    users, items = data.rows(data.train)
    x: Any = sp.csr_matrix((counts, (users, items)), shape=(len(data.users), len(data.items)))
    weight = item_weights(x, l2)
    popular = np.asarray(x.sum(0)).ravel()
    empty = np.asarray(abs(x).sum(1)).ravel() == 0

    def score_all(rows: Tensor) -> Tensor:
        block = rows.numpy()
        scores = np.where(empty[block, None], popular, x[block] @ weight)
        return torch.from_numpy(scores.astype(np.float32)).unsqueeze(0)

    own_popularity = rules.model_copy(update={"cold_users": "model"})  # cold users are among the empty ones
    train = data.csr(data.train)
    ranker = Ranker(score_all, 1, relevant.seen, train, own_popularity, torch.device("cpu"), scores_are_logits=False)
    return evaluate(ranker, relevant, ks)
