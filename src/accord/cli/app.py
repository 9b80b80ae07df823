"""The command line: parse, call, print. What takes long to import is imported when a command needs it."""

from __future__ import annotations

import json
import os
import sys
import time
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from accord.cli.audit import audit
from accord.cli.compare import compare
from accord.cli.data import prepare
from accord.cli.leaderboard import injected, leaderboard
from accord.cli.options import (
    AllowImports,
    Clean,
    Cluster,
    DataArgument,
    Deterministic,
    Device,
    ItemColumn,
    ItemsFile,
    Ratios,
    RunArgument,
    Split,
    TimeColumn,
    UserColumn,
    ValueColumn,
    load_data,
    open_run,
    parse_numbers,
    parse_options,
    put_table,
    run_folder,
    typed,
    without,
)
from accord.cli.recommend import recommend
from accord.cli.report import report
from accord.cli.reproduce import reproduce
from accord.cli.serve import serve
from accord.errors import InputError, printable
from accord.io.files import UNFINISHED
from accord.version import __version__

app = typer.Typer(
    help="Train recommenders from noisy implicit feedback, and find the interactions that were not real preferences.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
data_app = typer.Typer(help="List, fetch and check datasets.", no_args_is_help=True, rich_markup_mode=None)
app.add_typer(data_app, name="data")


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="where the runs and the report go")] = Path("runs/demo"),
    seeds: Annotated[int, typer.Option(help="runs of each method")] = 3,
    device: Device = "auto",
) -> None:
    """Train, compare and find noise on built-in data with known noise; writes a report."""
    from accord.cli.demo import run_demo

    run_demo(out, seeds, device)


@app.command()
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
    k: Annotated[str | None, typer.Option(help="lengths of the lists that are judged, as 5,20")] = None,
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
        raise InputError("--ranks goes with --cluster; without one, torchrun starts ranks.")
    if seeds is not None and seed is not None:
        raise InputError("give --seeds or --seed, not both.")
    options = parse_options(set_ or [])

    from accord.cli.display import metrics_table, say, training_progress
    from accord.fitting import find_device, fit, plan
    from accord.nn.ranks import joined

    with joined() as ranks:
        began = time.perf_counter()
        dataset = load_data(data, (user_col, item_col, value_col, time_col), clean, split, ratios, split_seed, items)
        read_seconds = time.perf_counter() - began
        chosen = [seed] if seed is not None else 1 if seeds is None else seeds
        ks = parse_numbers(k, "--k") if k else None
        # mistakes first, before a folder is made
        run = plan(dataset, model, method, protocol, chosen, options, epochs, ks)
        find_device(device)
        name = "-".join([dataset.name, *(part.replace(":", ".") for part in (model, run.config.method) if part)])
        start: Callable[..., Any] = fit
        if ranks is not None:
            from accord import distributed

            start = partial(distributed.fit, ranks)
        alone = ranks is None or ranks.rank == 0  # in deciding and in saying
        folder = run_folder(out, Path("runs") / name, resume, overwrite) if alone else Path()
        if ranks is not None:
            folder = Path(ranks.said_by_first(str(folder)))
        for note in dataset.notes if alone else ():
            say(f"note: {note}")
        with training_progress() if alone else nullcontext() as watch:
            recommender = start(
                dataset, model, method, protocol=protocol, seeds=chosen,
                options=options, epochs=epochs, device=device, ks=ks, out=folder,
                resume=resume, watch=watch, read_seconds=read_seconds, command=typed(),
            )  # fmt: skip
    if not alone:
        return
    metrics_table(recommender.metrics)
    say(f"run folder: {folder}")

    from accord.report.run_report import write_report

    try:
        say(f"report: {write_report(folder / 'report.html', [(str(folder), recommender)])}")
    except OSError as error:
        mend = f"the run in {folder} is whole; write its report with 'accord report {folder}'"
        raise InputError(f"the report cannot be written ({(error.strerror or str(error)).lower()}); {mend}.") from error
    if "diverged" in recommender.metrics:
        raise InputError(f"{folder} holds the runs that did not diverge; train the others with a smaller train.lr.")


@app.command()
def evaluate(
    run: RunArgument,
    k: Annotated[str | None, typer.Option(help="lengths of the lists, as 5,20; as trained if not given")] = None,
    per_user: Annotated[Path | None, typer.Option(help="Parquet file for every user's own figures")] = None,
    device: Device = "auto",
    allow_imports: AllowImports = False,
) -> None:
    """Evaluate a saved run on the test that belongs to it."""
    from accord.cli.display import metrics_table, say
    from accord.recommender.recommender import summarise

    recommender = open_run(run, device, allow_imports)
    evaluation = recommender.evaluate(ks=parse_numbers(k, "--k") if k else None)
    metrics_table({**recommender.metrics, **summarise(evaluation)})
    if per_user:
        put_table(recommender.per_user(evaluation), per_user, "parquet")
        say(f"figures of {len(evaluation.users)} users: {per_user}")


app.command()(audit)
app.command()(compare)
app.command()(leaderboard)
app.command()(injected)
app.command()(reproduce)
app.command()(report)
app.command()(serve)
app.command()(recommend)


