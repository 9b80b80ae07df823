"""`accord train` and `accord evaluate`: one recommender, from the data to its folder and back."""

from __future__ import annotations

import sys
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer

from accord.cli.options import (
    AllowImports,
    Clean,
    Cluster,
    DataArgument,
    Deterministic,
    Device,
    Events,
    ItemColumn,
    ItemsFile,
    Labels,
    Ratios,
    RunArgument,
    Split,
    TimeColumn,
    UserColumn,
    ValueColumn,
    WeightColumn,
    load_data,
    open_run,
    parse_numbers,
    parse_options,
    put_table,
    run_folder,
    typed,
    without,
)
from accord.errors import InputError


def train(
    data: DataArgument,
    model: Annotated[str, typer.Option(help="see 'accord models', or my.module:MyModel")] = "gmf",
    method: Annotated[str, typer.Option(help="see 'accord methods', or my.module:MyMethod")] = "deca",
    protocol: Annotated[
        str, typer.Option(help="published (as the paper's tables were made) or corrected")
    ] = "corrected",
    seeds: Annotated[int | None, typer.Option(help="how many runs, with seeds 2019, 2020, …")] = None,
    seed: Annotated[int | None, typer.Option(help="one run with this seed")] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="an option, as method.c1=100 or train.l2=0.01")
    ] = None,
    epochs: Annotated[int | None, typer.Option(help="passes over the training data, at most")] = None,
    k: Annotated[str | None, typer.Option(help="top-n lengths to evaluate, as 5,20")] = None,
    deterministic: Deterministic = False,
    device: Device = "auto",
    cluster: Cluster = None,
    num_ranks: Annotated[
        int | None, typer.Option("--ranks", help="with --cluster: processes that train one model together")
    ] = None,
    user_col: UserColumn = None,
    item_col: ItemColumn = None,
    value_col: ValueColumn = None,
    time_col: TimeColumn = None,
    weight_col: WeightColumn = None,
    labels: Labels = None,
    events: Events = None,
    clean: Clean = None,
    split: Split = "auto",
    ratios: Ratios = "0.8,0.1,0.1",
    split_seed: Annotated[int, typer.Option(help="seed of the split")] = 0,
    items: ItemsFile = None,
    out: Annotated[Path | None, typer.Option(help="run folder; runs/DATA-MODEL-METHOD if not given")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="continue where an interrupted training stopped")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="replace a finished run in --out")] = False,
) -> None:
    """Train, evaluate and save a recommender."""
    if cluster is not None:
        from accord.cli.ray_launcher import train_on

        raise typer.Exit(train_on(cluster, num_ranks or 1, device, without(sys.argv[1:], ("--cluster", "--ranks"))))
    if num_ranks is not None:
        raise InputError("--ranks goes with --cluster; without a cluster, start the processes with torchrun.")
    if seeds is not None and seed is not None:
        raise InputError("give --seeds or --seed, not both.")
    options = parse_options(set_ or [])

    from accord.cli.display import metrics_table, say, training_progress
    from accord.fitting import fit_run
    from accord.nn.ranks import joined
    from accord.training.plan import find_device, plan

    with joined() as ranks:
        began = time.perf_counter()
        dataset = load_data(
            data, (user_col, item_col, value_col, time_col, weight_col), clean, split, ratios, split_seed, items,
            labels, events,
        )  # fmt: skip
        read_seconds = time.perf_counter() - began
        chosen = [seed] if seed is not None else 1 if seeds is None else seeds
        ks = parse_numbers(k, "--k") if k else None
        # mistakes are found before a folder is made
        run = plan(dataset, model, method, protocol, chosen, options, epochs, ks)
        find_device(device)
        name = "-".join([dataset.name, *(part.replace(":", ".") for part in (model, run.config.method) if part)])
        first = ranks.rank == 0  # of several processes one decides and prints
        folder = run_folder(out, Path("runs") / name, resume, overwrite) if first else Path()
        folder = Path(ranks.from_first(str(folder)))
        for note in dataset.notes if first else ():
            say(f"note: {note}")
        with training_progress() if first else nullcontext() as watch:
            recommender = fit_run(
                dataset, run, device=device, out=folder, resume=resume, watch=watch, ranks=ranks,
                read_seconds=read_seconds, command=typed(),
            )  # fmt: skip
    if recommender is None:
        return
    metrics_table(recommender.metrics)
    say(f"run folder: {folder}")

    from accord.report.run_report import write_report

    try:
        say(f"report: {write_report(folder / 'report.html', [(str(folder), recommender)])}")
    except OSError as error:
        advice = f"the run in {folder} is whole; write its report with 'accord report {folder}'"
        raise InputError(
            f"the report cannot be written ({(error.strerror or str(error)).lower()}); {advice}."
        ) from error
    if "diverged" in recommender.metrics:
        raise InputError(f"{folder} holds the runs that did not diverge; train the others with a smaller train.lr.")


def evaluate(
    run: RunArgument,
    k: Annotated[str | None, typer.Option(help="top-n lengths, as 5,20; those of the training if not given")] = None,
    per_user: Annotated[Path | None, typer.Option(help="Parquet file for the metrics of every user")] = None,
    device: Device = "auto",
    allow_imports: AllowImports = False,
) -> None:
    """Evaluate a saved run on the test that belongs to it."""
    from accord.cli.display import metrics_table, say

    recommender = open_run(run, device, allow_imports)
    evaluation = recommender.evaluate(ks=parse_numbers(k, "--k") if k else None)
    metrics_table({**recommender.metrics, **evaluation.summary()})
    if per_user:
        put_table(recommender.per_user(evaluation), per_user, "parquet")
        say(f"metrics of {len(evaluation.users)} users: {per_user}")
