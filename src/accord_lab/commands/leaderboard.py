"""`accord lab leaderboard`, `injected` and `partners`: what methods are worth under the corrected protocol."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from accord.cli.compare import continuing
from accord.cli.options import Cluster, Device, parse_numbers
from accord.errors import InputError

if TYPE_CHECKING:
    from accord.comparing.compare import Request
    from accord.data.interactions import Dataset
    from accord.report.tables import Figure, Table

Datasets = Annotated[
    list[str] | None, typer.Argument(help="named datasets, files or folders; those found if not given")
]
Models = Annotated[str | None, typer.Option(help="models, separated by commas")]
Methods = Annotated[str | None, typer.Option(help="methods, separated by commas; all if not given")]
Tune = Annotated[int, typer.Option(help="tuning trials for each row first, chosen by validation NDCG@20; 0: defaults")]
Epochs = Annotated[int | None, typer.Option(help="passes over the training data, at most")]
Known = Annotated[
    list[Path] | None, typer.Option("--from", help="reuse finished runs of another --out; may be given more than once")
]
AtOnce = Annotated[int, typer.Option("--processes", min=1, help="rows that train at once, which may share a GPU")]
RenderOnly = Annotated[bool, typer.Option("--render-only", help="only write the page again, from the results")]


def leaderboard(
    datasets: Datasets = None,
    models: Models = None,
    methods: Methods = None,
    seeds: Annotated[int, typer.Option(help="runs of each row, with seeds 2019, 2020, …")] = 10,
    tune: Tune = 16,
    epochs: Epochs = None,
    device: Device = "auto",
    cluster: Cluster = None,
    processes: AtOnce = 1,
    out: Annotated[Path, typer.Option(help="folder of the page and raw results")] = Path("runs/leaderboard"),
    known: Known = None,
    render_only: RenderOnly = False,
) -> None:
    """Every model with every method, equally tuned, tested against Normal and the best row without denoising."""
    from accord_lab import leaderboard as board

    if render_only:
        show(board.render(out))
        return
    _check(seeds, tune)
    given = _named(models, methods)
    loaded = _load(datasets, ("ml-100k", "modcloth", "adressa"))
    asked = seeds, epochs, device, cluster, processes, known
    show(_watched(lambda request: board.run(loaded, request, out, trials=tune, **given), *asked))


def injected(
    datasets: Datasets = None,
    models: Models = None,
    methods: Methods = None,
    kinds: Annotated[str, typer.Option(help="uniform, popularity, user")] = "uniform,popularity,user",
    rates: Annotated[str, typer.Option(help="shares of the training pairs that are noise")] = "0.1,0.2,0.3,0.4",
    seeds: Annotated[int, typer.Option(help="runs of each cell, with seeds 2019, 2020, …")] = 5,
    tune: Tune = 16,
    epochs: Epochs = None,
    device: Device = "auto",
    cluster: Cluster = None,
    processes: AtOnce = 1,
    out: Annotated[Path, typer.Option(help="folder of the page and raw results")] = Path("runs/leaderboard"),
    known: Known = None,
    render_only: RenderOnly = False,
) -> None:
    """Inject noise into training data: whether it is found, and what it costs the ranking."""
    from accord_lab import noise_injection as noise

    if render_only:
        show(noise.render(out))
        return
    _check(seeds, tune)
    given = _named(models, methods)
    which, shares = kinds.split(","), parse_numbers(rates, "--rates", float)
    loaded = _load(datasets, ("demo", "ml-100k", "modcloth"))
    asked = seeds, epochs, device, cluster, processes, known

    def run(request: Callable[[Dataset], Request]) -> list[Table | Figure]:
        return noise.run(loaded, request, out, trials=tune, kinds=which, rates=shares, **given)

    show(_watched(run, *asked))


def partners(
    datasets: Datasets = None,
    model: Annotated[str, typer.Option(help="model that is trained with each partner")] = "gmf",
    partners: Annotated[str, typer.Option(help="models of the frozen partner")] = "mf,ease,item-knn,ials",
    seeds: Annotated[int, typer.Option(help="runs of each row, with seeds 2019, 2020, …")] = 3,
    epochs: Epochs = None,
    device: Device = "auto",
    cluster: Cluster = None,
    processes: AtOnce = 1,
    out: Annotated[Path, typer.Option(help="folder of the page and raw results")] = Path("runs/leaderboard"),
    known: Known = None,
    render_only: RenderOnly = False,
) -> None:
    """DeCA(p) with frozen partners of other families: whether agreement of different models tells noise."""
    from accord_lab import partners as page

    if render_only:
        show(page.render(out))
        return
    _check(seeds, 0)
    given = partners.split(",")
    loaded = _load(datasets, ("demo", "ml-100k", "modcloth"))
    asked = seeds, epochs, device, cluster, processes, known
    show(_watched(lambda request: page.run(loaded, request, out, model, given), *asked))


def _check(seeds: int, tune: int) -> None:
    if seeds < 1 or tune < 0:
        raise InputError("--seeds must be at least 1 and --tune at least 0.")


def _named(models: str | None, methods: str | None) -> dict[str, list[str]]:
    return {name: text.split(",") for name, text in (("models", models), ("methods", methods)) if text}


def _load(datasets: list[str] | None, usual: tuple[str, ...]) -> list[Dataset]:
    from accord.data import catalog
    from accord.data.load import load

    wanted = datasets or [name for name in usual if catalog.found(name)]
    if not wanted:
        raise InputError(f"none of {', '.join(usual)} was found; set ACCORD_DATA, or name a dataset to fetch it.")
    return [load(name) for name in wanted]


def _watched(
    run: Callable[[Callable[[Dataset], Request]], list[Table | Figure]],
    seeds: int,
    epochs: int | None,
    device: str,
    cluster: str | None,
    processes: int,
    known: list[Path] | None,
) -> list[Table | Figure]:
    """Run with a progress bar; nothing is lost by an interruption."""
    from accord.cli.display import say, training_progress
    from accord.comparing.compare import Request
    from accord.comparing.executor import Processes
    from accord.comparing.ray_executor import workers_on

    for folder in known or []:
        if not folder.is_dir():
            raise InputError(f"--from {folder}: there is no such folder.")
    if cluster is not None and processes > 1:
        raise InputError("--cluster and --processes each say where rows train; give one of them.")
    where = workers_on(cluster, say) if processes == 1 else Processes(processes, share_gpu=True)
    with continuing(), where as workers, training_progress() as watch:
        return run(
            lambda data: Request(
                data,
                seeds=seeds,
                epochs=epochs,
                device=device,
                watch=watch,
                say=say,
                known=tuple(known or ()),
                workers=workers,
            )
        )


def show(parts: Iterable[Table | Figure]) -> None:
    """Print the tables without some columns, which are in the files."""
    from accord.cli.display import print_table
    from accord.report.tables import Table

    for table in parts:
        if isinstance(table, Table):
            shown = [n for n, name in enumerate(table.columns) if "@5" not in name and "recall" not in name]
            rows = [["" if row[n] is None else row[n] for n in shown] for row in table.rows]
            print_table([table.columns[n] for n in shown], rows, table.title)
