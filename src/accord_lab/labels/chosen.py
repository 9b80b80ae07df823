"""What the labels that the audit asks for are worth, against as many drawn at random."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np
from scipy.stats import ttest_1samp

from accord.data.csr import Csr, IntArray
from accord.data.interactions import Dataset
from accord.evaluation.noise import auc
from accord.posteriors.estimate import Estimate, estimate, next_labels, uncertainty
from accord.report.tables import Table
from accord_lab.labels.draws import FIRST_DRAW
from accord_lab.labels.study import SIGNIFICANT, Line, add_missing, grouped, require_labels, spread
from accord_lab.names import mean_sd
from accord_lab.writing import page_of_lines

NAME, TITLE = "chosen", "Labels that the audit asks for"
START, AT_ONCE, MOST = 250, 50, 250  # labels drawn at random first, asked for at a time, asked for in all
HEADS = ("data", "labels", "chosen", "at random", "difference", "p")
NOTE = (
    "AUC of p_real, real against noise, on a half of the training interactions whose labels are never given; mean "
    f"± sd over draws of that half and of the first {START} labels. Chosen: {AT_ONCE} at a time, as an audit asks "
    "for them, each time with all labels before. p: of a paired t test over the draws, not corrected for the number "
    "of tests; p < 0.05 is marked."
)


def run(data: Dataset, draws: int, folder: Path, say: Callable[[str], None] = print) -> list[Line]:
    """One line per draw; finished draws are not repeated."""
    require_labels(data)

    def make(missing: list[Line]) -> Iterator[Line]:
        train = data.training_csr()
        for key in missing:
            yield key | _judged_draw(train, key["draw"])
            say(f"{data.name}: draw {key['draw'] + 1} of {draws}")

    return add_missing(folder / f"{NAME}.jsonl", [{"dataset": data.name, "draw": n} for n in range(draws)], make)


def _judged_draw(train: Csr, draw: int) -> Line:
    truth = train.columns["label"]
    order = np.random.default_rng(FIRST_DRAW + draw).permutation(np.flatnonzero(~np.isnan(truth)))
    judged = order[len(order) // 2 :]
    start, others = order[:START], order[START : len(order) // 2]

    def with_labels_of(rows: IntArray) -> tuple[Estimate, float]:
        label = np.full(len(truth), np.nan)
        label[rows] = truth[rows]
        estimated = estimate(train, label)
        return estimated, auc(estimated.p_real[judged], truth[judged] > 0.5)

    estimated, first = with_labels_of(start)
    line: Line = {"start": first, "used": estimated.used}
    chosen = start
    for number in range(AT_ONCE, MOST + 1, AT_ONCE):
        unsure = np.full(len(truth), np.nan)
        unsure[others] = uncertainty(estimated.p_real, estimated.used)[others]
        unsure[chosen] = np.nan
        chosen = np.concatenate([chosen, next_labels(unsure, train.users, train.items, AT_ONCE)])
        estimated, line[f"chosen {number}"] = with_labels_of(chosen)
    for number in (AT_ONCE, MOST):
        line[f"random {number}"] = with_labels_of(np.concatenate([start, others[:number]]))[1]
    return line


def tables(lines: Sequence[Line]) -> list[Table]:
    """Mean ± sd over draws, for every dataset."""
    rows: list[tuple[str, ...]] = []
    marked = set()
    for draws in grouped(lines, "dataset"):
        name = draws[0]["dataset"]
        rows.append((name, str(START), "", spread(draws, "start"), "", ""))
        for number in (AT_ONCE, MOST):
            chosen, random = (np.array([line[f"{way} {number}"] for line in draws]) for way in ("chosen", "random"))
            gains = chosen - random
            p = float(ttest_1samp(gains, 0).pvalue) if gains.std() > 0 else 1.0
            marked |= {(len(rows), 4)} if p < SIGNIFICANT else set()
            figures = mean_sd(chosen), mean_sd(random), f"{gains.mean():+.4f}", f"{p:.3f}"
            rows.append((name, f"{START} + {number}", *figures))
    return [Table(TITLE, HEADS, tuple(rows), (), frozenset(marked))]


render = partial(page_of_lines, NAME, TITLE, NOTE, tables)
