"""What a training is stopped by: the validation, ranked or as a loss."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from accord.data.csr import Csr
from accord.data.interactions import Dataset
from accord.data.sampling import Negatives, TrainingPairs
from accord.evaluation.evaluate import Relevant, evaluate, validation_part
from accord.evaluation.ranking import Ranker
from accord.methods.base import Method
from accord.protocol import Protocol
from accord.random import generators, random_numbers
from accord.training.trainer import Stopping


def by_ndcg(
    data: Dataset, train: Csr, rules: Protocol, stage: Method, steps: int, patience: int, device: torch.device
) -> Stopping | None:
    """Validation NDCG@20 after every epoch of so many steps."""
    relevant = Relevant.of_validation(data, rules)
    if not len(relevant.users):
        return None
    runs = len(stage.target.seeds)
    ranker = Ranker.of(stage.target, stage.target.score_all, runs, relevant.seen, train, rules, device)

    def check() -> Tensor:
        return torch.from_numpy(evaluate(ranker, relevant, [20]).per_user["ndcg@20"].mean(1))

    return Stopping("best-ndcg", check, every=steps, offset=steps, patience=patience)


def by_loss(data: Dataset, rules: Protocol, stage: Method, pairs: TrainingPairs, device: torch.device) -> Stopping:
    """Validation BCE with fresh negatives, as the released code has it: every 500 steps, first after 501."""
    valid = data.csr(validation_part(data, rules))
    users, items = (torch.from_numpy(part).to(device) for part in (valid.users, valid.items))
    negatives = Negatives(pairs)
    streams = generators(stage.target.seeds, f"validation of {stage.name}", device)

    def check() -> Tensor:
        drawn = negatives.at(users, torch.stack([random_numbers(len(users), stream) for stream in streams]))
        owners = users.expand(len(streams), -1)
        positive = F.softplus(-stage.target(owners, items.expand(len(streams), -1)))
        negative = F.softplus(stage.target(owners, drawn))
        return positive.sum(1) / len(users) + negative.sum(1) / len(users)

    return Stopping("loss-rise", check, every=500, offset=501, patience=2, streams=streams)
