"""`accord compare`: models and methods compared on one dataset."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

from typer import Option

from accord.cli import options as o
from accord.errors import InputError

Seeds = Annotated[int, Option(help="runs of each row, with seeds 2019, 2020, …")]
Epochs = Annotated[int | None, Option(help="passes over the training data, at most")]


@contextmanager
def continuing() -> Iterator[None]:
    """What Ctrl-C says: everything that has finished is written."""
    try:
        yield
    except KeyboardInterrupt:
        print("\naccord: stopped; the same command continues where it stopped.", file=sys.stderr)
        sys.exit(130)


def check_counts(seeds: int, tune: int = 0) -> None:
    if seeds < 1 or tune < 0:
        raise InputError("--seeds must be at least 1 and --tune at least 0.")


def split_names(**options: str | None) -> dict[str, list[str]]:
    """The names that options give, separated by commas; without those that are not given."""
    return {name: text.split(",") for name, text in options.items() if text}


def show(parts: Iterable[Any], wanted: Callable[[str], bool] = bool) -> None:
    """Print the tables among the parts of a page, with the columns that are wanted; the files have all."""
    from accord.cli.display import print_table
    from accord.report.tables import Table
    from accord_lab.writing import only_columns

    for table in (only_columns(part, wanted) for part in parts if isinstance(part, Table)):
        print_table(table.columns, table.rows, table.title)


def compare(
    data: o.DataArgument,
    *,
    models: Annotated[str, Option(help="models, separated by commas")] = "gmf",
    methods: Annotated[str, Option(help="methods, separated by commas")] = "normal,deca,deca-p",
    set_: Annotated[
        list[str] | None, Option("--set", help="an option, or several values of it: method.c1=1,10")
    ] = None,
    seeds: Seeds = 3,
    tune: Annotated[int, Option(help="tuning trials for each row first, chosen by validation NDCG@20")] = 0,
    baseline: Annotated[str | None, Option(help="the row that the others are tested against")] = None,
    protocol: Annotated[str, Option(help="published or corrected")] = "corrected",
    epochs: Epochs = None,
    deterministic: o.Deterministic = False,
    device: o.Device = "auto",
    cluster: o.Cluster = None,
    log: o.WeightedLog,
    splitting: o.Splitting,
    out: Annotated[Path | None, Option(help="folder of the results; runs/DATA-compare if not given")] = None,
    render_only: Annotated[bool, Option("--render-only", help="only write the tables again, from the results")] = False,
) -> None:
    """Compare models and methods, with popularity and EASE among them. Continues where it was interrupted."""
    check_counts(seeds, tune)
    grid: dict[str, list[Any]] = {}
    for pair in set_ or []:
        key, equals, values = pair.partition("=")
        grid[key] = [o.parse_options([f"{key}{equals}{value}"])[key] for value in values.split(",")]
    dataset = o.load_data(data, log, splitting)

    from accord.cli.display import say, training_progress
    from accord.comparing.compare import PER_USER, Request, cells_of, users_of
    from accord.comparing.compare import compare as run_comparison
    from accord.comparing.executor import workers_on
    from accord.comparing.results import Results
    from accord_lab.comparing.tables import described, render, write_comparison
    from accord_lab.comparing.tuning import tuned

    folder = out or Path("runs") / f"{dataset.name}-compare"
    cells = cells_of(models.split(","), methods.split(","), {k: v for k, v in grid.items() if len(v) > 1})
    common = tuple((key, values[0]) for key, values in grid.items() if len(values) == 1)
    with continuing(), workers_on(None if render_only else cluster, say) as workers, training_progress() as watch:
        request = Request(dataset, protocol, seeds, common, epochs, device, watch, say, workers=workers)
        if tune:
            cells = tuned(request, cells, tune, Results(folder, "tuning"), render_only)
        results = Results(folder) if render_only else run_comparison(request, cells, Results(folder))
    tables = render(request, cells, results, baseline)
    show(tables, lambda column: "@" not in column or "@20" in column)
    say(f"raw results: {results.file}; tables: {folder}/compare.md, .html, .csv and .tex")

    per_user = {metric: users_of(request, cells, results, metric) for metric in PER_USER}
    path = write_comparison(folder / "report.html", dataset.name, described(request), tables, per_user, o.typed())
    say(f"report: {path}")
