"""What labels are worth in the training of a learned model: the same runs with a share of the labels and without."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import torch
from scipy.stats import ttest_1samp

from accord.comparing.results import keep_lines, mean_sd, read_lines
from accord.data.interactions import Dataset
from accord.errors import InputError
from accord.evaluation.noise import auc
from accord.fitting import fit
from accord.io.files import only_writer
from accord.methods import MethodSpec, method_name
from accord.recommender.recommender import Recommender
from accord.report.export import write_all
from accord.report.tables import Table
from accord.training.plan import FIRST_SEED
from accord_lab.graded import GradedDeCA
from accord_lab.label_shares import Floats, drawn_labels, relabelled

NAME = "training"
SHARE = 0.05
SURE = 0.05  # p below which a difference is more than chance
TITLE = "Labels in training"
HEADS = ("data", "model", "method", "without labels", "with 5%", "difference", "p", "noise AUC without", "with 5%")
GRADED_HEADS = ("data", "model", "method", "labels", "NDCG@20", "against the first", "p", "noise AUC")
NOTE = (
    f"NDCG@20 of learned models trained without labels and with those of {SHARE:.0%} of the training interactions: a "
    "rating of 4 or 5 is real, any other is noise. Mean ± sd over seeds, each of which has its own draw of labels; "
    "differences and p of a paired t test over the seeds, not corrected for how many there are. Default options; "
    "the epochs are chosen by the validation, "
    "which no label changes. Noise AUC: real against noise by p_real of the trained model, of training interactions "
    "whose label was not drawn."
)
Line = dict[str, Any]
Runs = dict[int, Line]  # by seed
Cells = dict[tuple[str, str, str], dict[str, Runs]]  # of dataset, model, method: by labels
KINDS = {"binary": "real or noise", "graded": "grades"}


def run(
    data: Dataset, draws: int, folder: Path, device: str = "auto", say: Callable[[str], None] = print,
    models: Sequence[str] = ("gmf", "mf"), methods: Sequence[str] = ("deca", "normal", "tce", "deca-p"),
) -> list[Line]:  # fmt: skip
    """One line per run, kept as soon as it is there: what is done already is not done again.

    Without labels, and with the share of them that a draw gives: each seed has its own draw. Where values go from 1
    to 5, DeCA is also given these as grades."""
    if "label" not in data.train.names:
        raise InputError(f"{data.name} has no labels to draw from; give --labels, as 'rating>=4'.")
    file, numbers = folder / f"{NAME}.jsonl", range(draws)
    cells: list[tuple[str, MethodSpec]] = [(model, method) for model in models for method in methods]
    bare = replace(data, train=data.train.without("label"))
    with only_writer(folder):
        lines = read_lines(file)

        def train(cell: tuple[str, MethodSpec], labels: str, own: Dataset, numbers: Sequence[int]) -> None:
            model, method = cell
            key = {"dataset": data.name, "model": model, "method": method_name(method), "labels": labels}
            done = [line["seed"] - FIRST_SEED for line in lines if key.items() <= line.items()]
            if left := [number for number in numbers if number not in done]:
                lines.extend(_trained(data, own, cell, key, left, device))
                keep_lines(file, lines)
                say(f"{data.name}: {model} + {key['method']}, labels {labels}, seed {FIRST_SEED + left[0]}")

        for cell in cells:
            train(cell, "none", bare, numbers)
            for number in numbers:
                train(cell, "binary", labelled(data, data.train.column("label"), number), [number])
        stars = data.train.has_value and set(np.unique(data.train.column("value"))) == {1, 2, 3, 4, 5}
        for number in numbers if stars and "deca" in methods else ():
            grades = labelled(data, (data.train.column("value").astype(np.float64) - 1) / 4, number)
            binary = labelled(data, data.train.column("label"), number)
            for model in models:
                train((model, "deca"), "graded", grades, [number])
                train((model, GradedDeCA), "graded", grades, [number])
                train((model, GradedDeCA), "binary", binary, [number])
    return lines


def labelled(data: Dataset, label: Floats, draw: int) -> Dataset:
    """The data with labels for a share of the training interactions."""
    some = np.where(np.isnan(drawn_labels(data, SHARE, "random", draw)), np.nan, label)
    return relabelled(data, some)


def _trained(
    data: Dataset, own: Dataset, cell: tuple[str, MethodSpec], key: Line, numbers: Sequence[int], device: str
) -> list[Line]:
    seeds = [FIRST_SEED + number for number in numbers]
    made = fit(own, *cell, seeds=seeds, device=device, refit=False)
    known = data.training_csr().columns["label"]
    found = []
    for place, (number, entry) in enumerate(zip(numbers, made.metrics["runs"], strict=True)):
        rest = np.isnan(labelled(data, data.train.column("label"), number).training_csr().columns["label"])
        rest &= ~np.isnan(known)
        p_real = _p_real(made, place)
        found.append({
            **key, "seed": entry["seed"], "share": SHARE, "given": int((~rest).sum()) if key["labels"] != "none" else 0,
            "ndcg@20": entry["metrics"]["ndcg@20"], "valid_ndcg@20": entry.get("valid_ndcg@20"),
            "auc": auc(p_real[rest], known[rest] > 0.5), "epochs": entry["epochs"],
        })  # fmt: skip
    return found


def _p_real(made: Recommender, run: int) -> Floats:
    """Of every training interaction, by one run: [n]."""
    train, found = made.train, []
    for part in np.array_split(np.arange(len(train.items)), max(1, len(train.items) // 2**16)):
        rows = [
            torch.from_numpy(np.asarray(side[part], dtype=np.int64)).to(made.device)
            for side in (train.users, train.items)
        ]
        with torch.inference_mode():
            every = made.method.posterior(*(one.expand(len(made.method.target.seeds), -1) for one in rows))
        found.append(every[run].double().cpu().numpy())
    return np.concatenate(found)


def _cells(lines: Sequence[Line]) -> Cells:
    found: Cells = {}
    for line in lines:
        own = found.setdefault((line["dataset"], line["model"], line["method"]), {})
        own.setdefault(line["labels"], {})[line["seed"]] = line
    return found


def tables(lines: Sequence[Line]) -> list[Table]:
    """With and without labels, and labels of several kinds."""
    cells = _cells(lines)
    rows = [(*key, *_paired(own["none"], own["binary"])) for key, own in cells.items() if {"none", "binary"} <= {*own}]
    graded: list[tuple[str, ...]] = []
    for (name, model, method), labels, base, own in _graded(cells):
        _, ndcg, gained, p, _, noise = _paired(base, own)
        paired = ("", "") if own is base else (gained, p)
        graded.append((name, model, method, KINDS[labels], ndcg, *paired, noise))
    made = [Table(TITLE, HEADS, tuple(rows))]
    return [*made, Table("Labels of one to five stars", GRADED_HEADS, tuple(graded))] if graded else made


def _graded(cells: Cells) -> Iterator[tuple[tuple[str, str, str], str, Runs, Runs]]:
    """What was told grades and what was not: its cell, its labels, the runs of DeCA told real or noise, and its own."""
    for name, model, method in [key for key, own in cells.items() if "graded" in own]:
        for labels in ("binary", "graded"):
            if own := cells[name, model, method].get(labels):
                yield (name, model, method), labels, cells[name, model, "deca"]["binary"], own


def findings(lines: Sequence[Line]) -> list[str]:
    """What the tables say, in sentences."""
    cells = _cells(lines)
    given = [
        (" ".join([key[0], " + ".join(key[1:])]), own["none"], own["binary"])
        for key, own in cells.items()
        if {"none", "binary"} <= {*own}
    ]
    graded = [
        (f"{key[0]} {key[1]} + {key[2]}, {KINDS[labels]},", base, own)
        for key, labels, base, own in _graded(cells)
        if own is not base
    ]
    said = ("With 5% of the labels NDCG@20 is", given), ("Against DeCA that is told real or noise it is", graded)
    return [f"{begin} {_sorted_out(pairs)}." for begin, pairs in said if pairs]


def _sorted_out(pairs: Sequence[tuple[str, Runs, Runs]]) -> str:
    """Which pairs of runs differ beyond chance, and how far."""
    groups: dict[str, list[str]] = {"higher": [], "lower": [], "level": []}
    for name, before, after in pairs:
        gained, p = _gained(before, after)
        share = fmean(gained) / fmean(before[seed]["ndcg@20"] for seed in sorted(before.keys() & after.keys()))
        kind = "level" if p >= SURE else "higher" if share > 0 else "lower"
        groups[kind].append(f"{name} {share:+.1%}")
    words = {"higher": f"higher beyond chance (p below {SURE})", "lower": "lower beyond chance", "level": "level"}
    return "; ".join(f"{words[kind]}: {', '.join(own) or 'none'}" for kind, own in groups.items())


def _gained(before: Runs, after: Runs) -> tuple[list[float], float]:
    """Differences by seed, and p of a paired t test."""
    gained = [after[seed]["ndcg@20"] - before[seed]["ndcg@20"] for seed in sorted(before.keys() & after.keys())]
    return gained, float(ttest_1samp(gained, 0).pvalue) if len(gained) > 1 else 1.0


def _paired(before: Runs, after: Runs) -> tuple[str, ...]:
    gained, p = _gained(before, after)
    figures = [_spread(own, key) for key in ("ndcg@20", "auc") for own in (before, after)]
    return (*figures[:2], f"{fmean(gained):+.4f}", f"{p:.3f}", *figures[2:])


def _spread(lines: Runs, key: str) -> str:
    return mean_sd([line[key] for line in lines.values()])


def write_page(folder: Path, lines: Sequence[Line]) -> list[Table]:
    made = tables(lines)
    write_all(folder, NAME, made, [NOTE, *findings(lines)], TITLE)
    return made


def render(folder: Path) -> list[Table]:
    """Write the page from the raw results alone."""
    return write_page(folder, read_lines(folder / f"{NAME}.jsonl"))
