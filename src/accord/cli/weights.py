"""`accord weights`: a weight for each interaction of a log, as a file for any recommender."""

from __future__ import annotations

from accord.cli.options import (
    DataArgument,
    Events,
    Format,
    ItemColumn,
    Labels,
    Output,
    TimeColumn,
    UserColumn,
    ValueColumn,
    format_of,
    put_table,
)


def weights(
    data: DataArgument,
    output: Output = None,
    labels: Labels = None,
    events: Events = None,
    user_col: UserColumn = None,
    item_col: ItemColumn = None,
    value_col: ValueColumn = None,
    time_col: TimeColumn = None,
    format_: Format = None,
) -> None:
    """The probability that each interaction is real, and its weight in training: user, item, p_real, weight."""
    from accord.cli.display import say
    from accord.data.columns import Columns
    from accord.posteriors.estimate import posterior

    form = format_of(format_, output)
    given = (user_col, item_col, value_col, time_col)
    result = posterior(data, columns=Columns(*given) if any(given) else None, labels=labels, events=events)
    for note in result.notes:
        say(f"note: {note}")
    put_table(result.table, output, form)
