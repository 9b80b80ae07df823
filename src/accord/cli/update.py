"""`accord update`: new interactions for a run, without training again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from accord.cli import options as o
from accord.errors import InputError


def update(
    run: o.RunArgument,
    new: o.DataArgument,
    *,
    out: Annotated[Path | None, typer.Option("-o", "--out", help="the folder of the updated run")] = None,
    in_place: Annotated[bool, typer.Option("--in-place", help="in the place of the run itself")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="replace a finished run in --out")] = False,
    without_learned: Annotated[
        bool, typer.Option("--without-learned", help="faster: a consensus goes on without its learned members")
    ] = False,
    items: o.ItemsFile = None,
    log: o.WeightedLog,
    opening: o.Opening,
) -> None:
    """Give a run new interactions without a search: solved models and the members of a consensus are fitted again on
    everything, CDAE and LightGCN take longer histories."""
    if (out is None) != in_place:
        raise InputError("say where the updated run goes: give --out DIR, or --in-place.")
    folder = run if out is None else o.run_folder(out, out, resume=False, overwrite=overwrite)

    from accord.cli.display import say
    from accord.io.files import only_writer

    recommender = opening.open(run)
    before, seconds = (len(recommender.users), len(recommender.items)), recommender.metrics["seconds"]
    if recommender.run.members and not without_learned and (took := seconds.get("refit", seconds.get("train"))):
        say(f"fits the members again, on a larger log than the last fit, which took {took:,.0f} s")
    updated = recommender.update(log.source(new), columns=log.columns, items=items, without_learned=without_learned)
    with only_writer(folder):
        updated.save(folder, overwrite=True)
    added = [f"{len(now) - then:,} new" for now, then in zip((updated.users, updated.items), before, strict=True)]
    say(
        f"{updated.metrics['updates'][-1]['interactions']:,} interactions, {len(updated.train.items):,} in all; "
        f"{len(updated.users):,} users ({added[0]}), {len(updated.items):,} items ({added[1]}); "
        "the figures are those of before"
    )
    say(f"run folder: {folder}")
