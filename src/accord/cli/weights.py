"""`accord weights`: what each interaction of a log should count for, as a file for any recommender."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from accord.cli.options import DataArgument, Events, ItemColumn, Labels, TimeColumn, UserColumn, ValueColumn, put_table


def weights(
    data: DataArgument,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="a .parquet or .csv file")] = None,
    labels: Labels = None,
    events: Events = None,
    user_col: UserColumn = None,
    item_col: ItemColumn = None,
    value_col: ValueColumn = None,
    time_col: TimeColumn = None,
    format_: Annotated[str | None, typer.Option("--format", help="table, json, csv or parquet")] = None,
) -> None:
    """The probability that each interaction is real, and what it should count for: user, item, p_real, weight."""
    from accord.cli.display import say
    from accord.data.columns import Columns
    from accord.posteriors.posterior import posterior

    given = (user_col, item_col, value_col, time_col)
    found = posterior(data, columns=Columns(*given) if any(given) else None, labels=labels, events=events)
    for note in found.notes:
        say(f"note: {note}")
    usual = "table" if output is None else "csv" if output.suffix == ".csv" else "parquet"
    put_table(found.table, output, format_ or usual)
    if output is not None:
        say(f"weights of {len(found.table):,} interactions: {output}")
