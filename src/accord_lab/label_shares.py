"""What a few labels are worth: how well noise is told and how well is recommended, by the share that is labelled."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import torch

from accord.comparing.results import keep_lines, mean_sd, read_lines
from accord.consensus.labels import clean_members
from accord.data.interactions import Dataset, Interactions
from accord.errors import InputError
from accord.evaluation.evaluate import Evaluation, Relevant
from accord.evaluation.noise import auc, calibration
from accord.evaluation.significance import compare_to
from accord.fitting import fit
from accord.io.files import only_writer
from accord.models.consensus import Consensus, Member
from accord.posteriors.estimate import Estimate, estimate
from accord.protocol import CORRECTED
from accord.recommender.recommender import Recommender
from accord.report.export import write_all
from accord.report.tables import Figure, Table
from accord_lab import charts
from accord_lab.oracle import evaluate_told

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
    "its penalty chosen on the validation; on real ones: of what is real alone, which it knows of all interactions, by "
    "the rule of the table below where there is one. Where the parts of a log follow each other in time, all of these "
    "are fitted on the validation too before the test. p: a paired test over the users of the test."
)
JUDGED = ("auc", "label_free_auc", "popularity_auc", "ece")
JUDGED_HEADS = ("data", "labelled", "draws", "noise AUC", "without labels", "popularity")
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
CURVES: dict[str, str] = {"random": "labels of any interactions", "users": "all labels of some users"}
PANELS = (  # what a figure shows: the key of a line, its name, and what stands beside it
    ("auc", "noise AUC", {"popularity_auc": "popularity", "label_free_auc": "without labels"}),
    ("ndcg@20", "NDCG@20", {"ease": "EASE", "consensus": "consensus", "ease_told": "EASE on real ones"}),
)
PENALTIES = (10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000)  # of EASE, chosen by validation
FIRST_DRAW, BUDGET = 1000, 120.0
Floats = npt.NDArray[np.float64]
Line = dict[str, Any]


@dataclass(frozen=True)
class Truth:
    """What every training interaction is, by another rule than the labels': results are judged by it too."""

    rule: str
    label: Floats  # of each row: 1 real, 0 noise, NaN neither
    valid: Floats  # of each row of the validation

    @classmethod
    def of(cls, data: Dataset, rule: str = "") -> Truth:
        """What the labels of some data say."""
        label, valid = (
            part.column("label") if "label" in part.names else np.full(len(part), np.nan)
            for part in (data.train, data.valid)
        )
        return cls(rule, label, valid)


@dataclass(frozen=True)
class Known:
    """What is reached without labels: the consensus that `auto` finds, EASE tuned alike; and EASE told what is real."""

    consensus: Recommender
    ease: Recommender
    told: Evaluation


def run(
    data: Dataset, shares: Sequence[float], by: Sequence[By], draws: int, folder: Path, device: str = "auto",
    budget: float = BUDGET, say: Callable[[str], None] = print, truth: Truth | None = None,
) -> list[Line]:  # fmt: skip
    """One line per draw, kept as soon as it is there: what is done already is not done again. `truth`: a rule of what
    is real that EASE on real ones is told, and by which a second AUC is taken; None: what the labels say."""
    if "label" not in data.train.names:
        raise InputError(f"{data.name} has no labels to draw from; give --labels, as 'rating>=4'.")
    file = folder / f"{NAME}.jsonl"
    with only_writer(folder):
        lines = read_lines(file)
        done = {(line["dataset"], line["share"], line["by"], line["draw"], _budget(line)) for line in lines}
        left = [
            (share, way, draw)
            for way in by
            for share in ([0.0] if way == "few" else shares)
            for draw in range(draws)
            if (data.name, share, way, draw, budget) not in done
        ]
        if left:
            say(f"{data.name}: what is reached without labels")
            known = _known(data, truth, device, budget)
            for share, way, draw in left:
                lines.append(_drawn(data, truth, known, share, way, draw, device) | {"budget": budget})
                say(f"{data.name}: labels, {SAID[way].format(share=share)}: draw {draw + 1} of {draws}")
                keep_lines(file, lines)
    return lines


def _known(data: Dataset, truth: Truth | None, device: str, budget: float) -> Known:
    bare, real = unlabelled(data), Truth.of(data) if truth is None else truth
    consensus = fit(bare, device=device, options={"model.budget": budget}, refit=False)
    return Known(consensus, _tuned_ease(bare, device), _told_ease(bare, real))


def unlabelled(data: Dataset) -> Dataset:
    valid_clean = None if data.valid_clean is None else data.valid_clean.without("label")
    bare = {name: getattr(data, name).without("label") for name in ("train", "valid")}
    return replace(data, **bare, valid_clean=valid_clean)


