"""A comparison as tables, in files for papers and on a page."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from accord.comparing.compare import Cell, Request, keys_of, users_of
from accord.comparing.results import PerUser, Results
from accord.errors import Argument, InputError
from accord.evaluation.significance import Comparison, compare_to
from accord.report.accuracy import dots, verdict
from accord.report.page import Page
from accord.report.runs import Interval
from accord.report.tables import Table, p_text
from accord_lab.names import mean_sd
from accord_lab.writing import only_columns, write_all

OTHER_K = re.compile(r"@(?!(10|20)\b)")  # metrics at other K are folded

HOW_TESTED = (
    "NDCG@20, paired by user and seed: sign-flip permutation test on the users' mean differences; "
    "interval by bootstrap over users and seeds; effect size: mean over standard deviation of the differences. "
    "The test is about these runs, the interval also about other seeds: a small p with an interval around 0 "
    "means that the seeds differ."
)


def render(request: Request, cells: Sequence[Cell], results: Results, baseline: str | None = None) -> list[Table]:
    """Mean ± sd over seeds, and paired tests against a baseline, as Markdown, HTML, CSV and LaTeX in the folder of the
    raw results."""
    lines = results.by_key()
    runs = {cell.name: keys_of(request, cell) for cell in cells}
    missing = [name for name, keys in runs.items() if not set(keys) <= set(lines)]
    if missing:
        raise InputError(f"{results.file} has no finished runs of '{missing[0]}'; run the comparison first.")
    names = list(runs)
    chosen = baseline or next((name for name in names if name.endswith("+ normal")), names[0])
    if chosen not in runs:
        raise InputError(Argument("baseline", chosen), f" is not among the rows; give one of {', '.join(names)}.")
    stacked = users_of(request, cells, results, "ndcg@20")
    tests = compare_to(stacked[chosen], {name: values for name, values in stacked.items() if name != chosen})
    tables = [_means(names, runs, lines), differences_table(f"Against {chosen}", tests, HOW_TESTED)]
    write_all(results.folder, "compare", tables, [f"{request.data.name}: {described(request)}"])
    return tables


def _means(names: Sequence[str], runs: Mapping[str, list[str]], lines: Mapping[str, dict[str, Any]]) -> Table:
    metrics = [name for name in next(iter(lines.values()))["metrics"] if name.split("@")[0] in ("recall", "ndcg")]
    groups = [name for name, mean in next(iter(lines.values()))["groups"].items() if mean]
    rows: list[tuple[Any, ...]] = []
    means = []
    for name in names:
        per_run = [lines[key] for key in runs[name]]
        values = [[line["metrics"][metric] for line in per_run] for metric in metrics]
        by_group = [float(np.mean([line["groups"][group]["ndcg@20"] for line in per_run])) for group in groups]
        means.append([np.mean(one) for one in values])
        rows.append((name, len(per_run), *(mean_sd(one) for one in values), *by_group))
    best = np.argmax(np.array(means), 0)
    marked = frozenset((int(row), column + 2) for column, row in enumerate(best))
    columns = ("what", "runs", *metrics, *(f"ndcg@20, {group} users" for group in groups))
    return Table(
        "Mean ± standard deviation over seeds", columns, tuple(rows), ("The best of each column is marked.",), marked
    )


def differences_table(title: str, tests: Mapping[str, Comparison], note: str, significant: float = 0.0) -> Table:
    """Rows against a baseline; differences with a smaller corrected p than `significant` are marked."""
    rows = tuple(
        (
            *(name, f"{test.difference:+.4f}", f"{test.low:+.4f} to {test.high:+.4f}"),
            *(p_text(test.p), p_text(test.p_holm), f"{test.effect:+.3f}", f"{test.better:+.1%}"),
        )
        for name, test in tests.items()
    )
    marked = frozenset((place, 1) for place, test in enumerate(tests.values()) if test.p_holm < significant)
    columns = ("what", "difference", "95% interval", "p", "p (Holm)", "effect size", "users better − worse")
    return Table(title, columns, rows, (note,), marked)


def described(request: Request) -> str:
    sizes = ", ".join(f"{number:,} {part}" for part, number in request.data.counts().items())
    return f"{sizes}; protocol {request.protocol}; {request.seeds} seed(s)."


def write_comparison(
    path: Path, name: str, lead: str, tables: Sequence[Table], per_user: Mapping[str, PerUser], command: str
) -> Path:
    """`per_user` has for each metric and row the values of seeds and users [S, N]; the last metric ranks the rows."""
    page = Page(f"Comparison on {name}", lead)
    metric, values = list(per_user.items())[-1]
    best, other = sorted(values, key=lambda row: -values[row].mean())[:2]  # a comparison always has baselines
    test = compare_to(values[other], {best: values[best]})[best]
    means = (float(values[best].mean()), float(values[other].mean()))
    verdict(page.section("Summary"), metric, (best, other), means, test)
    section = page.section("Metrics")
    section.charts(
        [dots(one, {row: Interval.of(array[None])[0] for row, array in rows.items()}) for one, rows in per_user.items()]
    )
    for table in tables:
        shown = only_columns(table, lambda column: not OTHER_K.search(column))
        section.table(shown)
        if shown != table:
            section.table(table, "At every K")
    page.section("How to reproduce", folded=True).code(command)
    return page.write(path)
