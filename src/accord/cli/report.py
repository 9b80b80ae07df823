"""`accord report`: a page about run folders."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from accord.cli import options as o
from accord.errors import InputError


def report(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="run folders; the first is the baseline")],
    *,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="file to write; default: report.html in the run folder, or above several"),
    ] = None,
    opening: o.Opening,
) -> None:
    """Write a page about one or several runs of the same data: metrics, users, recommendations, settings."""
    if output is not None and output.is_dir():
        raise InputError(f"-o {output} is a folder; name a file in it, as {output / 'report.html'}.")
    if len({run.resolve() for run in runs}) < len(runs):
        raise InputError("a run folder was given twice; name each one once.")
    loaded = [(str(run), opening.open(run)) for run in runs]

    from accord.cli.display import say
    from accord.report.run_report import write_report

    default = (runs[0] if len(runs) == 1 else runs[0].parent) / "report.html"
    say(f"report: {write_report(output or default, loaded)}")
