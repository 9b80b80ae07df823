"""What a few labels are worth: how well noise is told and how well is recommended, by the share that is labelled."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import torch

from accord.data.interactions import Dataset, Interactions
from accord.errors import InputError
from accord.evaluation.noise import auc
from accord.evaluation.significance import compare_to
from accord.fitting import fit
from accord.io.files import only_writer, replacing
from accord.methods.auto import clean_members
from accord.models.consensus import Member
from accord.posteriors.estimate import estimate
from accord.recommender.recommender import Recommender
from accord.report.tables import Table

NAME = "labels"
HEADS = (
    *("data", "labelled", "noise AUC", "without labels", "popularity", "NDCG@20", "consensus", "EASE"),
    *("EASE on real ones", "better than EASE, p below .01"),
)
NOTE = (
    "Mean ± sd over draws of the labels. AUC: real against noise, of training interactions whose label was not drawn. "
    "Consensus: what auto finds without labels. EASE: its penalty chosen on the validation; on real ones: fitted "
    "without all that is noise by the labels, of which no other row knows more than its share. p: a paired test over "
    "the users of the test."
)
By = Literal["random", "users"]
PENALTIES = (10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000)  # of EASE, chosen by validation
FIRST_DRAW = 1000
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
    budget: float = 120.0, say: Callable[[str], None] = print,
) -> list[Line]:  # fmt: skip
    """One line per draw, kept as soon as it is there: what is done already is not done again."""
    if "label" not in data.train.names:
        raise InputError(f"{data.name} has no labels to draw from; give --labels, as 'rating>=4'.")
    file = folder / f"{NAME}.jsonl"
    with only_writer(folder):
        lines = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
        done = {(line["dataset"], line["share"], line["by"], line["draw"]) for line in lines}
        left = [
            (share, way, draw)
            for share in shares
            for way in by
            for draw in range(draws)
            if (data.name, share, way, draw) not in done
        ]
        if left:
            say(f"{data.name}: what is reached without labels")
            known = _known(data, device, budget)
            for share, way, draw in left:
                lines.append(_drawn(data, known, share, way, draw, device))
                say(f"{data.name}: {share:.0%} of the labels by {way}, draw {draw + 1} of {draws}")
                with replacing(file) as path:
                    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
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
    """The labels of a share of the labelled training interactions, or all of a share of the users; NaN elsewhere."""
    label, rng = data.train.column("label").astype(np.float64), np.random.default_rng(FIRST_DRAW + draw)
    if by == "users":
        chosen = rng.permutation(len(data.users))[: max(1, round(share * len(data.users)))]
        kept = np.isin(data.rows(data.train)[0], chosen)
    else:
        kept = rng.random(len(label)) < share
    return np.where(kept, label, np.nan)


def _drawn(data: Dataset, known: Known, share: float, by: By, draw: int, device: str) -> Line:
    label = drawn_labels(data, share, by, draw)
    train = data.train.rows.set_column(data.train.names.index("label"), "label", pa.array(label, from_pandas=True))
    some = replace(data, train=Interactions(train, (data.train.user_ids, data.train.item_ids)))
    matrix, truth = some.training_csr(("label",)), data.training_csr(("label",)).columns["label"]
    found = estimate(matrix, matrix.columns["label"])
    rest = np.isnan(matrix.columns["label"]) & ~np.isnan(truth)
    made = known.consensus
    if found.used:
        members = [*known.members, *clean_members(known.candidates)]
        written = [member.model_dump(mode="json", exclude_defaults=True) for member in members]
        made = fit(some, "consensus", options={"model.members": written}, device=device, refit=False)
    base, ease, told = (one.metrics["mean"]["ndcg@20"] for one in (known.consensus, known.ease, known.told))
    return {
        "dataset": data.name, "share": share, "by": by, "draw": draw, "labels": int((~np.isnan(label)).sum()),
        "used": found.used, "auc": auc(found.p_real[rest], truth[rest] > 0.5),
        "label_free_auc": auc(found.label_free[rest], truth[rest] > 0.5),
        "popularity_auc": auc(matrix.popularity()[matrix.items][rest].astype(np.float64), truth[rest] > 0.5),
        "ece": found.figures.get("ece"), "ndcg@20": made.metrics["mean"]["ndcg@20"], "consensus": base, "ease": ease,
        "ease_told": told, "p_ease": _p(made, known.ease), "p_consensus": _p(made, known.consensus),
        "device": "cpu" if made.device.type == "cpu" else torch.cuda.get_device_name(made.device),
    }  # fmt: skip


def _p(one: Recommender, other: Recommender) -> float:
    """Of a paired test over the test's users."""
    if one is other:
        return 1.0
    users = [made.evaluation.per_user["ndcg@20"] for made in (one, other) if made.evaluation is not None]
    return float(compare_to(users[1], {"one": users[0]})["one"].p)


def table(lines: Sequence[Line]) -> Table:
    """Mean ± sd over draws, for every dataset and share."""
    return Table("What a few labels are worth", HEADS, tuple(_rows(lines)))


def _rows(lines: Sequence[Line]) -> Iterator[tuple[str, ...]]:
    groups: dict[tuple[str, str, float], list[Line]] = {}
    for line in lines:
        groups.setdefault((line["dataset"], line["by"], line["share"]), []).append(line)
    for (name, by, share), own in groups.items():
        better = sum(line["p_ease"] < 0.01 and line["ndcg@20"] > line["ease"] for line in own)
        means = [f"{fmean(line[key] for line in own):.4f}" for key in ("label_free_auc", "popularity_auc")]
        fixed = [f"{own[0][key]:.4f}" for key in ("consensus", "ease", "ease_told")]
        labelled = f"{share:.0%}" + (" of users" if by == "users" else "")
        yield name, labelled, _spread(own, "auc"), *means, _spread(own, "ndcg@20"), *fixed, f"{better} of {len(own)}"


def _spread(lines: Sequence[Line], key: str) -> str:
    values = [line[key] for line in lines]
    return f"{fmean(values):.4f}" + (f" ± {stdev(values):.4f}" if len(values) > 1 else "")
