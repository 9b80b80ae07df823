"""What a few labels are worth: how well noise is told and how well is recommended, by the share that is labelled."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import torch

from accord.data.interactions import Dataset, Interactions
from accord.errors import InputError
from accord.evaluation.evaluate import Evaluation
from accord.evaluation.noise import auc, calibration
from accord.evaluation.significance import compare_to
from accord.experiments.results import keep_lines, mean_sd, read_lines
from accord.fitting import fit
from accord.io.files import only_writer
from accord.methods.auto import clean_members
from accord.models.consensus import Consensus, Member
from accord.posteriors.estimate import estimate
from accord.recommender.recommender import Recommender
from accord.report.tables import Table, write_all

NAME, TITLE = "labels", "What a few labels are worth"
HEADS = (
    *("data", "labelled", "noise AUC", "without labels", "popularity", "calibration error", "NDCG@20", "consensus"),
    *("EASE", "EASE on real ones", "better than EASE, p below .01"),
)
HARD_HEADS = (
    *("data", "labelled", "used", "noise AUC", "without labels", "NDCG@20", "without labels", "lower, p below .05"),
)
NOTE = (
    "Mean ± sd over draws of the labels. AUC and calibration error (ten bins): of p_real, on training interactions "
    "whose label was not drawn, the error where the labels were used. Consensus: what auto finds without labels. EASE: "
    "its penalty chosen on the validation; "
    "on real ones: fitted without all that is noise by the labels, of which no other row knows more than its share. p: "
    "a paired test over the users of the test."
)
By = Literal["random", "users", "popular", "one-class", "few", "wrong"]
FAIR: By = "random"
POPULAR, REAL, FEW, WRONG = 0.1, 0.9, 20, 0.1  # share of the items, of the labels; labels in all; share of the labels
SAID: dict[str, str] = {  # how a draw is called
    "random": "{share:.0%}",
    "users": "{share:.0%} of users",
    "popular": "{share:.0%}, all of the most popular tenth of the items",
    "one-class": "{share:.0%}, nine of ten of them real",
    "few": "20 in all",
    "wrong": "{share:.0%}, one of ten of them wrong",
}
PENALTIES = (10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000)  # of EASE, chosen by validation
FIRST_DRAW, BUDGET = 1000, 120.0
Floats = npt.NDArray[np.float64]
Line = dict[str, Any]


@dataclass(frozen=True)
class Known:
    """What is reached without labels: the consensus that `auto` finds, EASE tuned alike, and EASE without the noise."""

    consensus: Recommender
    ease: Recommender
    told: Recommender

    @property
    def members(self) -> list[Member]:
        return list(self.consensus.run.members)

    @property
    def candidates(self) -> list[Member]:
        """The best of each family, those without a vote too."""
        fields = Member.model_fields
        return [
            Member(**{k: v for k, v in entry.items() if k in fields}) for entry in self.consensus.metrics["members"]
        ]


def run(
    data: Dataset, shares: Sequence[float], by: Sequence[By], draws: int, folder: Path, device: str = "auto",
    budget: float = BUDGET, say: Callable[[str], None] = print,
) -> list[Line]:  # fmt: skip
    """One line per draw, kept as soon as it is there: what is done already is not done again."""
    if "label" not in data.train.names:
        raise InputError(f"{data.name} has no labels to draw from; give --labels, as 'rating>=4'.")
    file = folder / f"{NAME}.jsonl"
    with only_writer(folder):
        lines = read_lines(file)
        done = {(line["dataset"], line["share"], line["by"], line["draw"]) for line in lines}
        left = [
            (share, way, draw)
            for way in by
            for share in ([0.0] if way == "few" else shares)
            for draw in range(draws)
            if (data.name, share, way, draw) not in done
        ]
        if left:
            say(f"{data.name}: what is reached without labels")
            known = _known(data, device, budget)
            for share, way, draw in left:
                lines.append(_drawn(data, known, share, way, draw, device) | {"budget": budget})
                say(f"{data.name}: labels, {SAID[way].format(share=share)}: draw {draw + 1} of {draws}")
                keep_lines(file, lines)
    return lines


def _known(data: Dataset, device: str, budget: float) -> Known:
    label = data.train.column("label")
    real = data.train.filter(~(label < 0.5))  # what is known to be noise is left out
    told = replace(_unlabelled(data), train=Interactions.of(real.users, real.items))
    consensus = fit(_unlabelled(data), device=device, options={"model.budget": budget}, refit=False)
    return Known(consensus, _tuned_ease(_unlabelled(data), device), _tuned_ease(told, device))


def _unlabelled(data: Dataset) -> Dataset:
    return replace(data, train=data.train.without("label"))


def _tuned_ease(data: Dataset, device: str) -> Recommender:
    tried = [fit(data, "ease", options={"model.l2": l2}, device=device, refit=False) for l2 in PENALTIES]
    return max(tried, key=lambda one: one.metrics["runs"][0].get("valid_ndcg@20", 0.0))


def drawn_labels(data: Dataset, share: float, by: By, draw: int) -> Floats:
    """The labels of a share of the labelled training interactions, drawn in one of the ways; NaN elsewhere."""
    label, rng = data.train.column("label").astype(np.float64), np.random.default_rng(FIRST_DRAW + draw)
    known = ~np.isnan(label)
    if by == "users":
        chosen = rng.permutation(len(data.users))[: max(1, round(share * len(data.users)))]
        return np.where(np.isin(data.rows(data.train)[0], chosen), label, np.nan)
    if by == "few":
        kept = np.zeros(len(label), dtype=bool)
        kept[rng.permutation(np.flatnonzero(known))[:FEW]] = True
        return np.where(kept, label, np.nan)
    chance: Floats | float = share
    if by == "popular":
        items = data.rows(data.train)[1]
        counts = np.bincount(items, minlength=len(data.items))
        among = np.isin(items, np.argsort(-counts, kind="stable")[: max(1, round(POPULAR * len(counts)))])
        chance = np.where(among, share * known.sum() / max(1, (among & known).sum()), 0.0)
    elif by == "one-class":
        real, noise = known & (label > 0.5), known & (label <= 0.5)
        wanted = share * min(known.sum(), real.sum() / REAL)
        chance = np.where(real, REAL * wanted / real.sum(), (1 - REAL) * wanted / max(1, noise.sum()))
    kept = rng.random(len(label)) < chance
    if by == "wrong":
        label = np.where(rng.random(len(label)) < WRONG, 1 - label, label)
    return np.where(kept, label, np.nan)


def _drawn(data: Dataset, known: Known, share: float, by: By, draw: int, device: str) -> Line:
    label = drawn_labels(data, share, by, draw)
    train = data.train.rows.set_column(data.train.names.index("label"), "label", pa.array(label, from_pandas=True))
    some = replace(data, train=Interactions(train, (data.train.user_ids, data.train.item_ids)))
    matrix, truth = some.training_csr(("label",)), data.training_csr(("label",)).columns["label"]
    found = estimate(matrix, matrix.columns["label"])
    rest = np.isnan(matrix.columns["label"]) & ~np.isnan(truth)
    real = truth[rest] > 0.5
    made = _with_labels(some, known, device) if found.used else known.consensus.evaluation
    without, ease, told = (one.evaluation for one in (known.consensus, known.ease, known.told))
    return {
        "dataset": data.name, "share": share, "by": by, "draw": draw, "labels": int((~np.isnan(label)).sum()),
        "used": found.used, "auc": auc(found.p_real[rest], real), "label_free_auc": auc(found.label_free[rest], real),
        "popularity_auc": auc(matrix.popularity()[matrix.items][rest].astype(np.float64), real),
        "ece": calibration(found.p_real[rest], real)["ece"], "ndcg@20": _ndcg(made), "consensus": _ndcg(without),
        "ease": _ndcg(ease), "ease_told": _ndcg(told), "p_ease": _p(made, ease), "p_consensus": _p(made, without),
        "device": "cpu" if known.ease.device.type == "cpu" else torch.cuda.get_device_name(known.ease.device),
    }  # fmt: skip


def _with_labels(some: Dataset, known: Known, device: str) -> Evaluation:
    """What `auto` would make of the labels: their members beside those that are known, which no label changes."""
    members = clean_members(known.candidates)
    written = [member.model_dump(mode="json", exclude_defaults=True) for member in members]
    made = fit(some, "consensus", options={"model.members": written}, device=device, refit=False)
    vote, added = known.consensus.method.target, made.method.target
    assert isinstance(vote, Consensus), "auto makes one"
    assert isinstance(added, Consensus), "it was asked for"
    added.take([*known.members, *members], [*vote.members, *added.members])
    return made.evaluate()


def _ndcg(evaluation: Evaluation | None) -> float:
    assert evaluation is not None, "it was just trained"
    return float(evaluation.mean()[0]["ndcg@20"])


def _p(one: Evaluation | None, other: Evaluation | None) -> float:
    """Of a paired test over the test's users."""
    if one is other or one is None or other is None:
        return 1.0
    return float(compare_to(other.per_user["ndcg@20"], {"one": one.per_user["ndcg@20"]})["one"].p)


