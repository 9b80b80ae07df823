"""The report of a comparison: its tables and charts."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from accord.evaluation.significance import compare_to
from accord.report.accuracy import dots, verdict
from accord.report.page import Page
from accord.report.runs import Floats, Interval
from accord.report.tables import Table

OTHER_K = re.compile(r"@(?!(10|20)\b)")  # metrics at other K are folded


def write_comparison(
    path: Path,
    name: str,
    lead: str,
    tables: Sequence[Table],
    per_user: Mapping[str, Mapping[str, Floats]],
    command: str,
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
        shown = [place for place, column in enumerate(table.columns) if not OTHER_K.search(column)]
        section.table(table.only(shown))
        if len(shown) < len(table.columns):
            section.table(table, "At every K")
    page.section("How to reproduce", folded=True).code(command)
    return page.write(path)
