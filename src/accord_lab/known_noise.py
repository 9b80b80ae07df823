"""Training pairs known to be real or noise, some of them injected; how well a stack of runs tells them apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from accord.data.csr import IntArray
from accord.data.interactions import Dataset
from accord.data.simulate import inject
from accord.evaluation.evaluate import Relevant
from accord.evaluation.noise import calibration, detection, labels
from accord.recommender.recommender import Recommender

PAIRS_AT_ONCE = 1_000_000  # over all runs of a stack
CLEAN, BUILT_IN = "none", "built-in"  # kinds of noise besides the injected ones
NOISE_SEED = 0  # the noise is drawn once; the seeds of the runs differ


@dataclass(frozen=True)
class Labelled:
    """Rows of users and items, and for each pair whether it is real."""

    users: IntArray
    items: IntArray
    real: npt.NDArray[np.bool_]

    @classmethod
    def of(cls, data: Dataset, real: npt.NDArray[np.bool_]) -> Labelled:
        """All training interactions; `real` says which of them are."""
        return cls(data.users.rows(data.train.users), data.items.rows(data.train.items), real)

    @classmethod
    def by_value(cls, data: Dataset) -> Labelled | None:
        """By the values of the training interactions (see `noise.labels`); None where they do not tell."""
        found = labels(data.train)
        if found is None:
            return None
        known, real = found
        return cls(data.users.rows(data.train.users)[known], data.items.rows(data.train.items)[known], real)

    def judge(self, trained: Recommender) -> list[dict[str, Any]]:
        """For the line of each run: how well it tells these pairs apart, and whether its probabilities are calibrated.

        A model that is solved gives no probability: its scores can tell pairs apart, but are not calibrated.
        """
        learned = trained.method.learns
        found = []
        for scores in self._scores(trained, learned):
            figures: dict[str, Any] = {"pairs": len(self.real), **detection(scores, self.real)}
            found.append({"noise": figures | (calibration(scores, self.real) if learned else {})})
        return found

    def _scores(self, trained: Recommender, learned: bool) -> npt.NDArray[np.float64]:
        """The posterior of every pair, or its score: [runs, pairs]."""
        runs, size, method = trained.num_runs, len(self.real), trained.method
        width = runs if learned else trained.train.num_items
        parts = []
        with torch.inference_mode():
            for part in np.array_split(np.arange(size), -(-size * width // PAIRS_AT_ONCE)):
                users, items = (torch.from_numpy(rows[part]).to(trained.device) for rows in (self.users, self.items))
                if learned:
                    scores = method.posterior(users.expand(runs, -1), items.expand(runs, -1))
                else:
                    scores = method.score_all(users)[:, torch.arange(len(part), device=users.device), items]
                parts.append(scores.double().cpu().numpy())
        return np.concatenate(parts, 1)


@dataclass(frozen=True)
class Condition:
    """A dataset with noise of one kind and rate, and which of its training pairs are real."""

    kind: str
    rate: float
    data: Dataset
    labelled: Labelled | None = None
    rivals: tuple[Condition, ...] = ()  # for the condition without noise: those that are compared with it

    @property
    def name(self) -> str:
        return f"{self.kind} {self.rate:.4g}"

    def more(self, trained: Recommender) -> list[dict[str, Any]]:
        """What the line of each run says about the noise.

        Seen pairs are removed before ranking, and noise is never a test pair: the more noise, the fewer items the test
        items compete with. So runs trained without noise are ranked once per rival, with the same pairs removed.
        """
        rules = trained.run.config.protocol
        judged = [{}] * trained.num_runs if self.labelled is None else self.labelled.judge(trained)
        ranked = {
            rival.name: trained.evaluate(Relevant.of_test(rival.data, rules), [20]).per_user["ndcg@20"].mean(1)
            for rival in self.rivals
        }
        injected = {"kind": self.kind, "rate": round(self.rate, 4)}
        figures = [{name: float(values[run]) for name, values in ranked.items()} for run in range(trained.num_runs)]
        return [
            {"injected": injected | ({"ndcg@20": mine} if mine else {}), **one}
            for one, mine in zip(judged, figures, strict=True)
        ]


def conditions(data: Dataset, kinds: Sequence[str], rates: Sequence[float]) -> list[Condition]:
    """The conditions, first the one without noise that all others are compared with."""
    values = data.train.column("value") if data.train.has_value else np.array([np.nan])
    if np.isin(values, (0, 1)).all() and len(np.unique(values)) == 2:  # labels: the noise is already there
        real = values == 1
        noisy = [Condition(BUILT_IN, float(1 - real.mean()), data, Labelled.of(data, real))]
        clean = replace(data, train=data.train.filter(real))
    else:
        held_out = [part for part in (data.valid, data.test, data.valid_clean, data.test_noisy) if part is not None]
        noisy, clean = [], data
        for kind in kinds:
            for rate in rates:
                train, real = inject(data.train, kind, rate, NOISE_SEED, held_out)
                one = replace(data, train=train)
                noisy.append(Condition(kind, rate, one, Labelled.of(one, real)))
    return [Condition(CLEAN, 0.0, clean, rivals=tuple(noisy)), *noisy]
