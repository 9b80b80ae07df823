"""Evaluation on held-out pairs: which items count as hits, and the metrics of every user and run."""

from __future__ import annotations

import statistics
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from accord.data.csr import Csr, Floats, IntArray, Rows
from accord.data.interactions import Dataset, Interactions
from accord.errors import Argument, InputError
from accord.evaluation.metrics import at_each_k
from accord.evaluation.ranking import Ranker
from accord.protocol import Protocol

MOST_SAMPLED, SAMPLE_SEED = 20_000, 0  # users on whom one of many candidates is evaluated
MOST_JUDGED = 2**28  # scores computed for them: fewer users where there are very many items
QUICK = 2**26  # an evaluation with fewer scores reports no progress
MOST_KS = 100  # each K has five metrics of every user
JUDGED_AT = 20  # K of the NDCG that candidates are chosen by


@dataclass(frozen=True)
class Relevant:
    """The held-out pairs that count as hits, and the seen pairs that are removed before ranking."""

    users: IntArray  # [N] rows of the users who have relevant items
    pairs: Csr
    counts: IntArray  # [N] relevant items of each user, with duplicates if the protocol counts them
    seen: Csr
    gains: Floats | None = None  # [pairs] what a hit adds to a DCG; None: one

    @classmethod
    def of_test(cls, data: Dataset, protocol: Protocol) -> Relevant:
        train, valid = data.csr(data.train), data.csr(validation_part(data, protocol))
        pairs = data.csr(data.test, unique=protocol.duplicate_test == "merge")
        if protocol.test_overlap == "remove" and _cut_from_test(valid, data):
            keep = ~valid.contains(pairs.users, pairs.items)
            pairs = Csr.of(pairs.users[keep], pairs.items[keep], pairs.num_users, pairs.num_items, unique=False)
        return cls.of_pairs(pairs, train.merge(valid))

    @classmethod
    def of_validation(cls, data: Dataset, protocol: Protocol) -> Relevant:
        """Validation pairs of users with history; all runs give the other users the same list. Where they have a
        column `p_real`, each pair counts for that."""
        train, pairs = data.csr(data.train), data.csr(validation_part(data, protocol), columns=("p_real",))
        warm = train.counts[pairs.users] > 0
        columns = {name: values[warm] for name, values in pairs.columns.items()}
        asked = Csr.of(pairs.users[warm], pairs.items[warm], pairs.num_users, pairs.num_items, columns=columns)
        relevant = cls.of_pairs(asked, train)
        return replace(relevant, gains=gains_of(asked.users, columns["p_real"])) if columns else relevant

    def sampled(self) -> Relevant:
        """A fixed random sample of the users if there are many, otherwise all of them."""
        most = most_judged(self.pairs.num_items)
        if len(self.users) <= most:
            return self
        sample = np.sort(np.random.default_rng(SAMPLE_SEED).permutation(len(self.users))[:most])
        return replace(self, users=self.users[sample], counts=self.counts[sample])

    @classmethod
    def of_rows(cls, users: Rows, items: Rows, seen: Csr) -> Relevant:
        """Held-out interactions as rows of users and items, -1 where the run does not know them; a warning says how
        many do not count for that, or because they were seen."""
        known = (users >= 0) & (items >= 0)
        new = known.copy()
        new[known] = ~seen.contains(users[known], items[known])
        unknown, old = (~known).sum(), (known & ~new).sum()
        said = [f"{unknown:,} have users or items that are not in the run"] if unknown else []
        left_out = " and ".join([*said, f"{old:,} were already seen"] if old else said)
        if not new.any():
            raise InputError(f"there is nothing to evaluate on: of {len(new):,} interactions {left_out}; give others.")
        if not new.all():
            warnings.warn(f"evaluated on {new.sum():,} of {len(new):,} interactions: {left_out}.", stacklevel=3)
        return cls.of_pairs(Csr.of(users[new], items[new], seen.num_users, seen.num_items), seen)

    @classmethod
    def of_pairs(cls, pairs: Csr, seen: Csr) -> Relevant:
        """From pairs to which the protocol's rules have been applied."""
        users = np.flatnonzero(pairs.counts)
        return cls(users, pairs, pairs.counts[users], seen)


def gains_of(users: IntArray, p_real: Floats) -> Floats:
    """What a hit on each pair adds to a DCG, so that the mean NDCG@20 over users is the one expected of the real pairs.

    The ideal list has the pairs by their p_real, and a user counts by the chance to have a real pair at all, as one
    without any is not among those who are evaluated.
    """
    p_real = np.maximum(p_real, 1e-9)
    order = np.lexsort((-p_real, users))
    first, which, counts = np.unique(users, return_index=True, return_inverse=True, return_counts=True)[1:]
    place = np.empty(len(users), dtype=np.int64)
    place[order] = np.arange(len(users)) - np.repeat(first, counts)
    discounts = (place < JUDGED_AT) / np.log2(place + 2)
    ideal, alike = (np.bincount(which, values) for values in (p_real * discounts, discounts))
    some = -np.expm1(np.bincount(which, np.log1p(-np.minimum(p_real, 1 - 1e-9))))
    scale = some / some.mean() * alike / ideal  # NDCG divides by the ideal of pairs that are alike
    return np.asarray(p_real * scale[which])