def tables(lines: Sequence[Line]) -> list[Table]:
    """Mean ± sd over draws, for every dataset, way and share: labels drawn at random, then those that are not."""
    groups: dict[tuple[str, str, float], list[Line]] = {}
    for line in lines:
        groups.setdefault((_searched(line), line["by"], line["share"]), []).append(line)
    fair = tuple(_row(own) for (_, by, _), own in groups.items() if by == FAIR)
    hard = tuple(_hard_row(own) for (_, by, _), own in groups.items() if by != FAIR)
    found = Table(TITLE, HEADS, fair), Table("Labels that are few, wrong, or of some only", HARD_HEADS, hard)
    return [table for table in found if table.rows]


def _row(own: Sequence[Line]) -> tuple[str, ...]:
    better = sum(line["p_ease"] < 0.01 and line["ndcg@20"] > line["ease"] for line in own)
    means = [f"{fmean(line[key] for line in own):.4f}" for key in ("label_free_auc", "popularity_auc")]
    fixed = [f"{own[0][key]:.4f}" for key in ("consensus", "ease", "ease_told")]
    used = [line for line in own if line.get("used", True)]
    spreads = [_spread(used, "ece") if used else "", _spread(own, "ndcg@20")]
    return _searched(own[0]), _said(own[0]), _spread(own, "auc"), *means, *spreads, *fixed, f"{better} of {len(own)}"


