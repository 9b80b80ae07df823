"""What a few labels are worth: noise detection and recommendations by the share that is labelled."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import fmean

import numpy as np
import torch

from accord.comparing.results import read_lines
from accord.consensus.labels import clean_members
from accord.data.interactions import Dataset
from accord.evaluation.evaluate import Evaluation, Relevant
from accord.evaluation.noise import auc, calibration
from accord.evaluation.significance import compare_to
from accord.fitting import fit
from accord.models.consensus import Member
from accord.posteriors.estimate import Estimate, estimate
from accord.protocol import CORRECTED
from accord.recommender.recommender import Recommender
from accord.report.tables import Table
from accord_lab import drawing
from accord_lab.labels.draws import DESCRIPTIONS, By, drawn_labels, with_train_labels, without_labels
from accord_lab.labels.study import Line, add_missing, grouped, require_labels, spread
from accord_lab.leaderboards.oracle import evaluate_weighted_ease
from accord_lab.names import Floats, display_name
from accord_lab.writing import Figure, write_all

NAME, TITLE = "labels", "What a few labels are worth"
HEADS = (
    *("data", "labelled", "noise AUC", "without labels", "popularity", "calibration error", "NDCG@20", "consensus"),
    *("EASE", "EASE on real ones", "share of its gain", "better than EASE, p below .01"),
)
HARD_HEADS = (
    *("data", "labelled", "used", "noise AUC", "without labels", "NDCG@20", "without labels", "lower, p below .05"),
)
NOTE = (
    "Mean ± sd over draws of the labels. AUC and calibration error (ten bins): of p_real, on training interactions "
    "whose label was not drawn, the error where the labels were used. Consensus: what auto reaches without labels. "
    "EASE: its penalty is chosen on the validation. EASE on real ones: of the real interactions alone, with the labels "
    "of all interactions, by the rule of the table below where there is one; share of its gain: how much of its gain "
    "over EASE in NDCG@20 auto with labels reaches. Where the parts of a log follow each other in time, all of these "
    "are fitted on the validation too before the test. p: a paired test over the users of the test."
)
JUDGED = ("auc", "label_free_auc", "popularity_auc", "ece")
JUDGED_HEADS = ("data", "labelled", "draws", "noise AUC", "without labels", "popularity")
FAIR: By = "random"
CURVES: dict[str, str] = {"random": "labels of any interactions", "users": "all labels of some users"}
PANELS = (  # what a figure shows: the key of a line, its title, and the levels drawn as lines
    ("auc", "noise AUC", {"popularity_auc": "popularity", "label_free_auc": "without labels"}),
    ("ndcg@20", "NDCG@20", {"ease": "EASE", "consensus": "consensus", "ease_told": "EASE on real ones"}),
)
PENALTIES = (10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000)  # of EASE, chosen by validation
BUDGET = 120.0


@dataclass(frozen=True)
class Truth:
    """Labels of all interactions by another rule than that of the drawn labels: results are judged by it too."""

    rule: str
    label: Floats  # of each training row: 1 real, 0 noise, NaN neither
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
class Baselines:
    """What is reached without labels: the consensus of `auto`, EASE tuned alike; and EASE on the real ones."""

    consensus: Recommender
    ease: Recommender
    ease_on_real: Evaluation
    penalty_on_real: float


def run(
    data: Dataset, shares: Sequence[float], by: Sequence[By], draws: int, folder: Path, device: str = "auto",
    budget: float = BUDGET, say: Callable[[str], None] = print, truth: Truth | None = None,
) -> list[Line]:  # fmt: skip
    """One line per draw; finished draws are not repeated.
    `truth`: a rule of what is real that EASE on real ones uses, and by which a second AUC is taken; None: the labels.
    """
    require_labels(data)
    keys = [
        {"dataset": data.name, "share": share, "by": way, "draw": draw, "budget": budget}
        for way in by
        for share in ([0.0] if way == "few" else shares)
        for draw in range(draws)
    ]

    def make(missing: list[Line]) -> Iterator[Line]:
        say(f"{data.name}: baselines without labels")
        baselines = _baselines(data, truth, device, budget)
        for key in missing:
            yield key | _judged_draw(data, truth, baselines, key["share"], key["by"], key["draw"], device)
            say(f"{data.name}: labels, {_labelled(key)}: draw {key['draw'] + 1} of {draws}")

    return add_missing(folder / f"{NAME}.jsonl", keys, make)


def _baselines(data: Dataset, truth: Truth | None, device: str, budget: float) -> Baselines:
    bare = without_labels(data)
    consensus = fit(bare, device=device, options={"model.budget": budget}, refit=False)
    on_real = _ease_on_real(bare, Truth.of(data) if truth is None else truth)
    tried = [fit(bare, "ease", options={"model.l2": l2}, device=device, refit=False) for l2 in PENALTIES]
    ease = max(tried, key=lambda one: one.metrics["runs"][0].get("valid_ndcg@20", 0.0))
    return Baselines(consensus, ease, *on_real)


def _ease_on_real(data: Dataset, truth: Truth) -> tuple[Evaluation, float]:
    """EASE of the real interactions, and its penalty, which the validation chooses. The validation joins the histories
    where it does for the others; no item of a history is recommended, real or not."""
    judge = partial(evaluate_weighted_ease, rules=CORRECTED, ks=[20])
    weights, valid_weights = ((label > 0.5).astype(np.float64) for label in (truth.label, truth.valid))
    valid, test = Relevant.of_validation(data, CORRECTED), Relevant.of_test(data, CORRECTED)
    best = max(PENALTIES, key=lambda l2: ndcg_of(judge(data, weights, l2, valid)))
    if data.comes_in_order:
        data, weights = data.before_test(data.valid), np.concatenate([weights, valid_weights])
    return judge(data, weights, best, test), float(best)


def _judged_draw(
    data: Dataset, truth: Truth | None, baselines: Baselines, share: float, by: By, draw: int, device: str
) -> Line:
    some = with_train_labels(without_labels(data), drawn_labels(data, share, by, draw))
    estimated, voting = with_label_members(some, baselines.consensus, device)
    without, ease = baselines.consensus.evaluation, baselines.ease.evaluation
    with_labels = voting.evaluate() if estimated.used else without
    train = some.training_csr()
    popularity = train.popularity()[train.items].astype(np.float64)
    place = np.searchsorted(voting.train.keys, train.keys)  # it may have been fitted on the validation too
    drawn, p_real, label_free = (values[place] for values in (estimated.label, estimated.p_real, estimated.label_free))

    def judge(rows: Floats) -> tuple[float, ...]:
        """The AUC of interactions whose label was not drawn, by the labels of all rows, and the calibration error."""
        label = with_train_labels(some, rows).training_csr().columns["label"]
        rest = np.isnan(drawn) & ~np.isnan(label)
        real, scores = label[rest] > 0.5, (p_real[rest], label_free[rest], popularity[rest])
        return *(auc(one, real) for one in scores), calibration(p_real[rest], real)["ece"]

    line = {
        "labels": int((~np.isnan(estimated.label)).sum()), "used": estimated.used,
        **dict(zip(JUDGED, judge(data.train.column("label")), strict=True)),
        "ndcg@20": ndcg_of(with_labels), "consensus": ndcg_of(without), "ease": ndcg_of(ease),
        "ease_told": ndcg_of(baselines.ease_on_real),
        "penalties": [float(baselines.ease.run.config.model_options["l2"]), baselines.penalty_on_real],
        "p_ease": _p(with_labels, ease),
        "p_consensus": _p(with_labels, without),
        "device": "cpu" if voting.device.type == "cpu" else torch.cuda.get_device_name(voting.device),
    }  # fmt: skip
    if truth is not None:
        by_truth = dict(zip((f"truth_{key}" for key in JUDGED[:3]), judge(truth.label), strict=False))
        line |= {"truth": truth.rule, **by_truth}
    return line


def with_label_members(some: Dataset, consensus: Recommender, device: str) -> tuple[Estimate, Recommender]:
    """What `auto` would make of labels, if it found the same members without them: p_real, and the vote of these and
    of those that labels teach."""
    entries = sorted(consensus.metrics["members"], key=lambda entry: -entry.get("valid_ndcg@20", 0.0))
    fields = Member.model_fields.keys() - {"weight", "epochs"}
    found = [Member(**{name: entry[name] for name in fields & entry.keys()}) for entry in entries]
    members = [one.model_dump(mode="json", exclude_defaults=True) for one in (*found, *clean_members(found))]
    made = fit(some, "consensus", options={"model.members": members}, device=device, refit=False)
    return estimate(made.train, made.train.columns.get("label")), made


def ndcg_of(evaluation: Evaluation | None) -> float:
    assert evaluation is not None
    return float(evaluation.mean()[0]["ndcg@20"])


def _p(one: Evaluation | None, other: Evaluation | None) -> float:
    """Of a paired test over the test's users."""
    if one is other or one is None or other is None:
        return 1.0
    return float(compare_to(other.per_user["ndcg@20"], {"one": one.per_user["ndcg@20"]})["one"].p)


