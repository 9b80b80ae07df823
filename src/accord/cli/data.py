"""`accord data`: list, download and check datasets, and make a store of a log larger than memory."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from accord.cli import options as o
from accord.errors import InputError

UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


data_app = typer.Typer(help="List, download, check and prepare datasets.", no_args_is_help=True, rich_markup_mode=None)


@data_app.command("list")
def data_list() -> None:
    """List named datasets, and where they are on this machine."""
    from accord.cli.display import print_table
    from accord.data import catalog

    rows = [
        (name, catalog.entry(name).title, catalog.location(name) or "not downloaded yet") for name in catalog.names()
    ]
    print_table(["name", "what it is", "found"], rows)


@data_app.command("get")
def data_get(name: Annotated[str, Argument(help="a named dataset")]) -> None:
    """Download a named dataset if it is not here yet."""
    from accord.data import catalog

    typer.echo(catalog.get(name) or "built in")


@data_app.command("check")
@o.with_groups
def data_check(
    data: o.DataArgument,
    *,
    log: o.WeightedLog,
    labelling: o.Labelling,
    splitting: o.Splitting,
    printed_as_json: Annotated[bool, Option("--json", help="print as JSON")] = False,
) -> None:
    """Show how a log was read, and its health: duplicates, shared pairs, bots, odd columns and times."""
    from accord.auditing.health import as_json, described, health
    from accord.auditing.interaction_log import open_log
    from accord.data import labels

    settings = {**splitting.settings, **labelling.settings}
    opened = open_log(log.source(data), columns=log.columns, seed=splitting.split_seed, by_values=False, **settings)
    report = {"data": described(opened), "health": health(opened), "labels": labels.summary(opened.data)}
    if printed_as_json:
        typer.echo(json.dumps(as_json(report), indent=1))
        return
    from accord.cli.display import check_report

    check_report(report)


@data_app.command()
@o.with_groups
def prepare(
    source: Annotated[list[str], Argument(help="files of any size, a pattern or a folder, or a database with --query")],
    *,
    out: Annotated[Path, Option(help="folder of the store")],
    memory: Annotated[str, Option(help="memory to use, about: 500MB, 4GB")] = "2GB",
    log: o.WeightedLog,
    overwrite: Annotated[bool, Option("--overwrite", help="replace a store in --out")] = False,
) -> None:
    """Make a store of a log larger than memory."""
    limit = parse_bytes(memory)

    from accord.cli.display import say, say_notes, step_progress
    from accord.data.store.prepare import prepare as run

    began = time.perf_counter()
    with step_progress() as on_progress:
        store = run(
            *(log.source(source), out), columns=log.columns, memory=limit, overwrite=overwrite,
            on_progress=on_progress,
        )  # fmt: skip
    say_notes(store.header.notes)
    rows = store.interactions
    say(
        f"store: {out}, {len(rows):,} interactions of {len(rows.user_ids):,} users with {len(rows.item_ids):,} items,"
        f" {store.nbytes / 1e9:.2f} GB, in {time.perf_counter() - began:.0f} s"
    )


def parse_bytes(text: str) -> int:
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?)i?B?\s*", text.upper().replace("IB", "B"))
    if match is None:
        raise InputError(f"--memory '{text}': write it as 500MB or 4GB.")
    return int(float(match[1]) * UNITS[match[2]])