def _hard_row(own: Sequence[Line]) -> tuple[str, ...]:
    used, worse = sum(line["used"] for line in own), sum(map(_harmed, own))
    free, without = (f"{fmean(line[key] for line in own):.4f}" for key in ("label_free_auc", "consensus"))
    return (
        *(_searched(own[0]), _said(own[0]), f"{used} of {len(own)}", _spread(own, "auc"), free),
        *(_spread(own, "ndcg@20"), without, f"{worse} of {len(own)}"),
    )


def sentences(lines: Sequence[Line]) -> list[str]:
    """What the draws of labels that are few, wrong or of some only say together."""
    hard = [line for line in lines if line["by"] != FAIR]
    if not hard:
        return []
    used = [line for line in hard if line["used"]]
    lower = sum(line["auc"] < line["label_free_auc"] for line in used)
    return [
        f"Of {len(hard)} draws of labels that are few, wrong or of some only, {len(used)} were used; the others change "
        f"nothing. Where they were used, they tell noise worse than no labels in {lower}, and recommend worse, with p "
        f"below .05, in {sum(map(_harmed, used))}."
    ]


def _harmed(line: Line) -> bool:
    return bool(line["p_consensus"] < 0.05 and line["ndcg@20"] < line["consensus"])


def _searched(line: Line) -> str:
    """The data, and how long auto searched where that is not the default."""
    seconds = line.get("budget", BUDGET)
    return str(line["dataset"]) if seconds == BUDGET else f"{line['dataset']}, auto in {seconds:g} s"


def _said(line: Line) -> str:
    return SAID[line["by"]].format(share=line["share"])


def _spread(lines: Sequence[Line], key: str) -> str:
    return mean_sd([line[key] for line in lines])


def write_page(folder: Path, lines: Sequence[Line]) -> list[Table]:
    made = tables(lines)
    write_all(folder, NAME, made, [NOTE, *sentences(lines)], TITLE)
    return made


def render(folder: Path) -> list[Table]:
    """Write the page from the raw results alone."""
    return write_page(folder, read_lines(folder / f"{NAME}.jsonl"))
