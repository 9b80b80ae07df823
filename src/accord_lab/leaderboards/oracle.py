"""EASE trained with the ratings, which no method gets: what a perfect denoiser could gain on that model."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from accord.comparing.compare import Request
from accord.data.interactions import Dataset
from accord.evaluation.evaluate import Evaluation, Relevant, evaluate
from accord.evaluation.ranking import Ranker
from accord.models.ease import item_weights
from accord.protocol import PRESETS, Protocol
from accord.training.run import recorded_rules
from accord_lab.names import ORACLE, Floats


def preset_rules(name: str) -> dict[str, Any]:
    """The rules of a preset as results have them, for a small log without times."""
    return recorded_rules(PRESETS[name].model_copy(update={"test_history": "train", "optimiser": "adam"}))


@dataclass(frozen=True)
class OracleSettings:
    """The weight of a rating of 1, 2, …, and the ridge penalty: the best on the test, since this is a ceiling."""

    weights: tuple[float, ...]
    l2: float


SETTINGS = {
    "ml-100k": OracleSettings((-0.5, -0.25, 0.25, 0.7, 1.0), 200.0),
    "modcloth": OracleSettings((0.0, 0.1, 0.3, 0.7, 1.0), 2000.0),
}


def oracle_line(request: Request, ks: tuple[int, ...]) -> dict[str, Any] | None:
    """The line of results of EASE with the ratings; None for a dataset without settings or ratings."""
    data, rules = request.data, PRESETS[request.protocol]
    settings = SETTINGS.get(data.name)
    if settings is None or not data.train.has_value:
        return None
    began = time.perf_counter()
    weights = np.array(settings.weights)[data.train.column("value").astype(np.int64) - 1]
    evaluation = evaluate_weighted_ease(data, weights, settings.l2, Relevant.of_test(data, rules), rules, ks)
    groups = {"warm": evaluation.warm, "cold": ~evaluation.warm}
    return {
        "dataset": data.name,
        "data": request.fingerprint,
        "model": ORACLE,
        "method": "none",
        "seed": 0,
        "protocol": preset_rules(rules.name),
        "settings": {"model.l2": settings.l2, "model.weights": list(settings.weights)},
        "metrics": evaluation.mean()[0],
        "epochs": 0,
        "seconds": round(time.perf_counter() - began, 3),
        "valid_ndcg@20": None,
        "device": "cpu",
        "groups": {name: evaluation.mean(users)[0] if users.any() else {} for name, users in groups.items()},
    }


def evaluate_weighted_ease(
    data: Dataset, weights: Floats, l2: float, relevant: Relevant, rules: Protocol, ks: Sequence[int]
) -> Evaluation:
    """Evaluate EASE with a weight for every training interaction, [n] in the order of the rows.
    The weights are used everywhere: in the matrix that is regressed, in the users' histories, and in the popularity
    that ranks items for users whose weights are all 0. Items of a history are never recommended, whatever their weight.
    """
    users, items = data.rows(data.train)
    x: Any = sp.csr_matrix((weights, (users, items)), shape=(len(data.users), len(data.items)))
    item_item = item_weights(x, l2)
    popular = np.asarray(x.sum(0)).ravel()
    empty = np.asarray(abs(x).sum(1)).ravel() == 0

    def score_all(rows: Tensor) -> Tensor:
        block = rows.numpy()
        scores = np.where(empty[block, None], popular, x[block] @ item_item)
        return torch.from_numpy(scores.astype(np.float32)).unsqueeze(0)

    rules = rules.model_copy(update={"cold_users": "model"})  # cold users are among the empty ones
    train = data.csr(data.train)
    ranker = Ranker(score_all, 1, relevant.seen, train, rules, torch.device("cpu"), scores_are_logits=False)
    return evaluate(ranker, relevant, ks)
