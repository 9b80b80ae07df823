"""What the labels are worth that the audit asks for, against as many that are drawn at random."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.stats import ttest_1samp

from accord.comparing.results import keep_lines, mean_sd, read_lines
from accord.data.csr import Csr
from accord.data.interactions import Dataset
from accord.errors import InputError
from accord.evaluation.noise import auc
from accord.io.files import only_writer
from accord.posteriors.estimate import Estimate, estimate
from accord.posteriors.next_labels import next_labels, uncertainty
from accord.report.export import write_all
from accord.report.tables import Table
from accord_lab.label_shares import FIRST_DRAW

NAME = "chosen"
START, AT_ONCE, MOST = 250, 50, 250  # labels at random to begin with, asked for at a time, asked for in all
SURE = 0.05  # p below which a difference is more than chance
TITLE = "Labels that were asked for"
HEADS = ("data", "labels", "chosen", "at random", "difference", "p")
NOTE = (
    "AUC of p_real, real against noise, on a half of the training interactions of which no label is ever given; mean "
    f"± sd over draws of that half and of {START} labels to begin with. Chosen: {AT_ONCE} at a time, as an audit asks "
    "for them, each time with all labels before. p: of a paired t test over the draws, not corrected for how "
    "many there are."
)
Floats = npt.NDArray[np.float64]
Line = dict[str, Any]


def run(data: Dataset, draws: int, folder: Path, say: Callable[[str], None] = print) -> list[Line]:
    """One line per draw, kept as soon as it is there: what is done already is not done again."""
    if "label" not in data.train.names:
        raise InputError(f"{data.name} has no labels to draw from; give --labels, as 'rating>=4'.")
    file, train = folder / f"{NAME}.jsonl", data.training_csr()
    with only_writer(folder):
        lines = read_lines(file)
        done = {(line["dataset"], line["draw"]) for line in lines}
        for draw in range(draws):
            if (data.name, draw) not in done:
                lines.append({"dataset": data.name, "draw": draw, **_drawn(train, draw)})
                say(f"{data.name}: draw {draw + 1} of {draws}")
                keep_lines(file, lines)
    return lines


def _drawn(train: Csr, draw: int) -> Line:
    truth = train.columns["label"]
    order = np.random.default_rng(FIRST_DRAW + draw).permutation(np.flatnonzero(~np.isnan(truth)))
    judged = order[len(order) // 2 :]
    start, others = order[:START], order[START : len(order) // 2]

    def learned(rows: npt.NDArray[np.int64]) -> tuple[Estimate, float]:
        label = np.full(len(truth), np.nan)
        label[rows] = truth[rows]
        found = estimate(train, label)
        return found, auc(found.p_real[judged], truth[judged] > 0.5)

    found, begun = learned(start)
    line: Line = {"start": begun, "used": found.used}
    chosen = start
    for asked in range(AT_ONCE, MOST + 1, AT_ONCE):
        unsure = np.full(len(truth), np.nan)
        unsure[others] = uncertainty(found.p_real, found.used)[others]
        unsure[chosen] = np.nan
        chosen = np.concatenate([chosen, next_labels(unsure, train.users, train.items, AT_ONCE)])
        found, line[f"chosen {asked}"] = learned(chosen)
    for asked in (AT_ONCE, MOST):
        line[f"random {asked}"] = learned(np.concatenate([start, others[:asked]]))[1]
    return line


def table(lines: Sequence[Line]) -> Table:
    """Mean ± sd over draws, for every dataset."""
    rows: list[tuple[str, ...]] = []
    for name in dict.fromkeys(line["dataset"] for line in lines):
        own = [line for line in lines if line["dataset"] == name]
        rows.append((name, str(START), "", mean_sd([line["start"] for line in own]), "", ""))
        for asked in (AT_ONCE, MOST):
            ways = [[line[f"{way} {asked}"] for line in own] for way in ("chosen", "random")]
            gained, p = _gained(own, asked)
            figures = (*map(mean_sd, ways), f"{gained:+.4f}", f"{p:.3f}")
            rows.append((name, f"{START} + {asked}", *figures))
    return Table(TITLE, HEADS, tuple(rows))


def findings(lines: Sequence[Line]) -> list[str]:
    """What the table says, in a sentence for each number of labels."""
    said = []
    for asked in (AT_ONCE, MOST):
        parts = []
        for name in dict.fromkeys(line["dataset"] for line in lines):
            gained, p = _gained([line for line in lines if line["dataset"] == name], asked)
            beyond = "beyond chance" if p < SURE else "within chance"
            parts.append(f"{name} {gained:+.4f} ({beyond}, p {p:.3f})")
        said.append(f"{asked} labels that were asked for, against as many at random, in AUC: {', '.join(parts)}.")
    return said


def _gained(lines: Sequence[Line], asked: int) -> tuple[float, float]:
    """The mean difference over draws, and p of a paired t test."""
    gained = np.array([line[f"chosen {asked}"] - line[f"random {asked}"] for line in lines])
    p = float(ttest_1samp(gained, 0).pvalue) if gained.std() > 0 else 1.0
    return float(gained.mean()), p


def write_page(folder: Path, lines: Sequence[Line]) -> list[Table]:
    made = [table(lines)]
    write_all(folder, NAME, made, [NOTE, *findings(lines)], TITLE)
    return made


def render(folder: Path) -> list[Table]:
    """Write the page from the raw results alone."""
    return write_page(folder, read_lines(folder / f"{NAME}.jsonl"))
