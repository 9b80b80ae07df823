"""What a search tries: the families, the ranges of their options, and how much of it a budget allows.

The cost of everything follows from the sizes of the log, never from the clock: the same log gives the same search on
any machine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from accord.config import full_name
from accord.evaluation.evaluate import most_judged
from accord.models import can_hold, cost_of, own_class
from accord.models.base import Shape
from accord.models.consensus import Member

MOST_TRIALS = 8
SEEDS = 4  # of a learned member, whose mean votes
RECENCIES = (30, 10, 3)  # tried of what is best of a family that scores from histories, where the log has times
PAYS = 1.01  # times the NDCG that a weaker fading reaches: validation has noise, and what is next is not what is liked
JUDGE_SECONDS = 6e-9  # to rank the scores of one item and one user with the others
ORDER_SECONDS = 3e-7  # to put an interaction in the order of time
MOST_BYTES = 6 * 2**30  # in fitting a member


@dataclass(frozen=True)
class Range:
    """Numbers from low to high, evenly or evenly by their logarithm."""

    low: float
    high: float
    by_logarithm: bool = False
    whole: bool = False

    def at(self, share: float) -> float:
        value = self.low * (self.high / self.low) ** share if self.by_logarithm else self._between(share)
        return round(value) if self.whole else float(f"{value:.3g}")

    def _between(self, share: float) -> float:
        return self.low + (self.high - self.low) * share


def halton(number: int, base: int) -> float:
    """Term `number` of a sequence that fills 0 to 1 evenly however far it goes."""
    share, unit = 0.0, 1.0
    while number:
        unit /= base
        number, digit = divmod(number, base)
        share += unit * digit
    return share


@dataclass(frozen=True)
class Family:
    """A model, with the method that trains it, and what is tried of its options."""

    model: str
    ranges: Mapping[str, Range] = field(default_factory=dict)
    method: str | None = None
    in_place_of: str | None = None  # a family that is better where it can be had: this one is for when it cannot
    pair_seconds: float = 0.0  # of a learned one: what a training interaction takes in all epochs of one run

    @property
    def name(self) -> str:
        return full_name(self.model, self.method)

    def trials(self, count: int) -> list[Member]:
        """Its defaults, and points that fill the ranges evenly. A learned one is averaged over seeds instead."""
        if self.method is not None:
            quick = {"train.lr": 0.01, "train.patience": 3}
            return [Member(model=self.model, method=self.method, options=quick, seeds=SEEDS)]
        tries = [Member(model=self.model)]
        for number in range(1, count if self.ranges else 1):
            shares = [halton(number, base) for base in (2, 3, 5)[: len(self.ranges)]]
            values = [own.at(share) for own, share in zip(self.ranges.values(), shares, strict=True)]
            options = {f"model.{name}": value for name, value in zip(self.ranges, values, strict=True)}
            tries.append(Member(model=self.model, options=options))
        return tries

    def faded(self, best: Member) -> list[Member]:
        """The best of its trials with histories that fade, which is fitted already; none where they cannot."""
        own = own_class(self.model)
        if own is None or "recency" not in own.Config.model_fields:
            return []
        return [best.model_copy(update={"options": {**best.options, "model.recency": h}}) for h in RECENCIES]

    def seconds(self, shape: Shape, trials: int, has_times: bool = False) -> float:
        """What it takes to try it, to judge the best of it once more, and to fit that again on the whole log; where
        there are times, to let its histories fade and to fit it with the validation too.

        Evaluating what is chosen on all users of the test comes on top, as with any model.
        """
        judged = min(shape.num_users, most_judged(shape.num_items))
        judging = JUDGE_SECONDS * judged * shape.num_items
        if self.method is not None:
            fit = SEEDS * shape.num_interactions * self.pair_seconds
            return (3 if has_times else 2) * fit + 3 * SEEDS * judging
        costs = [self.cost(shape, member) for member in self.trials(trials)]
        each = [(fit, rank * judged / max(1, shape.num_users) + judging) for fit, rank, _ in costs]
        whole = sum(fit + rank for fit, rank in each) + max(fit + rank for fit, rank in each)
        if not has_times:
            return whole
        fading = max(rank for _, rank in each) + ORDER_SECONDS * shape.num_interactions
        return whole + max(fit for fit, _ in each) + len(self.faded(Member(model=self.model))) * fading

    def cost(self, shape: Shape, member: Member) -> tuple[float, float, int]:
        options = {name.removeprefix("model."): value for name, value in member.options.items()}
        return cost_of(self.model, options, shape)

    def too_large(self, shape: Shape) -> str | None:
        """Why the log is too large for it, None if it is not."""
        if not can_hold(self.model, shape.num_items):
            return f"{shape.num_items:,} items are too many for it"
        if self.method is None and (memory := self.cost(shape, Member(model=self.model))[2]) > MOST_BYTES:
            return f"it would take {memory / 2**30:.1f} GiB, and {MOST_BYTES / 2**30:.0f} are allowed"
        return None


def _log(low: float, high: float, whole: bool = False) -> Range:
    return Range(low, high, by_logarithm=True, whole=whole)


# In the order in which a budget is given to them.
FAMILIES: tuple[Family, ...] = (
    Family("popularity"),
    Family("ease", {"l2": _log(10, 2000), "dropout": Range(0, 0.6), "user_norm": Range(0, 0.5)}),
    Family(
        "sparse-ease",
        {"l2": _log(10, 2000), "dropout": Range(0, 0.6), "user_norm": Range(0, 0.5)},
        in_place_of="ease",
    ),
    Family("item-knn", {"k": _log(30, 1000, whole=True), "balance": Range(0.3, 1), "shrink": _log(1, 300)}),
    Family("ials", {"dim": _log(16, 128, whole=True), "alpha": _log(0.03, 1), "penalty": _log(0.001, 0.1)}),
    Family("user-knn", {"k": _log(50, 1000, whole=True), "shrink": _log(1, 300)}),
    Family("graph-filter", {"power": Range(0.1, 1.5)}),
    Family("mf", method="normal", pair_seconds=2.2e-5),
    Family("gmf", method="deca-p", pair_seconds=2.8e-5),
)


@dataclass(frozen=True)
class Search:
    """What is tried: so many trials of each family."""

    families: tuple[Family, ...]
    trials: int
    seconds: float  # by the cost model
    left_out: tuple[str, ...]  # one sentence for each family that is not tried

    def sentence(self, budget: float) -> str:
        names = ", ".join(family.name for family in self.families)
        tried = "1 configuration each" if self.trials == 1 else f"up to {self.trials} configurations each"
        return f"auto tries {names}: {tried}; estimated {max(1, round(self.seconds)):,} s of {budget:,g} s"


def plan_search(shape: Shape, budget: float, families: Sequence[Family] = FAMILIES, has_times: bool = False) -> Search:
    """The families that fit into a budget with their defaults, in their order; then as many trials as it allows."""

    def seconds(families: Sequence[Family], trials: int) -> float:
        return sum(family.seconds(shape, trials, has_times) for family in families)

    kept: list[Family] = []
    left_out = []
    for family in families:
        if any(other.model == family.in_place_of for other in kept):
            continue
        if (why := family.too_large(shape)) is not None:
            left_out.append(f"{family.name} is not tried: {why}.")
            continue
        total = seconds([*kept, family], 1)
        if kept and total > budget:
            why = f"it would take about {seconds([family], 1):,.0f} s of a budget of {budget:g} s"
            left_out.append(f"{family.name} is not tried: {why}.")
        else:
            kept.append(family)
    trials = max(count for count in range(1, MOST_TRIALS + 1) if count == 1 or seconds(kept, count) <= budget)
    return Search(tuple(kept), trials, seconds(kept, trials), tuple(left_out))
