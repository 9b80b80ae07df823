"""`accord recommend`: recommendations for some users on the screen, or for all users in a file."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from accord.cli import options as o
from accord.errors import InputError, shown, unknown


def recommend(
    run: o.RunArgument,
    *,
    user: Annotated[list[str] | None, typer.Option(help="a user's id; may be given more than once")] = None,
    users: Annotated[Path | None, typer.Option(help="a file with one id per line")] = None,
    all_users: Annotated[bool, typer.Option("--all", help="all users of the data")] = False,
    history: Annotated[str | None, typer.Option(help="items of one new --user, as id,id,…")] = None,
    k: Annotated[int, typer.Option(help="items for each user")] = 20,
    choice: o.Choice,
    printed: o.Printed,
    to: Annotated[
        str | None, typer.Option(help="with --all: a database to write to, as postgresql://HOST/DATABASE")
    ] = None,
    table: Annotated[str | None, typer.Option(help="with --to: the table to write, as NAME or SCHEMA.NAME")] = None,
    if_exists: Annotated[
        str, typer.Option(help="with --to: fail, replace or append where the table exists already")
    ] = "fail",
    part: Annotated[str | None, typer.Option(help="with --all: one of several parts of the users, as 2/8")] = None,
    agreement: Annotated[
        bool, typer.Option("--agreement", help="how each member of a consensus places an item, and how many agree")
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
    if history is not None and (not user or len(user) != 1):
        raise InputError("--history goes with one --user.")
    if part is not None and to is None and not (all_users and form == "parquet"):
        raise InputError("--part goes with --all and a Parquet file: give --all --out FILE.parquet.")
    if k < 1:
        raise InputError(f"--k is {k}; give a number of at least 1.")
    if agreement and (to is not None or (all_users and form == "parquet") or history is not None):
        raise InputError("--agreement goes with --user or --users, of users who are in the data.")
    chosen = choice.arguments()
    if to is not None or (all_users and form == "parquet"):
        from accord.data.databases import Target

        target = printed.output if to is None else Target.of(to, table)
        _for_all(run, target, if_exists, part, k, chosen, opening)
        return
    ids = None if all_users or users is None else o.read_ids(users, "--users")
    recommender = opening.open(run)
    from accord.evaluation.ranking import of_few_users

    given = {user[0]: history.split(",")} if history is not None and user else None
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
        say(f"note: {count} are unknown to the run, as {shown(unseen[0])}: they get the popular items")


def _for_all(
    run: Path, target: Any, if_exists: str, part: str | None, k: int, chosen: dict[str, Any], opening: o.Asking
) -> None:
    """Write the recommendations for all users, or for one part of them, to a Parquet file or into a database."""
    from accord.cli.display import say, step_progress
    from accord.recommender.batch import Part, write_lists

    share = Part() if part is None else Part.parse(part)
    recommender = opening.open(run)
    barred = recommender.barred(**chosen)
    with step_progress() as watch:
        on_progress = partial(watch, "ranking for users")
        users = write_lists(recommender, target, k, share, on_progress, barred, if_exists)
    place = target if isinstance(target, Path) else f"{target.database.label}, table {target.table}"
    say(f"recommendations for {users:,} users: {place}")
