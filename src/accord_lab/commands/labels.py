"""`accord lab labels`: what a few labels are worth on data whose labels are known."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, cast, get_args

import typer

from accord.cli.options import Clean, DataArgument, Device, Labels, parse_numbers, source_of
from accord.errors import InputError, unknown

KINDS = ("auto", "training", "chosen", "trust")


def labels(
    data: DataArgument,
    labels: Labels = None,
    shares: Annotated[str, typer.Option(help="shares of the labels that are given")] = "0.01,0.02,0.05,0.1,0.2",
    of: Annotated[
        str,
        typer.Option(
            help="auto; training: learned models with 5% of the labels; chosen: those an audit asks for; trust: labels "
            "of the validation too, and how far labels are trusted then"
        ),
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
        typer.Option(help="what is real and what noise, as 'rating>=4; rating<=2', that auto is judged by besides"),
    ] = None,
    clean: Clean = None,
    budget: Annotated[float, typer.Option(help="seconds for what auto tries, on two ordinary cores")] = 120.0,
    device: Device = "auto",
    out: Annotated[Path, typer.Option(help="folder of the page and raw results")] = Path("runs/labels"),
) -> None:
    """Give auto or a training a few of the known labels, and see how well noise is told and items recommended."""
    from accord.cli.display import print_table, say
    from accord.data.load import load
    from accord_lab import chosen_labels, label_shares, label_trust, labels_in_training

    ways = by.split(",")
    for way in ways:
        if way not in get_args(label_shares.By):
            raise unknown("--by", way, get_args(label_shares.By))
    if of not in KINDS:
        raise unknown("--of", of, KINDS)
    given = parse_numbers(shares, "--shares", float)
    if draws < 1 or not all(0 < share < 1 for share in given):
        raise InputError("--draws must be at least 1, and --shares between 0 and 1.")
    dataset = load(source_of(data, None), labels=labels, clean=clean)
    if of == "auto":
        asked, judge = cast(list[label_shares.By], ways), None
        if truth is not None:
            judge = label_shares.Truth.of(load(source_of(data, None), labels=truth, clean=clean), truth)
        lines = label_shares.run(dataset, given, asked, draws, out, device, budget, say, judge)
        name, made = label_shares.NAME, label_shares.write_page(out, lines)
    elif of == "training":
        lines = labels_in_training.run(dataset, draws, out, device, say)
        name, made = labels_in_training.NAME, labels_in_training.write_page(out, lines)
    elif of == "trust":
        lines = label_trust.run(dataset, given, draws, out, device, budget, say)
        name, made = label_trust.NAME, label_trust.write_page(out, lines)
    else:
        lines = chosen_labels.run(dataset, draws, out, say)
        name, made = chosen_labels.NAME, chosen_labels.write_page(out, lines)
    for table in made:
        print_table(table.columns, table.rows)
    say(f"page: {out / name}.md")