@data_app.command("list")
def data_list() -> None:
    """Named datasets, and where they were found."""
    from accord.cli.display import print_table
    from accord.data import catalog

    rows = [(name, catalog.describe(name)["title"], catalog.found(name) or "not here yet") for name in catalog.names()]
    print_table(["name", "what it is", "found"], rows)


@data_app.command("get")
def data_get(name: Annotated[str, typer.Argument(help="a named dataset")]) -> None:
    """Fetch a named dataset, if it is not here yet."""
    from accord.data import catalog

    place = catalog.get(name)
    typer.echo(place or "built in")
    try:
        catalog.get_titles(name)
    except InputError as error:
        warnings.warn(f"the titles of {name} could not be fetched: {error}", stacklevel=1)


@data_app.command("check")
def data_check(
    data: DataArgument,
    user_col: UserColumn = None,
    item_col: ItemColumn = None,
    value_col: ValueColumn = None,
    time_col: TimeColumn = None,
    clean: Clean = None,
    split: Split = "auto",
    ratios: Ratios = "0.8,0.1,0.1",
    as_json: Annotated[bool, typer.Option("--json", help="print as JSON")] = False,
) -> None:
    """Counts, sparsity, duplicates, shared pairs, cold users and items, constant columns."""
    from accord.data.check import check

    report = check(load_data(data, (user_col, item_col, value_col, time_col), clean, split, ratios, 0))
    if as_json:
        typer.echo(json.dumps(report.to_dict(), indent=1))
        return
    from accord.cli.display import check_report

    check_report(report)


data_app.command("prepare")(prepare)


@app.command()
def models() -> None:
    """The models and their options."""
    from accord.cli.display import describe_kinds
    from accord.models import MODELS

    describe_kinds("model", MODELS.values())


@app.command()
def methods() -> None:
    """The methods and their options."""
    from accord.cli.display import describe_kinds, describe_section
    from accord.methods import METHODS
    from accord.training.trainer import TrainConfig

    describe_kinds("method", METHODS.values())
    describe_section("train", TrainConfig, "for every method")


@app.command()
def doctor() -> None:
    """Versions, device, data found, and a one-second self-test."""
    from accord.cli.doctor import examine

    if not examine():
        raise typer.Exit(1)


def main() -> None:
    """Run a command; what a user can cause ends in one sentence and exit code 2."""
    warnings.showwarning = lambda message, *_args, **_kw: print(f"accord: {printable(str(message))}", file=sys.stderr)
    try:
        code = app(standalone_mode=False)  # typer gives back the code of an exit, and 130 for Ctrl-C
        if code == 130:
            raise KeyboardInterrupt
        sys.exit(code or 0)
    except InputError as error:
        sys.exit(_fail(str(error)))
    except (KeyboardInterrupt, typer.Abort):
        if _may_speak():
            print("\naccord: stopped; a training that was cut short goes on with --resume.", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:
        sys.exit(1)
    except OSError as error:
        sys.exit(_fail(_sentence(error)))
    except Exception as error:
        usage = _memory_error(error) or _usage_error(error)
        if usage is None:
            raise
        sys.exit(_fail(usage))


def _sentence(error: OSError) -> str:
    import errno

    where = f" while writing {error.filename}" if error.filename else ""
    if error.errno == errno.ENOSPC:
        return f"the disk is full{where}; make room and run the same command with --resume."
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS) and error.filename:
        name = str(error.filename)
        place = Path(name).parent if name.endswith(UNFINISHED) else name
        return f"{place}: {(error.strerror or '').lower()}; give a place that you can write to."
    return f"{error.strerror or error}{f': {error.filename}' if error.filename else ''}."


def _memory_error(error: Exception) -> str | None:
    """The sentence of an error that more memory would mend, None if it is another."""
    if isinstance(error, MemoryError) or "allocate memory" in str(error):  # torch has no kind of its own on a CPU
        return "there is not enough memory for that; give less data, or make the model or the batch smaller."
    return None


def _usage_error(error: Exception) -> str | None:
    """The sentence of a mistake in the command itself, None if the error is something else."""
    if "deterministic implementation" in str(error):
        return "the model or method does what cannot be done deterministically on CUDA; leave --deterministic away."
    message = getattr(error, "format_message", None)
    if message is None or not hasattr(error, "exit_code"):
        return None
    text = str(message()).rstrip(".")
    return f"{text[:1].lower()}{text[1:]}; see 'accord --help'."


def _fail(sentence: str) -> int:
    if _may_speak():
        print(f"accord: {printable(sentence)}", file=sys.stderr)
    return 2


def _may_speak() -> bool:
    """Of several ranks, one says why all of them end."""
    if "RANK" not in os.environ:
        return True
    from accord.nn.ranks import may_speak

    return may_speak()


@app.callback(invoke_without_command=True)
def _version(version: Annotated[bool, typer.Option("--version", help="print the version")] = False) -> None:
    if version:
        typer.echo(f"accord {__version__}")
        raise typer.Exit
