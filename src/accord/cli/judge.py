"""`accord weights` and `accord judge`: how real each interaction is, and labels by a program where they tell most."""

from __future__ import annotations

from typing import Annotated

import typer

from accord.cli import options as o


def judge(
    data: o.DataArgument,
    *,
    judge: Annotated[
        str, typer.Option(help="a program that reads pairs as JSON Lines and writes a number from 0 to 1 for each")
    ],
    judgements: Annotated[int, typer.Option(help="pairs to ask it about, those with a label by people included")] = 100,
    seconds: Annotated[float, typer.Option(help="that it may take for all of them")] = 3600.0,
    labelling: o.Labelling,
    items: o.ItemsFile = None,
    log: o.Log,
    printed: o.Printed,
) -> None:
    """Let a program label the most useful interactions, and say what its labels are worth."""
    printed.format()
    from accord.cli.display import say, say_notes
    from accord.data.load import load_whole
    from accord.data.titles import with_items
    from accord.posteriors.judge import judge as ask

    dataset = load_whole(log.source(data), columns=log.columns, **labelling.settings)
    dataset = dataset if items is None else with_items(dataset, items)
    say_notes(dataset.notes)
    result = ask(dataset, judge, judgements, seconds)
    printed.put(result.table)
    for note in result.notes:
        say(f"judge: {note}")


def weights(data: o.DataArgument, *, printed: o.Printed, labelling: o.Labelling, log: o.Log) -> None:
    """The probability that each interaction is real, and its weight in training: user, item, p_real, weight."""
    from accord.cli.display import say_notes
    from accord.posteriors.estimate import posterior

    printed.format()
    result = posterior(log.source(data), columns=log.columns, **labelling.settings)
    say_notes([note for note in (*result.notes, result.gain) if note])
    printed.put(result.table)
