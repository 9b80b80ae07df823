"""What else a run is asked: `accord similar`, `accord score` and `accord explain`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from accord.cli.options import (
    Allow,
    AllowFile,
    AllowImports,
    Device,
    Exclude,
    ExcludeFile,
    Format,
    Output,
    RunArgument,
    Where,
    choice,
    format_of,
    open_run,
    put_table,
)
from accord.errors import InputError

Users = Annotated[list[str] | None, typer.Option("--user", help="a user's id; may be given more than once")]
Items = Annotated[list[str] | None, typer.Option("--item", help="an item's id; may be given more than once")]
Pairs = Annotated[Path | None, typer.Option(help="a file of pairs, with a user and an item column")]


def similar(
    run: RunArgument,
    items: Annotated[list[str], typer.Argument(metavar="ITEM...", help="ids of items")],
    k: Annotated[int, typer.Option(help="similar items for each")] = 20,
    exclude: Exclude = None,
    exclude_file: ExcludeFile = None,
    allow: Allow = None,
    allow_file: AllowFile = None,
    where: Where = None,
    format_: Format = None,
    output: Output = None,
    device: Device = "auto",
    allow_imports: AllowImports = False,
) -> None:
    """Find the items that are most similar to others, as the model has it."""
    format_, chosen = format_of(format_, output), choice(exclude, exclude_file, allow, allow_file, where)
    recommender = open_run(run, device, allow_imports)
    put_table(recommender.with_titles(recommender.similar(items, k, **chosen)), output, format_)


def score(
    run: RunArgument,
    user: Users = None,
    item: Items = None,
    pairs: Pairs = None,
    format_: Format = None,
    output: Output = None,
    device: Device = "auto",
    allow_imports: AllowImports = False,
) -> None:
    """Score pairs of a user and an item: each --user with each --item, or those of a file. Nothing where one of them is
    unknown."""
    format_, (users, items) = format_of(format_, output), _pairs(user, item, pairs)
    recommender = open_run(run, device, allow_imports)
    put_table(recommender.with_titles(recommender.score(users, items)), output, format_)


def explain(
    run: RunArgument,
    user: Users = None,
    item: Items = None,
    pairs: Pairs = None,
    history: Annotated[str | None, typer.Option(help="items of one new --user, as id,id,…")] = None,
    k: Annotated[int, typer.Option(help="without --item: recommendations to explain")] = 20,
    most: Annotated[int, typer.Option(help="items of the history to name for each")] = 3,
    format_: Format = None,
    output: Output = None,
    device: Device = "auto",
    allow_imports: AllowImports = False,
) -> None:
    """Say which items of a user's own history speak for an item, or without --item for each recommendation."""
    if history is not None and (not user or len(user) != 1):
        raise InputError("--history goes with one --user.")
    format_ = format_of(format_, output)
    given = {user[0]: history.split(",")} if history is not None and user else None
    asked = None if user and not item and pairs is None else _pairs(user, item, pairs)
    recommender = open_run(run, device, allow_imports)
    if asked is None:
        lists = recommender.recommend(user, k, history=given)
        asked = lists.column("user").to_pylist(), lists.column("item").to_pylist()
    put_table(recommender.with_titles(recommender.explain(*asked, most=most, history=given)), output, format_)


def _pairs(user: list[str] | None, item: list[str] | None, pairs: Path | None) -> tuple[list[str], list[str]]:
    if (pairs is None) == (not user and not item) or bool(user) != bool(item):
        raise InputError("name the pairs: give --user ID and --item ID (more than once if you like), or --pairs FILE.")
    if pairs is None:
        assert user is not None
        assert item is not None
        return [one for one in user for _ in item], item * len(user)
    from accord.recommender.tables import as_interactions

    rows = as_interactions(pairs)
    return rows.users.to_pylist(), rows.items.to_pylist()
