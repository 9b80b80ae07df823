"""How far labels are trusted where validation pairs have some too: what these say, what is taken, what it is worth."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from accord.comparing.results import keep_lines, mean_sd, read_lines
from accord.consensus.labels import trusted
from accord.consensus.votes import TRUST, better_trust, trust_gains
from accord.data.interactions import Dataset, Interactions
from accord.data.load import load
from accord.data.split import split
from accord.errors import InputError
from accord.evaluation.evaluate import Relevant
from accord.evaluation.ranking import Ranker
from accord.fitting import fit
from accord.io.files import only_writer
from accord.models.consensus import Consensus, Member
from accord.protocol import CORRECTED
from accord.recommender.recommender import Recommender
from accord.report.export import write_all
from accord.report.tables import Table
from accord_lab.label_shares import (
    BUDGET,
    FIRST_DRAW,
    drawn_labels,
    ndcg_of,
    relabelled,
    unlabelled,
    with_labels,
)

NAME, TITLE, PUSHED = "trust", "How far labels are trusted", "pushed"
ORDER = sorted(range(len(TRUST)), key=lambda number: TRUST[number])
NAMES = tuple(f"{TRUST[number]:g} times" for number in ORDER)
SAID_HEADS = ("data", "labelled", "pairs", *NAMES, "taken")
TEST_HEADS = ("data", "labelled", "without labels", *NAMES, "taken")
NOTE = (
    "Labels of a share of the training and of the validation interactions. What they teach counts so many times as "
    "usual in the vote; the usual is taken unless the validation pairs that are labelled real show another to be "
    "better by more than two standard errors over at least 20 users, and none where labels teach nothing. The others "
    "that vote are what auto finds without labels, and no label changes them here. All are fitted on the training "
    "interactions alone. Means over draws of the labels; ± sd."
)
GENERATED = "The log pushed is generated: nine of ten of what its users were shown are disliked."
RULES = {"protocol.test_history": "train"}  # what the validation judges is not fitted on it
Line = dict[str, Any]


def run(
    data: Dataset, shares: Sequence[float], draws: int, folder: Path, device: str = "auto", budget: float = BUDGET,
    say: Callable[[str], None] = print,
) -> list[Line]:  # fmt: skip
    """One line per draw, kept as soon as it is there: what is done already is not done again."""
    if not {"label"} <= {*data.train.names} & {*data.valid.names}:
        raise InputError(f"{data.name} has no labels to draw from; give --labels, as 'rating>=4'.")
    file = folder / f"{NAME}.jsonl"
    with only_writer(folder):
        lines = read_lines(file)
        done = {(line["dataset"], line["share"], line["draw"]) for line in lines}
        left = [(share, draw) for share in shares for draw in range(draws) if (data.name, share, draw) not in done]
        if left:
            say(f"{data.name}: what is reached without labels")
            consensus = fit(unlabelled(data), device=device, options={"model.budget": budget} | RULES, refit=False)
            for share, draw in left:
                lines.append(_drawn(data, consensus, share, draw, device) | {"budget": budget})
                say(f"{data.name}: {share:.0%} of the labels: draw {draw + 1} of {draws}")
                keep_lines(file, lines)
    return lines


def pushed_log(users: int = 600, items: int = 300, each: int = 50, real: float = 0.1, seed: int = 0) -> Dataset:
    """A generated log where most of what users were shown is disliked: what is pushed, a third of the items, by one
    taste of theirs; the rest is real, and of the other items, by another taste. `value` is 1 for what is real."""
    rng = np.random.default_rng(seed)

    def taken(first: int, last: int, number: int) -> npt.NDArray[np.int64]:
        """Of items first, …, last - 1 so many for each user, by a taste with four factors: [users, number]."""
        liking = rng.standard_normal((users, 4)) @ rng.standard_normal((4, last - first))
        return first + np.argsort(-liking - rng.gumbel(size=liking.shape), axis=1)[:, :number]

    liked = round(real * each)
    shown = np.concatenate([taken(0, items // 3, each - liked), taken(items // 3, items, liked)], 1).ravel()
    value = np.tile(np.repeat([0.0, 1.0], [each - liked, liked]), users)
    log = Interactions.of(pa.array(np.repeat(np.arange(users), each)), pa.array(shown), value=pa.array(value))
    return load(split(log, "random", clean="value>=1", seed=seed, name=PUSHED), labels="value>=1")


def _drawn(data: Dataset, consensus: Recommender, share: float, draw: int, device: str) -> Line:
    bare = unlabelled(data)
    some = relabelled(bare, drawn_labels(data, share, "random", draw))
    found, made, members = with_labels(some, consensus, device, RULES)
    kept = np.random.default_rng((FIRST_DRAW, draw)).random(len(data.valid)) < share
    known = data.valid.filter(kept & (data.valid.column("label") > 0.5))
    real = Relevant.of_validation(replace(bare, valid=known), CORRECTED)
    target = made.method.target
    assert isinstance(target, Consensus), "it was asked for"
    trained = list(target.members)
    ranker = Ranker.of(target, target.score_all, 1, real.seen, made.train, CORRECTED, made.device)
    gains, errors = trust_gains(target.sides, ranker, real)
    without = ndcg_of(consensus.evaluation)
    reached = [_reached(made, target, members, trained, trust) if found.used else without for trust in TRUST]
    return {
        "dataset": data.name, "share": share, "draw": draw, "used": found.used, "pairs": len(real.pairs.items),
        "users": len(real.users), "trust": list(TRUST), "gain": gains.tolist(), "error": errors.tolist(),
        "taken": better_trust(gains, errors, len(real.users)) if found.used else 0.0, "consensus": without,
        "ndcg@20": reached,
    }  # fmt: skip


def _reached(
    made: Recommender, target: Consensus, members: Sequence[Member], trained: Sequence[Any], trust: float
) -> float:
    """NDCG@20 on the test where labels are trusted so many times as usual."""
    votes = [(trusted(member, trust), method) for member, method in zip(members, trained, strict=True)]
    kept = [(member, method) for member, method in votes if member.weight]
    target.take([member for member, _ in kept], [method for _, method in kept])
    return ndcg_of(made.evaluate())


def tables(lines: Sequence[Line]) -> list[Table]:
    groups = list(_groups(lines).values())
    return [
        Table("What labelled validation pairs say, in standard errors", SAID_HEADS, tuple(map(_said_row, groups))),
        Table("NDCG@20 on the test", TEST_HEADS, tuple(map(_test_row, groups))),
    ]


def _groups(lines: Sequence[Line]) -> dict[tuple[str, float], list[Line]]:
    groups: dict[tuple[str, float], list[Line]] = {}
    for line in lines:
        groups.setdefault((line["dataset"], line["share"]), []).append(line)
    return groups


def _head(own: Sequence[Line]) -> tuple[str, str]:
    return own[0]["dataset"], f"{own[0]['share']:.0%}"


def _said_row(own: Sequence[Line]) -> tuple[str, ...]:
    sure = [fmean(line["gain"][n] / max(line["error"][n], 1e-12) for line in own) for n in ORDER]
    said = (f"{value:+.1f}" if TRUST[n] != TRUST[0] else "" for n, value in zip(ORDER, sure, strict=True))
    return *_head(own), f"{fmean(line['pairs'] for line in own):.0f}", *said, _taken(own)


def _taken(own: Sequence[Line]) -> str:
    counts = sorted(Counter(line["taken"] for line in own).items())
    return ", ".join(f"{trust:g} in {count} of {len(own)}" for trust, count in counts)


def _test_row(own: Sequence[Line]) -> tuple[str, ...]:
    reached = (mean_sd([line["ndcg@20"][n] for line in own]) for n in ORDER)
    taken = mean_sd([_of_taken(line) for line in own])
    return *_head(own), f"{own[0]['consensus']:.4f}", *reached, taken


def _of_taken(line: Line) -> float:
    return float(line["ndcg@20"][line["trust"].index(line["taken"])])


def findings(lines: Sequence[Line]) -> list[str]:
    """What is taken is worth on the test, beside the usual and the best of all."""
    said = []
    for (name, share), own in _groups(lines).items():
        taken, usual = fmean(map(_of_taken, own)), fmean(line["ndcg@20"][0] for line in own)
        best = max(range(len(TRUST)), key=lambda n: fmean(line["ndcg@20"][n] for line in own))
        most = fmean(line["ndcg@20"][best] for line in own)
        said.append(
            f"{name}, {share:.0%} of the labels: taken is {_taken(own)} draws, and NDCG@20 is {taken:.4f}; with the "
            f"usual always {usual:.4f}, with {TRUST[best]:g} times always, the best by the test, {most:.4f}."
        )
    return said


def write_page(folder: Path, lines: Sequence[Line]) -> list[Table]:
    made, generated = tables(lines), [GENERATED] if any(line["dataset"] == PUSHED for line in lines) else []
    write_all(folder, NAME, made, [NOTE, *generated, *findings(lines)], TITLE)
    return made


def render(folder: Path) -> list[Table]:
    """Write the page from the raw results alone."""
    return write_page(folder, read_lines(folder / f"{NAME}.jsonl"))
