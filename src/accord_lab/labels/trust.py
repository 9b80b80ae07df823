"""How far to trust labels where the validation has some too: what these say, what is chosen, and what it is worth."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from accord.comparing.results import read_lines
from accord.consensus.labels import trusted
from accord.consensus.votes import TRUST, better_trust, trust_gains
from accord.data.interactions import Dataset, Interactions
from accord.data.load import load
from accord.data.split import split
from accord.evaluation.evaluate import Relevant
from accord.evaluation.ranking import Ranker
from accord.fitting import fit
from accord.models.consensus import Consensus, Member
from accord.protocol import CORRECTED
from accord.recommender.recommender import Recommender
from accord.report.tables import Table
from accord_lab.labels.draws import FIRST_DRAW, drawn_labels, with_train_labels, without_labels
from accord_lab.labels.shares import BUDGET, add_label_members, ndcg_of
from accord_lab.labels.study import Line, add_missing, grouped, require_labels
from accord_lab.numbers import mean_sd
from accord_lab.writing import write_all

NAME, TITLE, PUSHED = "trust", "How far labels are trusted", "pushed"
ORDER = sorted(range(len(TRUST)), key=lambda number: TRUST[number])
FACTORS = tuple(f"{TRUST[number]:g} times" for number in ORDER)
VALIDATION_HEADS = ("data", "labelled", "pairs", *FACTORS, "chosen")
TEST_HEADS = ("data", "labelled", "without labels", *FACTORS, "chosen")
NOTE = (
    "Labels of a share of the training and of the validation interactions. The members that labels add count so many "
    "times as usual in the vote; the usual factor, 1, is chosen unless the validation pairs that are labelled real "
    "show another to be better by more than two standard errors over at least 20 users, and 0 where labels teach "
    "nothing. The other members are those that auto chooses without labels, and no label changes them here. All are "
    "fitted on the training interactions alone. Means over draws of the labels; ± sd; the best factor by the test is "
    "marked."
)
GENERATED = "The log pushed is generated: nine of ten of the items that its users were shown are disliked."
RULES = {"protocol.test_history": "train"}  # what the validation judges is not fitted on it


def run(
    data: Dataset, shares: Sequence[float], draws: int, folder: Path, device: str = "auto", budget: float = BUDGET,
    say: Callable[[str], None] = print,
) -> list[Line]:  # fmt: skip
    """One line per draw; finished draws are not repeated."""
    require_labels(data, "train", "valid")
    keys = [{"dataset": data.name, "share": share, "draw": draw} for share in shares for draw in range(draws)]

    def make(missing: list[Line]) -> Iterator[Line]:
        say(f"{data.name}: the consensus without labels")
        consensus = fit(without_labels(data), device=device, options={"model.budget": budget} | RULES, refit=False)
        for key in missing:
            yield key | _judged_draw(data, consensus, key["share"], key["draw"], device) | {"budget": budget}
            say(f"{data.name}: {key['share']:.0%} of the labels: draw {key['draw'] + 1} of {draws}")

    return add_missing(folder / f"{NAME}.jsonl", keys, make)


def pushed_log(users: int = 600, items: int = 300, each: int = 50, real: float = 0.1, seed: int = 0) -> Dataset:
    """A generated log where users dislike most of what they were shown. Pushed items, a third of all, fill most of a
    history by one taste of its user; the rest is real, of the other items by another taste. `value` is 1 for real."""
    rng = np.random.default_rng(seed)

    def take(first: int, last: int, number: int) -> npt.NDArray[np.int64]:
        """For each user, `number` of the items first, …, last - 1, by a taste with four factors: [users, number]."""
        liking = rng.standard_normal((users, 4)) @ rng.standard_normal((4, last - first))
        return first + np.argsort(-liking - rng.gumbel(size=liking.shape), axis=1)[:, :number]

    liked = round(real * each)
    shown = np.concatenate([take(0, items // 3, each - liked), take(items // 3, items, liked)], 1).ravel()
    value = np.tile(np.repeat([0.0, 1.0], [each - liked, liked]), users)
    log = Interactions.of(pa.array(np.repeat(np.arange(users), each)), pa.array(shown), value=pa.array(value))
    return load(split(log, "random", clean="value>=1", seed=seed, name=PUSHED), labels="value>=1")


def _judged_draw(data: Dataset, consensus: Recommender, share: float, draw: int, device: str) -> Line:
    bare = without_labels(data)
    some = with_train_labels(bare, drawn_labels(data, share, "random", draw))
    estimated, made, members = add_label_members(some, consensus, device, RULES)
    drawn = np.random.default_rng((FIRST_DRAW, draw)).random(len(data.valid)) < share
    real_rows = data.valid.filter(drawn & (data.valid.column("label") > 0.5))
    real = Relevant.of_validation(replace(bare, valid=real_rows), CORRECTED)
    target = made.method.target
    assert isinstance(target, Consensus)
    trained = list(target.members)
    ranker = Ranker.of(target, target.score_all, 1, real.seen, made.train, CORRECTED, made.device)
    gains, errors = trust_gains(target.sides, ranker, real)
    without = ndcg_of(consensus.evaluation)
    reached = [_ndcg(made, target, members, trained, trust) if estimated.used else without for trust in TRUST]
    return {
        "used": estimated.used, "pairs": len(real.pairs.items), "users": len(real.users), "trust": list(TRUST),
        "gain": gains.tolist(), "error": errors.tolist(), "consensus": without, "ndcg@20": reached,
        "taken": better_trust(gains, errors, len(real.users)) if estimated.used else 0.0,
    }  # fmt: skip


def _ndcg(
    made: Recommender, target: Consensus, members: Sequence[Member], trained: Sequence[Any], trust: float
) -> float:
    """NDCG@20 on the test where the members that labels add count `trust` times as usual."""
    votes = [(trusted(member, trust), method) for member, method in zip(members, trained, strict=True)]
    voting = [(member, method) for member, method in votes if member.weight]
    target.take([member for member, _ in voting], [method for _, method in voting])
    return ndcg_of(made.evaluate())


def tables(lines: Sequence[Line]) -> list[Table]:
    groups = grouped(lines, "dataset", "share")
    best = {
        (row, 3 + int(np.argmax([fmean(line["ndcg@20"][n] for line in draws) for n in ORDER])))
        for row, draws in enumerate(groups)
    }
    on_validation, on_test = (tuple(map(row, groups)) for row in (_validation_row, _test_row))
    return [
        Table("What labelled validation pairs say, in standard errors", VALIDATION_HEADS, on_validation),
        Table("NDCG@20 on the test", TEST_HEADS, on_test, (), frozenset(best)),
    ]


def _head(draws: Sequence[Line]) -> tuple[str, str]:
    return draws[0]["dataset"], f"{draws[0]['share']:.0%}"


def _validation_row(draws: Sequence[Line]) -> tuple[str, ...]:
    errors = [fmean(line["gain"][n] / max(line["error"][n], 1e-12) for line in draws) for n in ORDER]
    shown = (f"{value:+.1f}" if TRUST[n] != TRUST[0] else "" for n, value in zip(ORDER, errors, strict=True))
    counts = sorted(Counter(line["taken"] for line in draws).items())
    chosen = ", ".join(f"{trust:g} in {count} of {len(draws)}" for trust, count in counts)
    return *_head(draws), f"{fmean(line['pairs'] for line in draws):.0f}", *shown, chosen


def _test_row(draws: Sequence[Line]) -> tuple[str, ...]:
    reached = (mean_sd([line["ndcg@20"][n] for line in draws]) for n in ORDER)
    chosen = mean_sd([line["ndcg@20"][line["trust"].index(line["taken"])] for line in draws])
    return *_head(draws), f"{draws[0]['consensus']:.4f}", *reached, chosen


def render(folder: Path) -> list[Table]:
    """Write the page from the raw results alone."""
    lines = read_lines(folder / f"{NAME}.jsonl")
    made, generated = tables(lines), [GENERATED] if any(line["dataset"] == PUSHED for line in lines) else []
    write_all(folder, NAME, made, [NOTE, *generated], TITLE)
    return made
