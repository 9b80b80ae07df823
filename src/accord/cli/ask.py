"""`accord similar`, `accord score` and `accord explain`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from accord.cli import options as o
from accord.errors import InputError

Users = Annotated[list[str] | None, typer.Option("--user", help="a user's id; may be given more than once")]
Items = Annotated[list[str] | None, typer.Option("--item", help="an item's id; may be given more than once")]
Pairs = Annotated[Path | None, typer.Option(help="a file of pairs, with a user and an item column")]


def similar(
    run: o.RunArgument,
    items: Annotated[list[str], typer.Argument(metavar="ITEM...", help="ids of items")],
    *,
    k: Annotated[int, typer.Option(help="similar items for each")] = 20,
    choice: o.Choice,
    printed: o.Printed,
    opening: o.Asking,
) -> None:
    """Find the items that are most similar to others, as the model has it."""
    printed.format()
    chosen = choice.arguments()
    recommender = opening.open(run)
    printed.put(recommender.with_titles(recommender.similar(items, k, **chosen)))


def score(
    run: o.RunArgument,
    *,
    user: Users = None,
    item: Items = None,
    pairs: Pairs = None,
    printed: o.Printed,
    opening: o.Asking,
) -> None:
    """Score pairs of a user and an item: each --user with each --item, or those of a file. Empty if one is unknown."""
    printed.format()
    users, items = _pairs(user, item, pairs)
    recommender = opening.open(run)
    printed.put(recommender.with_titles(recommender.score(users, items)))


def explain(
    run: o.RunArgument,
    *,
    user: Users = None,
    item: Items = None,
    pairs: Pairs = None,
    history: Annotated[str | None, typer.Option(help="items of one new --user, as id,id,…")] = None,
    k: Annotated[int, typer.Option(help="without --item: recommendations to explain")] = 20,
    most: Annotated[int, typer.Option(help="items of the history to name for each")] = 3,
    printed: o.Printed,
    opening: o.Asking,
) -> None:
    """Name the items of a user's history that speak for an item, or without --item for each recommendation."""
    if history is not None and (not user or len(user) != 1):
        raise InputError("--history goes with one --user.")
    printed.format()
    given = {user[0]: history.split(",")} if history is not None and user else None
    chosen = None if user and not item and pairs is None else _pairs(user, item, pairs)
    recommender = opening.open(run)
    if chosen is None:
        lists = recommender.recommend(user, k, history=given)
        chosen = lists.column("user").to_pylist(), lists.column("item").to_pylist()
    printed.put(recommender.with_titles(recommender.explain(*chosen, most=most, history=given)))


def _pairs(user: list[str] | None, item: list[str] | None, pairs: Path | None) -> tuple[list[str], list[str]]:
    if (pairs is None) == (not user and not item) or bool(user) != bool(item):
        raise InputError("name the pairs: give --user ID and --item ID (more than once if you like), or --pairs FILE.")
    if user and item:
        return [one for one in user for _ in item], item * len(user)
    from accord.recommender.answers import as_interactions

    rows = as_interactions(pairs)
    return rows.users.to_pylist(), rows.items.to_pylist()
