"""`accord update`: new interactions for a run, without training again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from accord.cli.options import (
    AllowImports,
    DataArgument,
    Device,
    ItemColumn,
    ItemsFile,
    Query,
    RunArgument,
    TimeColumn,
    UserColumn,
    ValueColumn,
    WeightColumn,
    open_run,
    run_folder,
    source_of,
)
from accord.errors import InputError


def update(
    run: RunArgument,
    new: DataArgument,
    out: Annotated[Path | None, typer.Option("-o", "--out", help="the folder of the updated run")] = None,
    in_place: Annotated[bool, typer.Option("--in-place", help="in the place of the run itself")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="replace a finished run in --out")] = False,
    without_learned: Annotated[
        bool, typer.Option("--without-learned", help="a consensus goes on without the votes of its learned members")
    ] = False,
    items: ItemsFile = None,
    query: Query = None,
    user_col: UserColumn = None,
    item_col: ItemColumn = None,
    value_col: ValueColumn = None,
    time_col: TimeColumn = None,
    weight_col: WeightColumn = None,
    device: Device = "auto",
    allow_imports: AllowImports = False,
) -> None:
    """Give a run new interactions without training again, where its model allows that: solved models are solved again
    on everything, CDAE and LightGCN take longer histories."""
    if (out is None) != in_place:
        raise InputError("say where the updated run goes: give --out DIR, or --in-place.")
    folder = run if out is None else run_folder(out, out, resume=False, overwrite=overwrite)

    from accord.cli.display import say
    from accord.data.columns import Columns
    from accord.io.files import only_writer

    given = (user_col, item_col, value_col, time_col, weight_col)
    recommender = open_run(run, device, allow_imports)
    before = len(recommender.users), len(recommender.items)
    made = recommender.update(
        source_of(new, query),
        columns=Columns(*given) if any(given) else None,
        items=items,
        without_learned=without_learned,
    )
    with only_writer(folder):
        made.save(folder)
    added = [f"{len(now) - then:,} new" for now, then in zip((made.users, made.items), before, strict=True)]
    say(
        f"{made.metrics['updates'][-1]['interactions']:,} interactions, {len(made.train.items):,} in all; "
        f"{len(made.users):,} users ({added[0]}), {len(made.items):,} items ({added[1]}); "
        "the figures are those of before"
    )
    say(f"run folder: {folder}")
