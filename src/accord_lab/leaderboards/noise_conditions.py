"""Training pairs labelled real or noise, some of them injected, and how well runs tell the two apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from accord.data.csr import Bools, IntArray
from accord.data.interactions import Dataset
from accord.errors import InputError, unknown
from accord.evaluation.evaluate import Relevant
from accord.evaluation.noise import auc, calibration, labels
from accord.recommender.recommender import Recommender
from accord_lab.injection import KINDS, inject
from accord_lab.pair_scores import pair_scores

CLEAN, BUILT_IN = "none", "built-in"  # kinds of noise besides the injected ones
NOISE_SEED = 0  # the noise is drawn once; the seeds of the runs differ


def average_precision(scores: npt.NDArray[Any], noisy: Bools) -> float:
    """Area under the precision-recall curve of detecting `noisy` by a high score. Equal scores are one step."""
    order = np.argsort(-scores, kind="stable")
    ends = np.append(np.flatnonzero(np.diff(scores[order])), len(scores) - 1)
    hits = np.cumsum(noisy[order])[ends]
    precision, recall = hits / (ends + 1), hits / noisy.sum()
    return float(np.sum(np.diff(recall, prepend=0.0) * precision))


def detection(p_real: npt.NDArray[Any], real: Bools) -> dict[str, float]:
    """AUC of real against noisy interactions, and average precision of detecting the noisy ones."""
    figures = {"auc": auc(p_real, real), "average_precision": average_precision(-p_real, ~real)}
    return {**figures, "noise_rate": float(1 - real.mean())}


@dataclass(frozen=True)
class LabelledPairs:
    """Rows of users and items, and for each pair whether it is real."""

    users: IntArray
    items: IntArray
    real: Bools

    @classmethod
    def of(cls, data: Dataset, real: Bools) -> LabelledPairs:
        """All training interactions; `real` says which of them are."""
        return cls(data.users.rows(data.train.users), data.items.rows(data.train.items), real)

    @classmethod
    def by_value(cls, data: Dataset) -> LabelledPairs | None:
        """By the values of the training interactions (see `evaluation.noise.labels`); None where they do not tell."""
        result = labels(data.train)
        if result is None:
            return None
        labelled, real = result
        return cls(data.users.rows(data.train.users)[labelled], data.items.rows(data.train.items)[labelled], real)

    def judge(self, trained: Recommender) -> list[dict[str, Any]]:
        """For the line of each run: how well it tells these pairs apart, and whether its probabilities are calibrated.
        A solved model gives no probability: its scores can tell pairs apart, but are not calibrated."""
        lines = []
        for scores in pair_scores(trained, self.users, self.items):
            figures: dict[str, Any] = {"pairs": len(self.real), **detection(scores, self.real)}
            lines.append({"noise": figures | (calibration(scores, self.real) if trained.method.learns else {})})
        return lines


@dataclass(frozen=True)
class Condition:
    """A dataset with noise of one kind and rate, and which of its training pairs are real."""

    kind: str
    rate: float
    data: Dataset
    labelled: LabelledPairs | None = None
    noisy: tuple[Condition, ...] = ()  # for the condition without noise: those that are compared with it

    @property
    def name(self) -> str:
        return f"{self.kind} {self.rate:.4g}"

    def more(self, trained: Recommender) -> list[dict[str, Any]]:
        """What the line of each run says about the noise.
        Seen pairs are removed before ranking, and noise is never a test pair: the more noise, the fewer items the test
        items compete with. So runs trained without noise are ranked once per noisy condition, with its pairs removed.
        """
        rules = trained.run.config.protocol
        judged = [{}] * trained.num_runs if self.labelled is None else self.labelled.judge(trained)
        ranked = {
            one.name: trained.evaluate(Relevant.of_test(one.data, rules), [20]).per_user["ndcg@20"].mean(1)
            for one in self.noisy
        }
        lines = []
        for run, line in enumerate(judged):
            injected: dict[str, Any] = {"kind": self.kind, "rate": round(self.rate, 4)}
            if ranked:
                injected["ndcg@20"] = {name: float(values[run]) for name, values in ranked.items()}
            lines.append({"injected": injected, **line})
        return lines


def check_noise(kinds: Sequence[str], rates: Sequence[float]) -> None:
    if not rates or min(rates) <= 0 or max(rates) >= 1:
        raise InputError("--rates are shares of the training pairs: give numbers above 0 and below 1, as 0.1,0.2.")
    for kind in kinds:
        if kind not in KINDS:
            raise unknown("noise kind", kind, KINDS)


def conditions(data: Dataset, kinds: Sequence[str], rates: Sequence[float]) -> list[Condition]:
    """The conditions, first the one without noise that all others are compared with."""
    values = data.train.column("value") if data.train.has_value else np.array([np.nan])
    if np.isin(values, (0, 1)).all() and len(np.unique(values)) == 2:  # labels: the data has its noise already
        real = values == 1
        noisy = [Condition(BUILT_IN, float(1 - real.mean()), data, LabelledPairs.of(data, real))]
        clean = replace(data, train=data.train.filter(real))
    else:
        held_out = [part for part in (data.valid, data.test, data.valid_clean, data.test_noisy) if part is not None]
        noisy, clean = [], data
        for kind in kinds:
            for rate in rates:
                train, real = inject(data.train, kind, rate, NOISE_SEED, held_out)
                one = replace(data, train=train)
                noisy.append(Condition(kind, rate, one, LabelledPairs.of(one, real)))
    return [Condition(CLEAN, 0.0, clean, noisy=tuple(noisy)), *noisy]
