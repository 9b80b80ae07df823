"""Whether denoising helps on this log: DeCA, DeCA(p), plain training, popularity, EASE and auto on held-out data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from accord.auditing.interaction_log import Log
from accord.comparing.compare import Cell, Request, cells_of, compare, users_of
from accord.comparing.results import Results
from accord.evaluation.evaluate import Relevant
from accord.evaluation.significance import Comparison, compare_to, interval_of_means
from accord.models import is_solved
from accord.protocol import CORRECTED

MODEL = "gmf"
DENOISERS = {f"{MODEL} + deca": "DeCA", f"{MODEL} + deca-p": "DeCA(p)"}
PLAIN = f"{MODEL} + normal"
METRIC = "ndcg@20"
AUTO = "auto"  # the default model
SPARSE, MOST_ITEMS = "sparse-ease", 30_000  # in the place of EASE, of more items: it takes minutes
SIMPLE = {"ease": "EASE", SPARSE: "EASE", "popularity": "popularity"}
BUDGET = ("model.budget", 20.0)  # seconds that it may search here


def verdict(log: Log, work: Path, **how: Any) -> dict[str, Any] | None:
    """The part of the summary about denoising; None where fewer than two users have anything to test on. `how`: fields
    of the comparison's request."""
    relevant = Relevant.of_test(log.data, CORRECTED)
    if len(relevant.users) < 2:
        return None
    cells = [
        cell if cell.model != "ease" or len(log.data.items) <= MOST_ITEMS else replace(cell, model=SPARSE)
        for cell in cells_of([MODEL], ["normal", "deca", "deca-p"], {})
    ]
    cells.sort(key=lambda cell: not is_solved(cell.model))  # popularity and EASE are the first rows
    search = Cell(AUTO, None, (BUDGET,))
    request = Request(log.data, ks=(20,), **how)
    results = compare(request, [search, *cells[::-1]], Results(work, "verdict"))  # the longest first, for all workers
    per_metric = (users_of(request, [*cells, search], results, metric) for metric in (METRIC, "recall@20"))
    values, recalls = (
        {AUTO if name == search.name else name: per_user for name, per_user in every.items()} for every in per_metric
    )
    tests = compare_to(values[PLAIN], {name: every for name, every in values.items() if name not in (PLAIN, AUTO)})
    rows: list[dict[str, Any]] = []
    for name, every in values.items():
        low, high = interval_of_means(every[None])
        row = {"name": name, "mean": float(every.mean()), "low": float(low[0]), "high": float(high[0])}
        rows.append(row | {"recall": float(recalls[name].mean())})
    means = {str(row["name"]): float(row["mean"]) for row in rows}
    best = max((name for name in means if name != AUTO), key=lambda name: means[name])
    default = compare_to(values[best], {AUTO: values[AUTO]})[AUTO]
    helps, sentence = in_words(means, tests)
    fields = ("difference", "low", "high", "p")
    return {
        "sentence": sentence + auto_in_words(best, means, default), "helps": helps,
        "metric": METRIC, "seeds": request.seeds,
        "test": {"users": len(relevant.users), "interactions": int(relevant.counts.sum()), "rule": log.clean},
        "rows": rows,
        "against_normal": [
            {"name": name, **{key: getattr(test, key) for key in (*fields, "p_holm")}} for name, test in tests.items()
        ],
        "auto": {"against": best, **{key: getattr(default, key) for key in fields}},
    }  # fmt: skip


def auto_in_words(best: str, means: Mapping[str, float], test: Comparison) -> str:
    """Which model to train: `auto`, unless the best of the others is better beyond chance."""
    figures = (
        f"{means[AUTO]:.4f} against {means[best]:.4f} (difference {test.difference:+.4f}, 95% interval "
        f"{test.low:+.4f} to {test.high:+.4f})"
    )
    if test.high < 0 and test.p < 0.05:
        return f" Train {best}: the default, auto, is worse here, {figures}."
    result = "is better than" if test.low > 0 and test.p < 0.05 else "is as good as"
    return f" Train the default, auto: it {result} {best}, the best of the others, {figures}."


def in_words(means: Mapping[str, float], tests: Mapping[str, Comparison]) -> tuple[bool, str]:
    """Whether denoising helps, and a sentence that says so and names a simple model that is as good."""
    name = max(DENOISERS, key=lambda one: means[one])
    test, called = tests[name], DENOISERS[name]
    share = test.difference / means[PLAIN] if means[PLAIN] else 0.0
    figures = (
        f"NDCG@20 {means[name]:.4f} against {means[PLAIN]:.4f} without ({share:+.1%}; difference "
        f"{test.difference:+.4f}, 95% interval {test.low:+.4f} to {test.high:+.4f})"
    )
    helps = test.low > 0 and test.p_holm < 0.05
    if helps:
        sentence = f"Denoising helps here: {called} gives {figures}."
    elif test.high < 0 and test.p_holm < 0.05:
        sentence = f"Denoising does harm here: the better of the two, {called}, gives {figures}."
    else:
        sentence = f"This test does not show that denoising helps here: {called} gives {figures}."
    best = max((one for one in SIMPLE if one in means), key=lambda one: means[one])
    if means[best] >= max(means[name], means[PLAIN]):
        sentence += f" Simple {SIMPLE[best]}, without any denoising, has {means[best]:.4f}."
    return bool(helps), sentence
