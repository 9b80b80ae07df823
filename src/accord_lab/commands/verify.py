"""`accord lab verify`: whether pages of results say what their raw results say."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option

from accord.cli.options import AllowImports, Device

if TYPE_CHECKING:
    from accord.data.interactions import Dataset


def verify(
    folder: Annotated[Path, Argument(help="folder of pages and raw results, as docs/reproduction")],
    training: Annotated[bool, Option(help="train one cell of each table anew")] = True,
    device: Device = "auto",
    allow_imports: AllowImports = False,
) -> None:
    """Rebuild every page from its raw results, and retrain one cell of each table; exit code 1 if any differs."""
    from accord.cli.display import say
    from accord.data import catalog
    from accord.data.load import load_named
    from accord.errors import InputError
    from accord_lab import verify as checks

    if not folder.is_dir():
        raise InputError(f"{folder}: there is no such folder.")

    @cache
    def find(name: str) -> Dataset | None:
        return load_named(name) if catalog.is_name(name) and catalog.location(name) else None

    counts = {False: 0, True: 0, None: 0}
    for check in checks.verify(folder, find, training, device, allow_imports):
        counts[check.wrong] += 1
        words = {False: "as it says", True: "DIFFERS", None: "not checked"}[check.wrong]
        say(f"{words}: {check.what}{f' ({check.why})' if check.why else ''}")
    say(f"{counts[False]} as they say, {counts[True]} differ, {counts[None]} not checked.")
    if counts[True]:
        raise typer.Exit(1)
