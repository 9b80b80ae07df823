"""What a training is stopped by: the validation, ranked or as a loss."""

from __future__ import annotations

from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from accord.data.csr import Csr
from accord.data.interactions import Dataset
from accord.data.sampling import Negatives, TrainingPairs
from accord.data.user_shard import rows_of
from accord.evaluation.evaluate import Relevant, evaluate, validation_part
from accord.evaluation.ranking import Ranker
from accord.methods.base import Method
from accord.nn.layers import whole_tables
from accord.nn.ranks import Ranks
from accord.protocol import Protocol
from accord.random import drawn_part, generators, random_numbers
from accord.training.stopping import Stopping


def by_ndcg(
    data: Dataset, train: Csr, rules: Protocol, stage: Method, steps: int, patience: int, device: torch.device,
    ranks: Ranks,
) -> Stopping | None:  # fmt: skip
    """Validation NDCG@20 after every epoch of so many steps."""
    relevant = Relevant.of_validation(data, rules)
    all_users = len(relevant.users)
    if not all_users:
        return None
    relevant = relevant.of_users(train.first, train.num_users)
    runs = len(stage.target.seeds)
    ranker = Ranker.of(stage.target, stage.target.score_all, runs, relevant.seen, train, rules, device)

    def check() -> Tensor:
        with whole_tables(stage.target):
            stage.target.ready_to_score()
            total = torch.from_numpy(evaluate(ranker, relevant, [20]).per_user["ndcg@20"].sum(1))
        ranks.sum({"validation": total})
        return total / all_users

    return Stopping("best-ndcg", check, every=steps, offset=steps, patience=patience)


def by_loss(
    data: Dataset, train: Csr, rules: Protocol, stage: Method, pairs: TrainingPairs, device: torch.device, ranks: Ranks
) -> Stopping:
    """Validation BCE with fresh negatives, as the released code has it: every 500 steps, first after 501."""
    valid = data.csr(validation_part(data, rules))
    whole, begin = len(valid.items), int(valid.ptr[train.first])
    local = rows_of(valid, train.first, train.num_users)
    users, items = (torch.from_numpy(part).to(device) for part in (local.users, local.items))
    negatives = Negatives(pairs)
    streams = generators(stage.target.seeds, f"validation of {stage.name}", device)

    def check() -> Tensor:
        span = whole, begin, begin + len(users)
        numbers = [drawn_part(partial(random_numbers, stream=stream), *span) for stream in streams]
        drawn = negatives.at(users, torch.stack(numbers))
        owners = users.expand(len(streams), -1)
        positive = F.softplus(-stage.target(owners, items.expand(len(streams), -1)))
        negative = F.softplus(stage.target(owners, drawn))
        losses = torch.stack([positive.sum(1), negative.sum(1)])  # [2, R]
        ranks.sum({"validation": losses})
        return (losses / whole).sum(0)

    return Stopping("loss-rise", check, every=500, offset=501, patience=2, streams=streams)
