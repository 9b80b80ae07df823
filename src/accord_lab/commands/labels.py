"""`accord lab labels`: what a few labels are worth on data that has labels."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, cast, get_args

import typer

from accord.cli.options import Clean, DataArgument, Device, Labels, Log, parse_numbers
from accord.errors import InputError, unknown
from accord_lab.comparing.command import show

KINDS = ("auto", "training", "chosen")


def labels(
    data: DataArgument,
    labels: Labels = None,
    shares: Annotated[str, typer.Option(help="shares of the labels that are given")] = "0.01,0.02,0.05,0.1,0.2",
    of: Annotated[
        str,
        typer.Option(help="auto; training: learned models with 5% of the labels; chosen: those an audit asks for"),
    ] = "auto",
    by: Annotated[
        str,
        typer.Option(
            help="random; users: all labels of a share of the users; popular: of the most popular items; one-class: "
            "nine of ten are real; few: 20 in all; wrong: one of ten is wrong"
        ),
    ] = "random,users",
    draws: Annotated[int, typer.Option(help="draws of the labels")] = 10,
    truth: Annotated[
        str | None,
        typer.Option(help="another rule of what is real and what noise, as 'rating>=4; rating<=2', to judge auto by"),
    ] = None,
    clean: Clean = None,
    budget: Annotated[float, typer.Option(help="seconds for what auto tries, on two ordinary cores")] = 120.0,
    device: Device = "auto",
    out: Annotated[Path, typer.Option(help="folder of the page and raw results")] = Path("runs/labels"),
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
    study = {"auto": of_shares, "training": training, "chosen": chosen}[of]
    show(study.render(out))
    say(f"page: {out / study.NAME}.md")