def _tuned_ease(data: Dataset, device: str) -> Recommender:
    tried = [fit(data, "ease", options={"model.l2": l2}, device=device, refit=False) for l2 in PENALTIES]
    return max(tried, key=lambda one: one.metrics["runs"][0].get("valid_ndcg@20", 0.0))


def _told_ease(data: Dataset, truth: Truth) -> Evaluation:
    """EASE of what is real, that recommends nobody what they have; the validation chooses its penalty too, and is part
    of the histories where it is for the others."""
    judged = partial(evaluate_told, rules=CORRECTED, ks=[20])
    counts, later = ((label > 0.5).astype(np.float64) for label in (truth.label, truth.valid))
    valid, test = Relevant.of_validation(data, CORRECTED), Relevant.of_test(data, CORRECTED)
    best = max(PENALTIES, key=lambda l2: ndcg_of(judged(data, counts, l2, valid)))
    if data.comes_in_order:
        data, counts = data.before_test(data.valid), np.concatenate([counts, later])
    return judged(data, counts, best, test)


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


def _drawn(data: Dataset, truth: Truth | None, known: Known, share: float, by: By, draw: int, device: str) -> Line:
    some = relabelled(unlabelled(data), drawn_labels(data, share, by, draw))
    found, voting, _ = with_labels(some, known.consensus, device)
    matrix, without, ease = some.training_csr(), known.consensus.evaluation, known.ease.evaluation
    made = voting.evaluate() if found.used else without
    popular = matrix.popularity()[matrix.items].astype(np.float64)
    place = np.searchsorted(voting.train.keys, matrix.keys)  # it may have been fitted on the validation too
    drawn, p_real, label_free = (own[place] for own in (found.label, found.p_real, found.label_free))

    def told(rows: Floats) -> tuple[float, ...]:
        """AUC of those without a label, by labels of all rows, and the calibration error."""
        label = relabelled(some, rows).training_csr().columns["label"]
        rest = np.isnan(drawn) & ~np.isnan(label)
        real, scores = label[rest] > 0.5, (p_real[rest], label_free[rest], popular[rest])
        return *(auc(one, real) for one in scores), calibration(p_real[rest], real)["ece"]

    line = {
        "dataset": data.name, "share": share, "by": by, "draw": draw, "labels": int((~np.isnan(found.label)).sum()),
        "used": found.used, **dict(zip(JUDGED, told(data.train.column("label")), strict=True)),
        "ndcg@20": ndcg_of(made), "consensus": ndcg_of(without), "ease": ndcg_of(ease),
        "ease_told": ndcg_of(known.told), "p_ease": _p(made, ease), "p_consensus": _p(made, without),
        "device": "cpu" if known.ease.device.type == "cpu" else torch.cuda.get_device_name(known.ease.device),
    }  # fmt: skip
    if truth is not None:
        line |= {
            "truth": truth.rule,
            **dict(zip((f"truth_{key}" for key in JUDGED[:3]), told(truth.label), strict=False)),
        }
    return line


def relabelled(data: Dataset, label: Floats) -> Dataset:
    """The data with these labels of its training rows, NaN where there is none."""
    rows = data.train.without("label").rows.append_column("label", pa.array(label, from_pandas=True))
    return replace(data, train=Interactions(rows, (data.train.user_ids, data.train.item_ids)))


def with_labels(
    some: Dataset, consensus: Recommender, device: str, rules: Mapping[str, Any] | None = None
) -> tuple[Estimate, Recommender, list[Member]]:
    """What the labels teach, and what `auto` would make of them: their members beside those of a consensus that was
    found without, which no label changes, with the same rules; and all its members."""
    fields = Member.model_fields
    entries = ({k: v for k, v in entry.items() if k in fields} for entry in consensus.metrics["members"])
    members = clean_members([Member(**entry) for entry in entries])  # those without a vote are candidates too
    written = [member.model_dump(mode="json", exclude_defaults=True) for member in members]
    made = fit(some, "consensus", options={"model.members": written, **(rules or {})}, device=device, refit=False)
    vote, added = consensus.method.target, made.method.target
    assert isinstance(vote, Consensus), "auto makes one"
    assert isinstance(added, Consensus), "it was asked for"
    members = [*consensus.run.members, *members]
    added.take(members, [*vote.members, *added.members])
    return estimate(made.train, made.train.columns.get("label")), made, members


def ndcg_of(evaluation: Evaluation | None) -> float:
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
    judged: dict[str, list[tuple[str, ...]]] = {}
    for (_, by, _), own in groups.items():
        if by == FAIR and (told := [line for line in own if "truth" in line]):
            judged.setdefault(told[0]["truth"], []).append(_judged_row(told))
    second = (
        Table(f"Noise AUC of {rule.replace('; ', ' against ')}", JUDGED_HEADS, tuple(rows))
        for rule, rows in judged.items()
    )
    found = Table(TITLE, HEADS, fair), *second, Table("Labels that are few, wrong, or of some only", HARD_HEADS, hard)
    return [table for table in found if table.rows]