def _cut_from_test(valid: Csr, data: Dataset) -> bool:
    """Whether all validation pairs are also in the test (as in MovieLens); a few shared pairs are left alone."""
    test = data.csr(data.test if data.test_noisy is None else data.test_noisy)
    return len(valid.items) > 0 and bool(test.contains(valid.users, valid.items).all())


def most_judged(num_items: int) -> int:
    """How many users one of many candidates is evaluated on."""
    return max(1, min(MOST_SAMPLED, MOST_JUDGED // max(1, num_items)))


def validation_part(data: Dataset, protocol: Protocol) -> Interactions:
    return data.valid_clean if protocol.validation == "clean" and data.valid_clean is not None else data.valid


@dataclass(frozen=True)
class Evaluation:
    users: IntArray  # [N]
    per_user: dict[str, npt.NDArray[np.float64]]  # each [R, N]
    warm: npt.NDArray[np.bool_]  # [N]
    none_of: int = 0  # number of runs, if nothing was held out to evaluate them on

    @classmethod
    def none(cls, runs: int) -> Evaluation:
        return cls(np.empty(0, dtype=np.int64), {}, np.empty(0, dtype=bool), runs)

    def mean(self, keep: npt.NDArray[np.bool_] | None = None) -> list[dict[str, float]]:
        keep = np.ones(len(self.users), dtype=bool) if keep is None else keep
        return [
            {name: float(values[run, keep].mean()) if keep.any() else 0.0 for name, values in self.per_user.items()}
            for run in range(self.runs)
        ]

    def at(self, ks: Sequence[int]) -> Evaluation:
        """The metrics at these list lengths, of a model that is not there any more."""
        names = [name for name in self.per_user if int(name.split("@")[1]) in ks]
        if not {f"ndcg@{k}" for k in ks} <= set(names):
            there = ", ".join(name.removeprefix("ndcg@") for name in self.per_user if name.startswith("ndcg@"))
            why = f"the run folder has the refitted model, and of the evaluated one the metrics at {there}; give one"
            raise InputError(why + " of these, or train with ", Argument("refit", True), ", which stores both.")
        return replace(self, per_user={name: self.per_user[name] for name in names})

    @property
    def runs(self) -> int:
        return self.none_of or len(next(iter(self.per_user.values())))

    def summary(self) -> dict[str, Any]:
        """Mean and standard deviation over runs, and the means of warm and cold users."""
        runs = self.mean()
        std = {name: statistics.stdev(run[name] for run in runs) if len(runs) > 1 else 0.0 for name in runs[0]}
        groups = {
            name: {"users": int(keep.sum()), "mean": _over_runs(self.mean(keep)) if keep.any() else {}}
            for name, keep in (("warm", self.warm), ("cold", ~self.warm))
        }
        return {"mean": _over_runs(runs), "std": std, "groups": groups}


def _over_runs(runs: Sequence[dict[str, float]]) -> dict[str, float]:
    return {name: statistics.fmean(run[name] for run in runs) for name in runs[0]}


def evaluate(
    ranker: Ranker, relevant: Relevant, ks: Sequence[int], on_progress: Callable[[int], None] | None = None
) -> Evaluation:
    """Rank all items for every user who has relevant ones. `on_progress` gets the number of users done so far."""
    ks = sorted(set(ks))
    if len(ks) > MOST_KS:
        raise InputError(f"k has {len(ks):,} values; give at most {MOST_KS}.")
    keys = torch.from_numpy(relevant.pairs.keys).to(ranker.device)
    none = torch.zeros(ranker.runs, 0, ks[-1], dtype=torch.bool, device=ranker.device)
    parts = {name: [value] for name, value in at_each_k(none, none.new_zeros(0, dtype=torch.long), ks).items()}
    gains = None if relevant.gains is None else torch.from_numpy(relevant.gains).to(ranker.device)
    done, large = 0, len(relevant.users) * ranker.runs * relevant.pairs.num_items > QUICK
    for block, items, values in ranker.rank(relevant.users, ks[-1]):
        ranked = torch.from_numpy(block).to(ranker.device)[:, None] * relevant.pairs.num_items + items
        nearest = torch.searchsorted(keys, ranked).clamp(max=len(keys) - 1)
        hits = (keys[nearest] == ranked) & (values > -torch.inf)
        hits = hits if gains is None else hits * gains[nearest]
        hits = torch.nn.functional.pad(hits, (0, ks[-1] - hits.shape[-1]))  # fewer items than K: the rest are misses
        counts = torch.from_numpy(relevant.counts[done : done + len(block)]).to(ranker.device)
        done += len(block)
        if on_progress is not None and large:
            on_progress(done)
        for name, value in at_each_k(hits, counts, ks).items():
            parts[name].append(value)
    per_user = {name: torch.cat(values, 1).double().cpu().numpy() for name, values in parts.items()}
    return Evaluation(relevant.users, per_user, ranker.train.counts[relevant.users] > 0)
