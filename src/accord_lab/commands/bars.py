"""`accord lab bars` and `exposure`: public tables that anybody can check."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from accord.cli.options import Device
from accord.errors import InputError
from accord_lab.comparing.command import show

RenderOnly = Annotated[bool, typer.Option("--render-only", help="only write the page again")]


def find_folder(data: str) -> Path:
    given = Path(os.environ.get("ACCORD_DATA", "."))
    for place in (Path(data), given / data, given / "logs" / data):
        if place.is_dir():
            return place
    raise InputError(f"{data} is no folder, and $ACCORD_DATA has none of that name; give the folder of the log.")


def bars(
    data: Annotated[str, typer.Argument(help="gowalla, yelp2018 or another: a folder, or one in $ACCORD_DATA")],
    budget: Annotated[
        float, typer.Option(min=1, help="seconds for what auto tries, of the GPU where there is one")
    ] = 600.0,
    device: Device = "auto",
    out: Annotated[Path, typer.Option(help="folder of the page and raw results")] = Path("runs/bars"),
    render_only: RenderOnly = False,
) -> None:
    """BARS' fixed splits: recall@20 and NDCG@20 of auto beside the published rows."""
    from accord.cli.display import say, training_progress
    from accord_lab import bars as page

    if not render_only:
        with training_progress() as watch:
            page.run(find_folder(data), out, budget, device, watch, say)
    show(page.render(out))
    say(f"page: {out / page.NAME}.md")


def exposure(
    data: Annotated[str, typer.Argument(help="coat, or another folder of user.csv and random.csv")],
    draws: Annotated[int, typer.Option(min=1, help="draws of what trains, validates and tests")] = 10,
    device: Device = "auto",
    out: Annotated[Path, typer.Option(help="folder of the page and raw results")] = Path("runs/exposure"),
    render_only: RenderOnly = False,
) -> None:
    """A log that users chose and a little random exposure: AUC and NDCG@5 on the rest, beside debiasing methods."""
    from accord.cli.display import say
    from accord_lab.labels import exposure as page

    if not render_only:
        page.run(find_folder(data), draws, out, device, say)
    show(page.render(out))
    say(f"page: {out / page.NAME}.md")
