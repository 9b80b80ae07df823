"""Public tables that anybody can check: BARS' fixed splits of Gowalla and Yelp2018, ranked over all items.

Everything is chosen on a tenth of each user's training pairs; what was chosen is fitted again on all of them, and ranks
what the user has not in training. Of the test nothing is seen before that.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from accord.comparing.results import keep_lines, read_lines
from accord.data.interactions import Dataset
from accord.data.read import read_part
from accord.errors import InputError
from accord.fitting import fit_run
from accord.io.files import only_writer
from accord.report.tables import Table
from accord.training.plan import plan
from accord.training.trainer import Watch
from accord_lab.writing import page_of_lines

NAME, TITLE = "bars", "Public tables: Gowalla and Yelp2018"
METRICS = ("recall@20", "ndcg@20")
SHARE, SEED = 0.1, 0  # of a user's training pairs that everything is chosen by
PUBLISHED = {
    "gowalla": {
        "SimpleX": (0.1872, 0.1557),
        "UltraGCN": (0.1862, 0.1580),
        "LightGCN": (0.1830, 0.1554),
        "EASE": (0.1765, 0.1467),
    },
    "yelp2018": {
        "SimpleX": (0.0701, 0.0575),
        "UltraGCN": (0.0683, 0.0561),
        "EASE": (0.0657, 0.0552),
        "LightGCN": (0.0649, 0.0530),
    },
}
HEADS = ("data", "model", "recall@20", "NDCG@20", "minutes", "where")
NOTE = (
    "All items but those of the user's training pairs are ranked; means over the users of the test. Accord: accord lab "
    "bars, which chooses everything on a tenth of each user's training pairs, fits that again on all of them, and "
    "measures once. Other rows: as published, by BARS or by UltraGCN's authors."
)


def read(folder: Path) -> Dataset:
    """NAME.train.rating and NAME.test.negative of a folder, a tenth of each user's training pairs as validation."""
    files = [next(iter(folder.glob(f"*.{part}")), None) for part in ("train.rating", "test.negative")]
    if None in files:
        raise InputError(
            f"{folder} has no NAME.train.rating and NAME.test.negative; give the folder of a split of BARS, with user "
            "and item of a pair on each line, tab-separated."
        )
    train, test = (read_part(file).merged() for file in files if file is not None)
    users, rng = train.column("user"), np.random.default_rng(SEED)
    order, counts = np.lexsort((rng.random(len(users)), users)), np.bincount(users)
    place = np.empty(len(users), dtype=np.int64)  # of each pair among its user's, shuffled
    place[order] = np.arange(len(users)) - np.repeat(counts.cumsum() - counts, counts)
    held_out = place < np.round(SHARE * counts)[users]
    return Dataset.of(folder.name, train.filter(~held_out), train.filter(held_out), test)


def run(folder: Path, out: Path, budget: float, device: str, watch: Watch, say: Callable[[str], None]) -> None:
    """Choose, fit again on all training pairs, measure, and add a line to the results."""
    began, data = time.perf_counter(), read(folder)
    say(repr(data))
    asked = plan(data, "auto", options={"model.budget": budget}, ks=[20])
    chosen = fit_run(data, asked, device=device, refit=False, watch=watch)
    searched = time.perf_counter()
    before = {name: chosen.metrics["mean"][name] for name in METRICS}
    members = ", ".join(f"{member.label} {member.weight:.2f}" for member in chosen.run.members)
    say(f"chosen in {searched - began:.0f} s: {members}; without the tenth that it was chosen by, {before}")
    again = fit_run(data.before_test(data.valid), chosen.run, device=device, refit=False, watch=watch)
    line = {
        "dataset": data.name,
        "train": len(data.train) + len(data.valid),
        **{name: again.metrics["mean"][name] for name in METRICS},
        "before": before,
        "budget": budget,
        "seconds": round(time.perf_counter() - began, 1),
        "search_seconds": round(searched - began, 1),
        "device": torch.cuda.get_device_name() if again.device.type == "cuda" else "CPU",
        "recipe": [member.model_dump(mode="json", exclude_defaults=True) for member in chosen.run.members],
        "members": chosen.metrics["members"],
        "search": chosen.metrics["search"],
        "notes": chosen.metrics.get("notes", []),
    }
    with only_writer(out):
        keep_lines(out / f"{NAME}.jsonl", [*read_lines(out / f"{NAME}.jsonl"), line])


def tables(lines: Sequence[dict[str, Any]]) -> list[Table]:
    """Of every log the published rows and ours, the best first."""
    rows = []
    for name in dict.fromkeys(line["dataset"] for line in lines):
        found = [(ndcg, recall, model, "", "published") for model, (recall, ndcg) in PUBLISHED.get(name, {}).items()]
        for line in (line for line in lines if line["dataset"] == name):
            found.append((line["ndcg@20"], line["recall@20"], "Accord", f"{line['seconds'] / 60:.1f}", line["device"]))
        found.sort(key=lambda row: -row[0])
        rows += [(name, model, f"{recall:.4f}", f"{ndcg:.4f}", *how) for ndcg, recall, model, *how in found]
    return [Table(TITLE, HEADS, tuple(rows))]


render = partial(page_of_lines, NAME, TITLE, NOTE, tables)
