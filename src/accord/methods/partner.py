"""A second opinion from a model that is solved: its scores, turned into probabilities on the validation."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from accord.data.csr import Csr, Floats
from accord.data.sampling import Negatives, TrainingPairs
from accord.errors import InputError
from accord.methods.base import Build, TrainingContext
from accord.models.base import Model
from accord.models.consensus import standardised
from accord.random import generators

KEPT_WHOLE = 2**26  # opinions on all users and items are kept up to so many: 256 MB
SCORED_AT_ONCE = 2**22
NEGATIVES_SEED = 0  # for all runs the same
STEPS = 100


def platt(scores: Floats, observed: npt.NDArray[np.bool_]) -> tuple[float, float]:
    """(a, b) with which sigmoid(a score + b) is the probability of being observed: [n] each.
    Platt's targets, a little inside 0 and 1, keep both finite where the scores separate the two perfectly."""
    positives = int(observed.sum())
    negatives = len(observed) - positives
    target = np.where(observed, (positives + 1) / (positives + 2), 1 / (negatives + 2))
    x = np.stack([scores, np.ones(len(scores))])  # [2, n]
    result = np.zeros(2)
    for _ in range(STEPS):
        p = 1 / (1 + np.exp(-np.clip(result @ x, -30, 30)))
        curvature = (x * (p * (1 - p))) @ x.T + 1e-9 * len(scores) * np.eye(2)
        step = np.linalg.solve(curvature, x @ (target - p))
        result += step * min(1.0, 2 / max(1e-12, float(np.abs(step).max())))
    return float(result[0]), float(result[1])


class SolvedPartner(nn.Module):
    """Logits of pairs by a solved model: its scores, standardised within each user, on the scale that tells held-out
    interactions from as many pairs that were not observed. No part of a method's weights: solved where it trains."""

    def __init__(self, spec: str, build: Build) -> None:
        super().__init__()
        self.name, self.build, self.spec = spec, build, spec
        self._model: list[Model] = []  # in a list, so that its tensors are not among the weights
        self._scale: tuple[Tensor, Tensor] | None = None  # a and b: [1 or R, 1, 1]
        self._every: Tensor | None = None  # opinions on all users and items, where these are few: [1 or R, U, I]

    @property
    def recordable(self) -> bool:
        return self._every is not None

    def solve(self, context: TrainingContext, device: torch.device) -> None:
        """Solve the model, and find out on the validation what its scores mean."""
        model = self.build(self.spec, purpose="partner", solved=True)
        context.solve(model)
        self._model = [model.eval()]
        self._scale = self._calibrated(self.build.train, context.validation_pairs, device)
        size = len(self._scale[0]) * model.num_users * model.num_items
        if size <= KEPT_WHOLE:
            parts = [self.opinions(part) for part in self._blocks(torch.arange(model.num_users, device=device))]
            self._every = torch.cat(parts, 1)

    def forget(self) -> None:
        """Give back the memory, once nothing is trained with it any more."""
        self._model, self._scale, self._every = [], None, None

    @torch.no_grad()
    def forward(self, users: Tensor, items: Tensor) -> Tensor:
        if self._every is not None:
            if len(self._every) == 1:
                return self._every[0][users, items]
            return self._every[torch.arange(len(users), device=users.device).unsqueeze(1), users, items]
        some, place = torch.unique(users, return_inverse=True)  # each user is scored once
        result = torch.empty(users.shape, device=users.device)
        start = 0
        for block in self._blocks(some):
            opinions = self.opinions(block)
            run, column = ((place >= start) & (place < start + len(block))).nonzero(as_tuple=True)
            rows = run if len(opinions) > 1 else torch.zeros_like(run)
            result[run, column] = opinions[rows, place[run, column] - start, items[run, column]]
            start += len(block)
        return result

    @torch.no_grad()
    def opinions(self, users: Tensor) -> Tensor:
        """Logits of all items for users [B]: [1 or R, B, I]."""
        assert self._scale is not None
        a, b = self._scale
        return a * standardised(self._model[0].score_all(users)) + b

    def _blocks(self, users: Tensor) -> tuple[Tensor, ...]:
        model = self._model[0]
        runs = model.seeds if model.seeded else (0,)
        most = max(1, SCORED_AT_ONCE // (len(runs) * model.num_items))
        return torch.split(users, min(most, model.user_block or most))

    @torch.no_grad()
    def _calibrated(self, train: Csr, valid: Csr, device: torch.device) -> tuple[Tensor, Tensor]:
        """The scale of the scores, by the validation pairs of users with history and one unobserved pair for each."""
        both = train.merge(valid)
        some = (train.counts > 0) & (both.counts < both.num_items)  # who has history, and a pair that is not observed
        selected = some[valid.users]
        owners, positive = valid.users[selected], valid.items[selected]
        if not len(owners):
            raise InputError(
                f"{self.name} gives scores, and needs validation pairs of users with history to turn them into "
                "probabilities; give a split with a validation, or a partner that is learned."
            )
        among = some[both.users]
        others = Csr.of(both.users[among], both.items[among], both.num_users, both.num_items)
        drawn = Negatives(TrainingPairs.of(others, torch.device("cpu"))).draw(
            torch.from_numpy(owners), generators([NEGATIVES_SEED], "calibration")[0]
        )
        users, items = torch.from_numpy(owners), torch.stack([torch.from_numpy(positive).long(), drawn])  # [n], [2, n]
        result = []
        for block in self._blocks(torch.unique(users)):
            inside = ((users >= block[0]) & (users <= block[-1])).nonzero().squeeze(1)
            scores = standardised(self._model[0].score_all(block.to(device)))
            place = torch.searchsorted(block, users[inside]).to(device)
            result.append(scores[:, place, items[:, inside].to(device)].double().cpu())  # [1 or R, 2, n]
        every = torch.cat(result, 2).flatten(1).numpy()
        observed = np.repeat([True, False], len(owners))
        scales = [platt(scores, observed) for scores in every]
        a, b = torch.tensor(scales, dtype=torch.get_default_dtype(), device=device).view(-1, 2, 1, 1).unbind(1)
        return a, b