# --- the page


def tables(lines: Sequence[Line]) -> list[Table]:
    """Mean ± sd over draws, for every dataset, way and share: labels drawn at random, then in harder ways."""
    groups = grouped(lines, "dataset", "budget", "by", "share")
    fair, hard = ([draws for draws in groups if (draws[0]["by"] == FAIR) is wanted] for wanted in (True, False))
    by_rule: dict[str, list[tuple[str, ...]]] = {}
    for draws in fair:
        if judged := [line for line in draws if "truth" in line]:
            spreads = (spread(judged, f"truth_{key}") for key in JUDGED[:3])
            row = _data(judged[0]), _labelled(judged[0]), str(len(judged)), *spreads
            by_rule.setdefault(judged[0]["truth"], []).append(row)
    made = [
        Table(TITLE, HEADS, tuple(map(_row, fair))),
        *(
            Table(f"Noise AUC of {rule.replace('; ', ' against ')}", JUDGED_HEADS, tuple(rows))
            for rule, rows in by_rule.items()
        ),
        Table("Labels that are few, wrong, or of some only", HARD_HEADS, tuple(map(_hard_row, hard))),
    ]
    return [table for table in made if table.rows]


def _row(draws: Sequence[Line]) -> tuple[str, ...]:
    first = draws[0]
    better = sum(line["p_ease"] < 0.01 and line["ndcg@20"] > line["ease"] for line in draws)
    means = [f"{fmean(line[key] for line in draws):.4f}" for key in ("label_free_auc", "popularity_auc")]
    fixed = [f"{first[key]:.4f}" for key in ("consensus", "ease", "ease_told")]
    used = [line for line in draws if line["used"]]
    room = first["ease_told"] - first["ease"]
    share = f"{fmean(line['ndcg@20'] - line['ease'] for line in draws) / room:.0%}" if room > 0 else ""
    return (
        *(_data(first), _labelled(first), spread(draws, "auc"), *means, spread(used, "ece") if used else ""),
        *(spread(draws, "ndcg@20"), *fixed, share, f"{better} of {len(draws)}"),
    )


