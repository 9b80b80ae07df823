"""What a search tries: the families, the ranges of their options, and how much of it a budget allows.

The cost of everything follows from the sizes of the log, never from the clock: the same log gives the same search on
any machine, unless it is so slow that the clock ends the search (search.py).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from accord.config import full_name
from accord.consensus.labels import CLEANED
from accord.evaluation.evaluate import most_judged
from accord.methods import METHODS
from accord.methods.softmax import DRAWN, WHOLE, WHOLE_ON_CUDA
from accord.models import can_hold, class_of, cost_of
from accord.models.base import Cost, Shape
from accord.models.consensus import Member
from accord.posteriors.estimate import MOST_SEARCHED
from accord.posteriors.leave_one_out import MOST_DENSE
from accord.training.run import in_a_batch
from accord.training.trainer import TrainConfig

MOST_TRIALS = 8  # of a family before the best are refined, and of each that is refined; plain ones come on top
REFINED = 5  # families that are tried further while the budget lasts: those whose best leads
ROUNDS = 4  # of that, each closer to the best; after the first, several seeds of the learned ones
ONE_FAMILY = 0.66  # of the budget, at most, for one trial of a family and its last fit
COARSE = 0.25  # of the budget, at most, for trying every family: each gets the same share
VOTERS = 3  # trials of a family that may vote: the best, and others that are near the best of all families
NEAR = 0.95  # of the NDCG of the best
LARGE = 2**28  # bytes of a trained member, beyond which only the best trial of a family stays in memory
SEEDS = 4  # of a learned member, whose mean votes
# times the NDCG that less of what came last reaches: validation has noise, and what is next is not what is liked. On
# validations of MovieLens 1% of all ratings' NDCG gains 1 to 4% of the high ones', on MovieTweetings it loses 2%
PAYS = 1.01
RECENCIES = (30, 10, 3)  # tried of what is best of a family that scores from histories, where the log has times
JUDGE_SECONDS = 2e-9  # to rank the scores of one item and one user with the others
ORDER_SECONDS = 3e-7  # to put an interaction in the order of time
LEARNING_LEAST, LEARNING_LABEL, LEARNING_PAIR = 0.2, 6e-4, 3e-5  # seconds to learn from labels: in any case, for each
# label that the penalties are chosen by, and for each interaction
MOST_BYTES = 6 * 2**30  # in fitting a member; a third of the memory where that is more


@dataclass(frozen=True)
class Range:
    low: float
    high: float
    by_logarithm: bool = False
    whole: bool = False

    def at(self, share: float) -> float:
        low, high = self.low, self.high
        value = low * (high / low) ** share if self.by_logarithm else low + (high - low) * share
        return round(value) if self.whole else float(f"{value:.3g}")

    def share(self, value: float) -> float:
        """Where a number stands in the range: the inverse of `at`."""
        low, high = self.low, self.high
        return math.log(value / low) / math.log(high / low) if self.by_logarithm else (value - low) / (high - low)

    @property
    def text(self) -> str:
        return f"{self.low:g} to {self.high:g}{' (log)' if self.by_logarithm else ''}"


class Switch(Range):
    text = "on or off"

    def at(self, share: float) -> float:
        return share >= 0.5


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
    ranges: Mapping[str, Range] = field(default_factory=dict)  # by full names, as model.l2 or method.temperature
    method: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)  # of all its trials
    seeds: int = 1
    plain: int = 0  # trials that vary the first option alone, before those that vary all
    least: int = 1  # trials, whatever its share, where the budget holds them
    share: float = ONE_FAMILY  # of the budget, at most, for one trial and its last fit
    cheaper: Mapping[float, Mapping[str, Any]] = field(default_factory=dict)  # options of all its trials where one and
    # its last fit would take more than so much of the budget
    learning: Callable[[Shape, Mapping[str, Any]], float] | None = None  # seconds that a run of a learned one takes
    called: str = ""  # where there is another family of its model and method
    in_order: bool = False  # tried only where the validation comes later by the log's times

    @property
    def name(self) -> str:
        return self.called or full_name(self.model, self.method)

    def member(self, values: Mapping[str, float] | None = None) -> Member:
        options = {**self.options, **(values or {})}
        return Member(model=self.model, method=self.method, options=options, seeds=self.seeds)

    def trials(self, count: int) -> list[Member]:
        """Its usual options, the first one varied alone, and points that fill the ranges evenly."""
        numbers = range(1, count if self.ranges else 1)
        first = list(self.ranges)[:1]
        plain = [self.member(self._point(number, {}, first)) for number in numbers[: self.plain]]
        return [self.member(), *plain, *(self.member(self._point(n, {})) for n in numbers[: -self.plain or None])]

    @property
    def most_trials(self) -> int:
        return MOST_TRIALS + self.plain

    def refined(self, best: Member, closer: int = 0) -> list[Member]:
        """Points around the best of its trials, within a third of each range, later by half of that and so on."""
        middle = {name: span.share(self._value(best, name)) for name, span in self.ranges.items()}
        numbers = range(1 + closer * (MOST_TRIALS - 1), 1 + (closer + 1) * (MOST_TRIALS - 1) if self.ranges else 1)
        return [self.member(self._point(number, middle, width=2**-closer / 3)) for number in numbers]

    def averaged(self, best: Member) -> list[Member]:
        """The best of its trials as the mean of several seeds, if it is learned and has one."""
        again = best.model_copy(update={"seeds": SEEDS, "epochs": None})
        return [again] if self.method is not None and best.seeds == 1 else []

    def _point(
        self, number: int, middle: Mapping[str, float], names: Sequence[str] = (), width: float = 1.0
    ) -> dict[str, float]:
        shares = zip(self.ranges.items(), (halton(number, base) for base in (2, 3, 5, 7)), strict=False)
        return {
            name: span.at(min(1.0, max(0.0, middle.get(name, 0.5) + (share - 0.5) * width)))
            for (name, span), share in shares
            if name in names or not names
        }

    def _value(self, member: Member, name: str) -> float:
        room, _, option = name.partition(".")
        kind = class_of(self.model) if room == "model" else METHODS[self.method or ""]
        assert kind is not None
        return float(member.options.get(name, kind.Config.model_fields[option].default))

    def faded(self, best: Member) -> list[Member]:
        """The best of its trials with histories that fade, which is fitted already; none where they cannot."""
        kind = class_of(self.model)
        if kind is None or "recency" not in kind.Config.model_fields:
            return []
        return [best.model_copy(update={"options": {**best.options, "model.recency": h}}) for h in RECENCIES]

    def seconds(self, shape: Shape, trials: int, has_times: bool = False) -> float:
        """What it takes to try it, to judge the best of it once more, and to fit that again on the whole log; where
        there are times, to let its histories fade and to fit it with the validation too.
        Evaluating what is chosen on all users of the test comes on top, as with any model."""
        each = [self.trial_seconds(shape, member) for member in self.trials(trials)]
        total = sum(each) + max(each)
        if not has_times:
            return total
        if self.method is not None:
            return total + max(each)
        costs = [self.cost(shape, member) for member in self.trials(trials)]
        fading = max(cost.rank for cost in costs) * _judged(shape) / max(1, shape.num_users)
        fading += JUDGE_SECONDS * _judged(shape) * shape.num_items + ORDER_SECONDS * shape.num_interactions
        return total + max(cost.fit for cost in costs) + len(self.faded(self.member())) * fading

    def trial_seconds(self, shape: Shape, member: Member) -> float:
        """What it takes to fit and to judge one trial."""
        judging = JUDGE_SECONDS * _judged(shape) * shape.num_items
        if self.learning is not None:
            return member.seeds * (self.learning(shape, member.options) + judging)
        cost = self.cost(shape, member)
        return cost.fit + cost.rank * _judged(shape) / max(1, shape.num_users) + judging

    def cost(self, shape: Shape, member: Member) -> Cost:
        options = {name.removeprefix("model."): value for name, value in member.options.items()}
        return cost_of(self.model, options, shape)

    def too_large(self, shape: Shape, most_bytes: int = MOST_BYTES) -> str | None:
        """Why the log is too large for it, None if it is not."""
        if not can_hold(self.model, shape.num_items):
            return f"{shape.num_items:,} items are too many for it"
        if self.method is None and (memory := self.cost(shape, Member(model=self.model))[2]) > most_bytes:
            return f"it would take {memory / 2**30:.1f} GiB of memory, and at most {most_bytes / 2**30:.0f} are allowed"
        return None


def _judged(shape: Shape) -> int:
    users = shape.num_users if shape.num_judged is None else shape.num_judged
    return min(users, most_judged(shape.num_items))


def _by_pairs(seconds: float, shape: Shape, _: Mapping[str, Any]) -> float:
    """What all epochs take together: so much for each interaction."""
    return seconds * shape.num_interactions


def _by_softmax(epochs: int, shape: Shape, options: Mapping[str, Any]) -> float:
    """What so many epochs take, or as many as there are at most: products of all users with the items that are summed
    over, and in every step the tables that it changes; of a graph, messages along its edges besides."""
    dim, layers, pairs = int(options["model.dim"]), int(options.get("model.num_layers", 0)), shape.num_interactions
    most, own_vectors = int(options.get("train.epochs", epochs)), options.get("model.user_vectors", True)
    if shape.gpu:  # steps wait for each other, and every epoch ranks the validation
        epoch = GPU_EPOCH + 3e-10 * shape.num_users * shape.num_items + (not own_vectors) * 8e-9 * dim * pairs
        return 2.5e-8 * dim * pairs + most * epoch
    steps = shape.num_users / in_a_batch(TrainConfig.model_validate({}), shape.num_users)
    summed = shape.num_items if shape.num_items <= WHOLE else DRAWN
    cells = shape.num_users * min(summed, int(options.get("method.items", summed)))
    users = shape.num_users if own_vectors else shape.num_items
    rows = 2.5e-9 * (1 + layers) * (users + shape.num_items) + 5e-10 * layers * pairs
    start = 4e-9 * dim * (4 * pairs + (shape.num_users + shape.num_items) * dim / 10)
    epoch = cells * (2.8e-9 + 2.8e-11 * dim) + dim * (steps * rows + 6e-9 * pairs) + (1 + steps) * STEP
    return start + most * (epoch + JUDGE_SECONDS * _judged(shape) * shape.num_items)


def _by_tokens(shape: Shape, options: Mapping[str, Any]) -> float:
    """What two layers of attention take with all epochs, each interaction with the items that it is summed over."""
    dim, pairs, users = int(options["model.dim"]), shape.num_interactions, shape.num_users
    whole = WHOLE_ON_CUDA if shape.gpu else WHOLE
    products = 6 * pairs * dim * (24 * dim + (shape.num_items if shape.num_items <= whole else DRAWN))
    steps = 1 + users / in_a_batch(TrainConfig.model_validate({"batch_size": options["train.batch_size"]}), users)
    epoch = 0.015 * steps + JUDGE_SECONDS * _judged(shape) * shape.num_items + 2e-11 * products + 1e-7 * dim * pairs
    return float(options["train.epochs"]) * (GPU_EPOCH + 3e-3 * steps + 5e-14 * products if shape.gpu else epoch)


_log, _by_graph = partial(Range, by_logarithm=True), partial(_by_softmax, 16)
STEP, GPU_EPOCH = 1e-3, 0.1  # seconds of a step, however small, and of an epoch on a GPU
EASE = {"model.l2": _log(10, 2000), "model.dropout": Range(0, 0.6), "model.user_norm": Range(0, 0.5)}
QUICK = {"train.lr": 0.01, "train.patience": 3}
COSINE = {"model.scores": "cosine", "train.lr": 0.02, "train.patience": 3, "model.dim": 64}
HISTORY = {**COSINE, "model.user_vectors": False, "train.lr": 0.005, "model.dim": 128}
FACTORS = {"model.start": "factors", "train.l2": 0.0}  # where a trial takes a tenth of a budget: fewer epochs
FROM_HISTORY: dict[float, dict[str, Any]] = {0.2: {**FACTORS, "train.epochs": 18}, ONE_FAMILY: {"method.items": 512}}
FROM_PAIRS = {0.2: {**FACTORS, "train.lr": 0.01, "train.epochs": 14}}
# where there are many items
ON_GPU = {**FACTORS, "method.temperature": 0.12, "model.dim": 128, "train.lr": 0.01, "train.epochs": 24}
GRAPH = {**COSINE, "model.num_layers": 2}
FROM_GRAPH = {0.2: {**FACTORS, "train.lr": 0.01, "train.epochs": 10}}
DIM = _log(48, 192, whole=True)
SOFTMAX = {"model.item_bias": Switch(0, 1), "method.temperature": _log(0.1, 0.4), "model.dim": DIM}
ITEM_KNN = {"model.k": _log(30, 1000, whole=True), "model.balance": Range(0.3, 1), "model.shrink": _log(1, 300)}
IALS = {"model.dim": _log(24, 192, whole=True), "model.alpha": _log(0.01, 1), "model.penalty": _log(0.001, 0.1)}
GF_CF = {"model.factors": _log(32, 512, whole=True), "model.share": _log(0.05, 1)}
NEXT_KNN = {"model.reach": _log(1.5, 30), "model.half_life": _log(1.5, 12), "model.balance": Range(0.4, 1)}
SASREC = {"method.temperature": _log(0.05, 0.3), "model.dropout": Range(0.1, 0.5)}
SLIST = {"model.l2": _log(80, 1000), "model.half_life": _log(1.5, 12), "model.reach": _log(1, 30)}

ATTENTION = {"train.lr": 0.008, "train.l2": 0.0, "model.dim": 32, "train.epochs": 8, "train.batch_size": 12}
ATTENTION_ON_GPU = {
    "train.lr": 0.003,
    "train.batch_size": None,
    "model.dim": 128,
    "train.epochs": 32,
    "method.temperature": 0.07,
}

# In the order in which a budget is given to them.
FAMILIES: tuple[Family, ...] = (
    Family("popularity"),
    Family("ease", EASE, plain=5, least=6, share=0.2),
    Family("sparse-ease", EASE, plain=5),
    Family("next-knn", NEXT_KNN, in_order=True),
    Family("slist", SLIST, share=0.3, in_order=True),
    Family("sparse-slist", SLIST, in_order=True),
    Family("sasrec", SASREC, "softmax", ATTENTION, learning=_by_tokens, in_order=True),
    Family("cdae", SOFTMAX, "softmax", HISTORY, plain=1, cheaper=FROM_HISTORY, learning=partial(_by_softmax, 18)),
    Family("item-knn", ITEM_KNN),
    Family("ials", IALS, options={"model.dim": 64, "model.alpha": 0.1, "model.penalty": 0.01}),
    Family("mf", SOFTMAX, "softmax", COSINE, plain=1, share=0.3, cheaper=FROM_PAIRS, learning=partial(_by_softmax, 24)),
    Family("user-knn", {"model.k": _log(50, 1000, whole=True), "model.shrink": _log(1, 300)}, share=0.2),
    Family("graph-filter", {"model.power": Range(0.1, 1.5)}),
    Family("graph-filter", GF_CF, options={"model.power": 1.0, "model.factors": 256}, called="gf-cf"),
    Family("lightgcn", SOFTMAX, "softmax", GRAPH, plain=1, share=0.25, cheaper=FROM_GRAPH, learning=_by_graph),
    Family("mf", method="normal", options=QUICK, seeds=SEEDS, share=0.1, learning=partial(_by_pairs, 1.3e-5)),
    Family("gmf", method="deca-p", options=QUICK, seeds=SEEDS, share=0.1, learning=partial(_by_pairs, 2.8e-5)),
)


@dataclass(frozen=True)
class Search:
    """What is tried first: so many trials of each family. What is left of the budget goes to those that lead."""

    families: tuple[Family, ...]
    counts: tuple[int, ...]
    seconds: float  # by the cost model
    left_out: tuple[str, ...]  # one sentence for each family that is not tried
    labels: float = 0.0  # seconds, of these, of learning from labels and of what they add
    learning: float = 0.0  # of these, of learning from labels before the search

    def trials(self) -> list[list[Member]]:
        return [family.trials(count) for family, count in zip(self.families, self.counts, strict=True)]

    def sentence(self, budget: float) -> str:
        names = ", ".join(family.name for family in self.families)
        total, seconds = sum(map(len, self.trials())), max(1, round(self.seconds))
        tried = "1 configuration" if total == 1 else f"{total} configurations"
        labels = f" ({max(1, round(self.labels)):,} s of it for the labels)" if self.labels else ""
        return f"auto tries {names}: {tried}, estimated {seconds:,} s{labels} of {budget:,g} s, then more of the best"


def plan_search(
    shape: Shape,
    budget: float,
    families: Sequence[Family] = FAMILIES,
    has_times: bool = False,
    in_order: bool = False,
    memory: int = 0,
    labels: int = 0,
) -> Search:
    """The families that fit into a budget, and into so much memory, with their usual options, in their order; then of
    each as many trials as fit into its share of it. `in_order`: whether those that know order are tried. `labels`: how
    many there are. They are learned from for the search and again for each last fit, and so are the members that they
    add; where that takes more than half of the budget, the search still gets the other half."""
    fits = 3 if has_times else 2
    teaching = fits * _learning_seconds(shape, labels) if labels else 0.0
    spare = max(budget - teaching, budget / 2)
    of_budget = f"of a budget of {budget:g} s" + (f", of which the labels take {budget - spare:,.0f} s" * bool(labels))
    tried: list[Family] = []
    left_out = []
    total = 0.0
    for family in families:
        if family.in_order and not in_order:
            continue
        if shape.gpu and shape.num_items > WHOLE and "method.temperature" in family.ranges:
            family = replace(family, options={**family.options, **ON_GPU})
        if shape.gpu and family.model == "sasrec":
            family = replace(family, options={**family.options, **ATTENTION_ON_GPU})
        if (why := family.too_large(shape, max(MOST_BYTES, memory // 3))) is not None:
            left_out.append(f"{family.name} is not tried: {why}.")
            continue
        seconds = family.seconds(shape, 1, has_times)
        for share, options in family.cheaper.items():
            if seconds > share * spare:
                family = replace(family, options={**family.options, **options})
                seconds = family.seconds(shape, 1, has_times)
        again = fits * family.trial_seconds(shape, family.member()) if labels and family.model in CLEANED else 0.0
        if tried and (total + seconds + again > spare or seconds > family.share * spare):
            needs = max(1, seconds + again)
            left_out.append(f"{family.name} is not tried: it would take about {needs:,.0f} s {of_budget}.")
        else:
            tried.append(family)
            total += seconds + again
            teaching += again
    counts, share = [], COARSE * spare / len(tried)
    for family in tried:
        each = [family.seconds(shape, count, has_times) for count in range(1, family.most_trials + 1)]
        wanted = [n for n, seconds in enumerate(each, 1) if seconds <= share or n <= family.least]
        counts.append(max((n for n in wanted if total + each[n - 1] - each[0] <= spare), default=1))
        total += each[counts[-1] - 1] - each[0]
    learning = _learning_seconds(shape, labels) if labels else 0.0
    return Search(tuple(tried), tuple(counts), total + fits * learning, tuple(left_out), teaching, learning)


def _learning_seconds(shape: Shape, labels: int) -> float:
    """What it takes to learn from labels once: EASE or factors without each interaction, what all reference items get,
    and a regression whose penalties are chosen on some of the labels."""
    ease = cost_of("ease", {}, shape).fit if shape.num_items <= MOST_DENSE else 0.0
    pairs = LEARNING_PAIR * shape.num_interactions
    return LEARNING_LEAST + LEARNING_LABEL * min(labels, MOST_SEARCHED) + pairs + ease