def _row(own: Sequence[Line]) -> tuple[str, ...]:
    better = sum(line["p_ease"] < 0.01 and line["ndcg@20"] > line["ease"] for line in own)
    means = [f"{fmean(line[key] for line in own):.4f}" for key in ("label_free_auc", "popularity_auc")]
    fixed = [f"{own[0][key]:.4f}" for key in ("consensus", "ease", "ease_told")]
    used = [line for line in own if line.get("used", True)]
    spreads = [_spread(used, "ece") if used else "", _spread(own, "ndcg@20")]
    return _searched(own[0]), _said(own[0]), _spread(own, "auc"), *means, *spreads, *fixed, f"{better} of {len(own)}"


def _judged_row(own: Sequence[Line]) -> tuple[str, ...]:
    head = _searched(own[0]), _said(own[0]), str(len(own))
    return *head, *(_spread(own, f"truth_{key}") for key in JUDGED[:3])


def _hard_row(own: Sequence[Line]) -> tuple[str, ...]:
    used, worse = sum(line["used"] for line in own), sum(map(_harmed, own))
    free, without = (f"{fmean(line[key] for line in own):.4f}" for key in ("label_free_auc", "consensus"))
    return (
        *(_searched(own[0]), _said(own[0]), f"{used} of {len(own)}", _spread(own, "auc"), free),
        *(_spread(own, "ndcg@20"), without, f"{worse} of {len(own)}"),
    )


def sentences(lines: Sequence[Line]) -> list[str]:
    """What auto gains of what there is to gain, and whether labels that are few, wrong or of some only harm."""
    return [*_recovered(lines), *_hard(lines)]


def _recovered(lines: Sequence[Line]) -> list[str]:
    groups: dict[str, dict[float, list[float]]] = {}
    for line in lines:
        if line["by"] == FAIR and line["ease_told"] > line["ease"]:
            part = (line["ndcg@20"] - line["ease"]) / (line["ease_told"] - line["ease"])
            groups.setdefault(_searched(line), {}).setdefault(line["share"], []).append(part)
    if not groups:
        return []
    said = (
        f"{name} "
        + ", ".join(f"{fmean(parts):.0%} ({share:.0%} of the labels)" for share, parts in sorted(own.items()))
        for name, own in groups.items()
    )
    return [f"Of what EASE on real ones gains over EASE in NDCG@20, auto with labels gains: {'; '.join(said)}."]


def _hard(lines: Sequence[Line]) -> list[str]:
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
    seconds = _budget(line)
    return str(line["dataset"]) if seconds == BUDGET else f"{line['dataset']}, auto in {seconds:g} s"


def _budget(line: Line) -> float:
    return float(line.get("budget", BUDGET))


def _said(line: Line) -> str:
    return SAID[line["by"]].format(share=line["share"])


def _spread(lines: Sequence[Line], key: str) -> str:
    return mean_sd([line[key] for line in lines])


def figures(lines: Sequence[Line]) -> list[Figure]:
    """AUC and NDCG@20 against the share that is labelled, of each dataset with several shares at the usual budget."""
    made = []
    for name in dict.fromkeys(line["dataset"] for line in lines):
        own = [line for line in lines if line["dataset"] == name and _budget(line) == BUDGET]
        if len({line["share"] for line in own if line["by"] in CURVES}) > 1:
            panels = {
                title: (
                    {CURVES[by]: curve for by in CURVES if (curve := _by_share(own, by, key))},
                    {named: fmean(line[other] for line in own) for other, named in levels.items()},
                )
                for key, title, levels in PANELS
            }
            title = f"{charts.display_name(name)}: what labels are worth, by their share"
            made.append(charts.by_share(f"{NAME}-{name}.svg", title, panels))
    return made


def _by_share(lines: Sequence[Line], by: str, key: str) -> dict[float, list[float]]:
    found: dict[float, list[float]] = {}
    for line in lines:
        if line["by"] == by:
            found.setdefault(line["share"], []).append(line[key])
    return found


def write_page(folder: Path, lines: Sequence[Line]) -> list[Table]:
    made = tables(lines)
    write_all(folder, NAME, [*made[:1], *figures(lines), *made[1:]], [NOTE, *sentences(lines)], TITLE)
    return made


def render(folder: Path) -> list[Table]:
    """Write the page from the raw results alone."""
    return write_page(folder, read_lines(folder / f"{NAME}.jsonl"))
