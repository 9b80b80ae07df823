"""The questions to a run: `accord recommend`, `similar`, `score` and `explain`."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from accord.cli import options as o
from accord.errors import InputError, shown, unknown

Users = Annotated[list[str] | None, Option("--user", help="a user's id; may be given more than once")]
Items = Annotated[list[str] | None, Option("--item", help="an item's id; may be given more than once")]
Pairs = Annotated[Path | None, Option(help="a file of pairs, with a user and an item column")]
History = Annotated[str | None, Option(help="items of one new --user, as id,id,…")]


def recommend(
    run: o.RunArgument,
    *,
    user: Users = None,
    users: Annotated[Path | None, Option(help="a file with one id per line")] = None,
    all_users: Annotated[bool, Option("--all", help="all users of the data")] = False,
    history: History = None,
    k: Annotated[int, Option(help="items for each user")] = 20,
    choice: o.Choice,
    printed: o.Printed,
    to: Annotated[
        str | None, Option(help="with --all: a database to write to, such as postgresql://HOST/DATABASE")
    ] = None,
    table: Annotated[str | None, Option(help="with --to: the table to write, as NAME or SCHEMA.NAME")] = None,
    if_exists: Annotated[
        str, Option(help="with --to: fail, replace or append where the table exists already")
    ] = "fail",
    agreement: Annotated[
        bool, Option("--agreement", help="the rank that each member of a consensus gives an item, and how many agree")
    ] = False,
    opening: o.Asking,
) -> None:
    """Recommend items to users; for all users as a Parquet file or into a database, in bounded memory."""
    if sum([bool(user), users is not None, all_users]) != 1:
        raise InputError("name the users: give --user ID (more than once if you like), --users FILE or --all.")
    if any(not one.strip() for one in user or []):
        raise InputError("--user is empty; give the id of a user.")
    if if_exists not in ("fail", "replace", "append"):
        raise unknown("--if-exists", if_exists, ("fail", "replace", "append"))
    if to is not None and (not all_users or printed.output is not None or printed.format_ is not None):
        raise InputError("--to goes with --all, and without --out and --format: give --all --to DATABASE --table NAME.")
    if table is not None and to is None:
        raise InputError("--table goes with --to: give --all --to DATABASE --table NAME.")
    form = printed.format()
    given = _history(user, history)
    if k < 1:
        raise InputError(f"--k is {k}; give a number of at least 1.")
    if agreement and (to is not None or (all_users and form == "parquet") or history is not None):
        raise InputError("--agreement needs --user or --users, with users of the training data.")
    chosen = choice.arguments()
    if to is not None or (all_users and form == "parquet"):
        from accord.data.databases import Target

        target = printed.output if to is None else Target.of(to, table)
        _for_all(run, target, if_exists, k, chosen, opening)
        return
    ids = None if all_users or users is None else o.read_ids(users, "--users")
    recommender = opening.open(run)
    from accord.evaluation.ranking import of_few_users

    if given is None and not all_users:
        _say_unknown(recommender, user or ids or [])
    with of_few_users(bool(user)):
        lists = recommender.recommend(user or ids, k, history=given, **chosen)
        opinions = recommender.agreement(lists.select(["user", "item"])) if agreement else None
    if opinions is not None:
        for name in opinions.column_names[2:]:
            lists = lists.append_column(name, opinions.column(name))
    printed.put(recommender.with_titles(lists))


def _say_unknown(recommender: Any, users: list[str]) -> None:
    from accord.cli.display import say
    from accord.recommender.answers import as_ids

    rows = recommender.users.rows(as_ids("users", users, recommender.users))
    unseen = [user for user, row in zip(users, rows, strict=True) if row < 0]
    if unseen:
        count = f"{len(unseen):,} of {len(users):,} users"
        say(f"note: {count} are not in the training data, such as {shown(unseen[0])}: they get popular items")


def _for_all(run: Path, target: Any, if_exists: str, k: int, chosen: dict[str, Any], opening: o.Asking) -> None:
    """Write the recommendations for all users to a Parquet file or into a database."""
    from accord.cli.display import say, step_progress
    from accord.recommender.batch import write_lists

    recommender = opening.open(run)
    barred = recommender.barred(**chosen)
    with step_progress() as watch:
        on_progress = partial(watch, "ranking for users")
        users = write_lists(recommender, target, k, on_progress, barred, if_exists)
    place = target if isinstance(target, Path) else f"{target.database.label}, table {target.table}"
    say(f"recommendations for {users:,} users: {place}")


def similar(
    run: o.RunArgument,
    items: Annotated[list[str], Argument(metavar="ITEM...", help="ids of items")],
    *,
    k: Annotated[int, Option(help="similar items for each")] = 20,
    choice: o.Choice,
    printed: o.Printed,
    opening: o.Asking,
) -> None:
    """Find the items that are most similar to others, by the model."""
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
    """Score pairs of a user and an item: each --user with each --item, or those of a file; empty for unknown ids."""
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
    history: History = None,
    k: Annotated[int, Option(help="without --item: recommendations to explain")] = 20,
    most: Annotated[int, Option(help="items of the history to name for each")] = 3,
    printed: o.Printed,
    opening: o.Asking,
) -> None:
    """Name the items of a user's history that speak for an item, or without --item for each recommendation."""
    given = _history(user, history)
    printed.format()
    chosen = None if user and not item and pairs is None else _pairs(user, item, pairs)
    recommender = opening.open(run)
    if chosen is None:
        lists = recommender.recommend(user, k, history=given)
        chosen = lists.column("user").to_pylist(), lists.column("item").to_pylist()
    printed.put(recommender.with_titles(recommender.explain(*chosen, most=most, history=given)))


def _history(user: list[str] | None, history: str | None) -> dict[str, list[str]] | None:
    if history is None:
        return None
    if not user or len(user) != 1:
        raise InputError("--history goes with one --user.")
    return {user[0]: history.split(",")}


def _pairs(user: list[str] | None, item: list[str] | None, pairs: Path | None) -> tuple[list[str], list[str]]:
    if (pairs is None) == (not user and not item) or bool(user) != bool(item):
        raise InputError("name the pairs: give --user ID and --item ID (more than once if you like), or --pairs FILE.")
    if user and item:
        return [one for one in user for _ in item], item * len(user)
    from accord.recommender.answers import as_interactions

    rows = as_interactions(pairs)
    return rows.users.to_pylist(), rows.items.to_pylist()
