"""What labels are worth in the training of a learned model: the same runs with a share of the labels and without."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from statistics import fmean

import numpy as np
from scipy.stats import ttest_1samp

from accord.data.interactions import Dataset
from accord.evaluation.noise import auc
from accord.fitting import fit
from accord.report.tables import Table
from accord.training.plan import FIRST_SEED
from accord_lab.labels.draws import drawn_labels, with_train_labels
from accord_lab.labels.study import SIGNIFICANT, Line, add_missing, grouped, require_labels, spread
from accord_lab.names import Floats
from accord_lab.pair_scores import pair_scores
from accord_lab.writing import page_of_lines

NAME, TITLE = "training", "Labels in training"
SHARE = 0.05
HEADS = (
    *("data", "model", "method", "without labels", "with 5%", "difference", "change", "p", "noise AUC without"),
    "with 5%",
)
NOTE = (
    f"NDCG@20 of learned models trained without labels and with those of {SHARE:.0%} of the training interactions: a "
    "rating of 4 or 5 is real, any other is noise. Mean ± sd over seeds, each of which has another draw of labels; "
    "differences and p of a paired t test over the seeds, not corrected for the number of tests; p < 0.05 is marked. "
    "Default options; the epochs are chosen by the validation, which no label changes. Noise AUC: real against noise "
    "by p_real of the trained model, of training interactions whose label was not drawn."
)
Runs = dict[int, Line]  # by seed


def run(
    data: Dataset, draws: int, folder: Path, device: str = "auto", say: Callable[[str], None] = print,
    models: Sequence[str] = ("gmf", "mf"), methods: Sequence[str] = ("deca", "normal", "tce", "deca-p"),
) -> list[Line]:  # fmt: skip
    """One line per run; finished runs are not repeated.
    Each seed is trained without labels, and with another draw of a share of them."""
    require_labels(data)
    file, seeds = folder / f"{NAME}.jsonl", range(FIRST_SEED, FIRST_SEED + draws)
    lines = []
    for model, method, labels in product(models, methods, ("none", "binary")):
        cell = {"dataset": data.name, "model": model, "method": method, "labels": labels}

        def make(missing: list[Line], method: str = method) -> Iterator[Line]:
            for keys in [missing] if missing[0]["labels"] == "none" else [[key] for key in missing]:
                yield from _trained(data, method, keys, device)
                say(f"{data.name}: {keys[0]['model']} + {keys[0]['method']}, labels {keys[0]['labels']}")

        lines = add_missing(file, [cell | {"seed": seed} for seed in seeds], make)
    return lines


def labelled(data: Dataset, label: Floats, draw: int) -> Dataset:
    return with_train_labels(data, np.where(np.isnan(drawn_labels(data, SHARE, "random", draw)), np.nan, label))


def _trained(data: Dataset, method: str, keys: Sequence[Line], device: str) -> Iterator[Line]:
    """The lines of runs that are trained at once: several seeds without labels, or one seed with its draw of them."""
    model, labels = keys[0]["model"], keys[0]["labels"]
    draw, truth = keys[0]["seed"] - FIRST_SEED, data.train.column("label")
    given = replace(data, train=data.train.without("label")) if labels == "none" else labelled(data, truth, draw)
    made = fit(given, model, method, seeds=[key["seed"] for key in keys], device=device, refit=False)
    label = data.training_csr().columns["label"]
    p_real = pair_scores(made, made.train.users, made.train.items)
    for run, (key, entry) in enumerate(zip(keys, made.metrics["runs"], strict=True)):
        drawn = ~np.isnan(labelled(data, truth, key["seed"] - FIRST_SEED).training_csr().columns["label"])
        rest = ~drawn & ~np.isnan(label)
        yield key | {
            "share": SHARE, "given": int((~rest).sum()) if labels != "none" else 0,
            "ndcg@20": entry["metrics"]["ndcg@20"], "valid_ndcg@20": entry.get("valid_ndcg@20"),
            "auc": auc(p_real[run][rest], label[rest] > 0.5), "epochs": entry["epochs"],
        }  # fmt: skip


def tables(lines: Sequence[Line]) -> list[Table]:
    rows: list[tuple[str, ...]] = []
    marked = set()
    for cell in grouped(lines, "dataset", "model", "method"):
        kinds: list[Runs] = [{one["seed"]: one for one in cell if one["labels"] == kind} for kind in ("none", "binary")]
        if all(kinds):
            difference, change, p, significant = _differences(*kinds)
            marked |= {(len(rows), 5)} if significant else set()
            ndcg, noise = ([spread(runs.values(), name) for runs in kinds] for name in ("ndcg@20", "auc"))
            what = (cell[0][name] for name in ("dataset", "model", "method"))
            rows.append((*what, *ndcg, difference, change, p, *noise))
    return [Table(TITLE, HEADS, tuple(rows), (), frozenset(marked))]


def _differences(before: Runs, after: Runs) -> tuple[str, str, str, bool]:
    """The mean difference by seed, relative too, p of a paired t test, and whether that is significant."""
    seeds = sorted(before.keys() & after.keys())
    gains = [after[seed]["ndcg@20"] - before[seed]["ndcg@20"] for seed in seeds]
    p = float(ttest_1samp(gains, 0).pvalue) if len(gains) > 1 else 1.0
    change = fmean(gains) / fmean(before[seed]["ndcg@20"] for seed in seeds)
    return f"{fmean(gains):+.4f}", f"{change:+.1%}", f"{p:.3f}", p < SIGNIFICANT


render = partial(page_of_lines, NAME, TITLE, NOTE, tables)
