"""What every run of a recommender says about given pairs of users and items."""

from __future__ import annotations

import numpy as np
import torch

from accord.data.csr import Rows
from accord.recommender.recommender import Recommender
from accord_lab.names import Floats

PAIRS_AT_ONCE = 1_000_000  # over all runs; for a solved model, scores of users times items


def pair_scores(trained: Recommender, users: Rows, items: Rows) -> Floats:
    """The probability that each pair is a real preference, or the score of a solved model: [runs, pairs]."""
    runs, method = trained.num_runs, trained.method
    width = runs if method.learns else trained.train.num_items
    parts = []
    with torch.inference_mode():
        for part in np.array_split(np.arange(len(users)), max(1, -(-len(users) * width // PAIRS_AT_ONCE))):
            rows = [torch.from_numpy(ids[part].astype(np.int64)).to(trained.device) for ids in (users, items)]
            if method.learns:
                scores = method.belief(*(ids.expand(runs, -1) for ids in rows))
            else:
                scores = method.score_all(rows[0])[:, torch.arange(len(part), device=trained.device), rows[1]]
            parts.append(scores.double().cpu().numpy())
    return np.concatenate(parts, 1)
