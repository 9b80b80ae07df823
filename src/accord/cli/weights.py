"""`accord weights`: a weight for each interaction of a log, as a file for any recommender."""

from __future__ import annotations

from accord.cli import options as o


def weights(data: o.DataArgument, *, printed: o.Printed, labelling: o.Labelling, log: o.Log) -> None:
    """The probability that each interaction is real, and its weight in training: user, item, p_real, weight."""
    from accord.cli.display import say_notes
    from accord.posteriors.estimate import posterior

    printed.format()
    result = posterior(log.source(data), columns=log.columns, **labelling.settings)
    say_notes(result.notes)
    printed.put(result.table)
