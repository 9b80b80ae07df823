"""`accord lab labels`, `exposure` and `bars`: what a few labels are worth, and public tables that anybody can check."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any, cast, get_args

from typer import Argument, Option

from accord.cli.options import Clean, DataArgument, Device, Labels, Log, parse_numbers
from accord.errors import InputError, unknown
from accord_lab.comparing.command import show

RenderOnly = Annotated[bool, Option("--render-only", help="only write the page again")]
KINDS = ("auto", "training", "chosen")


def labels(
    data: DataArgument,
    labels: Labels = None,
    shares: Annotated[str, Option(help="shares of the labels that are given")] = "0.01,0.02,0.05,0.1,0.2",
    of: Annotated[
        str,
        Option(help="auto; training: learned models with 5% of the labels; chosen: those an audit asks for"),
    ] = "auto",
    by: Annotated[
        str,
        Option(
            help="random; users: all labels of a share of the users; popular: of the most popular items; one-class: "
            "nine of ten are real; few: 20 in all; wrong: one of ten is wrong"
        ),
    ] = "random,users",
    draws: Annotated[int, Option(help="draws of the labels")] = 10,
    truth: Annotated[
        str | None,
        Option(help="another rule of what is real and what noise, as 'rating>=4; rating<=2', to judge auto by"),
    ] = None,
    clean: Clean = None,
    budget: Annotated[float, Option(help="seconds for what auto tries, on two ordinary cores")] = 120.0,
    device: Device = "auto",
    out: Annotated[Path, Option(help="folder of the page and raw results")] = Path("runs/labels"),
) -> None:
    """Give auto or a training some labels of a log, and measure noise detection and recommendations."""
    from accord.cli.display import say
    from accord.data.load import load
    from accord_lab.labels import chosen, training
    from accord_lab.labels import shares as of_shares
    from accord_lab.labels.draws import By

    ways = by.split(",")
    for way in ways:
        if way not in get_args(By):
            raise unknown("--by", way, get_args(By))
    if of not in KINDS:
        raise unknown("--of", of, KINDS)
    given = parse_numbers(shares, "--shares", float)
    if draws < 1 or not all(0 < share < 1 for share in given):
        raise InputError("--draws must be at least 1, and --shares between 0 and 1.")
    source = Log().source(data)
    dataset = load(source, labels=labels, clean=clean)
    if of == "auto":
        judge = None if truth is None else of_shares.Truth.of(load(source, labels=truth, clean=clean), truth)
        of_shares.run(dataset, given, cast(list[By], ways), draws, out, device, budget, say, judge)
    elif of == "training":
        training.run(dataset, draws, out, device, say)
    else:
        chosen.run(dataset, draws, out, say)
    _show_page({"auto": of_shares, "training": training, "chosen": chosen}[of], out)


def find_folder(data: str) -> Path:
    given = Path(os.environ.get("ACCORD_DATA", "."))
    for place in (Path(data), given / data, given / "logs" / data):
        if place.is_dir():
            return place
    raise InputError(f"{data} is no folder, and $ACCORD_DATA has none of that name; give the folder of the log.")


def bars(
    data: Annotated[str, Argument(help="gowalla, yelp2018 or another: a folder, or one in $ACCORD_DATA")],
    budget: Annotated[float, Option(min=1, help="seconds for what auto tries, of the GPU where there is one")] = 600.0,
    device: Device = "auto",
    out: Annotated[Path, Option(help="folder of the page and raw results")] = Path("runs/bars"),
    render_only: RenderOnly = False,
) -> None:
    """Test auto on the fixed splits of BARS, next to the published rows: recall@20 and NDCG@20."""
    from accord.cli.display import say, training_progress
    from accord_lab import bars as page

    if not render_only:
        with training_progress() as watch:
            page.run(find_folder(data), out, budget, device, watch, say)
    _show_page(page, out)


def exposure(
    data: Annotated[str, Argument(help="coat, or another folder of user.csv and random.csv")],
    draws: Annotated[int, Option(min=1, help="draws of what trains, validates and tests")] = 10,
    device: Device = "auto",
    out: Annotated[Path, Option(help="folder of the page and raw results")] = Path("runs/exposure"),
    render_only: RenderOnly = False,
) -> None:
    """Compare ways to use a little random exposure beside a log that users chose: AUC and NDCG@5 on the rest."""
    from accord.cli.display import say
    from accord_lab.labels import exposure as page

    if not render_only:
        page.run(find_folder(data), draws, out, device, say)
    _show_page(page, out)


def _show_page(page: Any, out: Path) -> None:
    from accord.cli.display import say

    show(page.render(out))
    say(f"page: {out / page.NAME}.md")