def _hard_row(draws: Sequence[Line]) -> tuple[str, ...]:
    used = sum(line["used"] for line in draws)
    worse = sum(line["p_consensus"] < 0.05 and line["ndcg@20"] < line["consensus"] for line in draws)
    free, without = (f"{fmean(line[key] for line in draws):.4f}" for key in ("label_free_auc", "consensus"))
    return (
        *(_data(draws[0]), _labelled(draws[0]), f"{used} of {len(draws)}", spread(draws, "auc"), free),
        *(spread(draws, "ndcg@20"), without, f"{worse} of {len(draws)}"),
    )


def _data(line: Line) -> str:
    """The data, and how long auto searched where that is not the default."""
    seconds = line["budget"]
    return str(line["dataset"]) if seconds == BUDGET else f"{line['dataset']}, auto in {seconds:g} s"


def _labelled(line: Line) -> str:
    return DESCRIPTIONS[line["by"]].format(share=line["share"])


def figures(lines: Sequence[Line]) -> list[Figure]:
    """AUC and NDCG@20 against the share that is labelled, of each dataset with several shares at the usual budget."""
    made = []
    for name in dict.fromkeys(line["dataset"] for line in lines):
        drawn = [line for line in lines if line["dataset"] == name and line["budget"] == BUDGET]
        if len({line["share"] for line in drawn if line["by"] in CURVES}) > 1:
            panels = {
                title: (
                    {CURVES[by]: curve for by in CURVES if (curve := _by_share(drawn, by, key))},
                    {label: fmean(line[other] for line in drawn) for other, label in levels.items()},
                )
                for key, title, levels in PANELS
            }
            title = f"{display_name(name)}: what labels are worth, by their share"
            made.append(drawing.by_share(f"{NAME}-{name}.svg", title, panels))
    return made


def _by_share(lines: Sequence[Line], by: str, key: str) -> dict[float, list[float]]:
    groups = grouped((line for line in lines if line["by"] == by), "share")
    return {draws[0]["share"]: [line[key] for line in draws] for draws in groups}


def render(folder: Path) -> list[Table]:
    lines = read_lines(folder / f"{NAME}.jsonl")
    made = tables(lines)
    write_all(folder, NAME, [*made[:1], *figures(lines), *made[1:]], [NOTE], TITLE)
    return made
