"""`accord lab leaderboard`, `injected` and `partners`: what methods are worth under the corrected protocol."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from accord.cli.options import Cluster, Device, parse_numbers
from accord.errors import InputError
from accord_lab.comparing.command import check_counts, continuing, show

if TYPE_CHECKING:
    from accord.comparing.compare import Request
    from accord.data.interactions import Dataset
    from accord.report.tables import Table
    from accord_lab.writing import Figure

    Run = Callable[[Callable[[Dataset], Request]], list[Table | Figure]]

Datasets = Annotated[
    list[str] | None, typer.Argument(help="named datasets, files or folders; those available if not given")
]
Models = Annotated[str | None, typer.Option(help="models, separated by commas")]
Methods = Annotated[str | None, typer.Option(help="methods, separated by commas; all if not given")]
Seeds = Annotated[int, typer.Option(help="runs of each row, with seeds 2019, 2020, …")]
Tune = Annotated[int, typer.Option(help="tuning trials for each row first, chosen by validation NDCG@20; 0: defaults")]
Epochs = Annotated[int | None, typer.Option(help="passes over the training data, at most")]
From = Annotated[
    list[Path] | None, typer.Option("--from", help="reuse finished runs of another --out; may be given more than once")
]
AtOnce = Annotated[int, typer.Option("--processes", min=1, help="rows that train at once, which may share a GPU")]
Out = Annotated[Path, typer.Option(help="folder of the page and raw results")]
RenderOnly = Annotated[bool, typer.Option("--render-only", help="only write the page again, from the results")]
OUT = Path("runs/leaderboard")


def leaderboard(
    datasets: Datasets = None,
    models: Models = None,
    methods: Methods = None,
    seeds: Seeds = 10,
    tune: Tune = 16,
    epochs: Epochs = None,
    device: Device = "auto",
    cluster: Cluster = None,
    processes: AtOnce = 1,
    out: Out = OUT,
    reuse: From = None,
    render_only: RenderOnly = False,
) -> None:
    """Every model with every method, equally tuned, tested against Normal and the best row without denoising."""
    from accord_lab.leaderboards import leaderboard as page

    if render_only:
        show(page.render(out), _is_shown)
        return
    check_counts(seeds, tune)
    names, loaded = _split(models=models, methods=methods), _load(datasets, ("ml-100k", "modcloth", "adressa"))

    def run(request: Callable[[Dataset], Request]) -> list[Table | Figure]:
        return page.run(loaded, request, out, trials=tune, **names)

    show(_with_progress(run, seeds, epochs, device, cluster, processes, reuse), _is_shown)


def injected(
    datasets: Datasets = None,
    models: Models = None,
    methods: Methods = None,
    kinds: Annotated[str, typer.Option(help="uniform, popularity, user")] = "uniform,popularity,user",
    rates: Annotated[str, typer.Option(help="shares of the training pairs that are noise")] = "0.1,0.2,0.3,0.4",
    seeds: Seeds = 5,
    tune: Tune = 16,
    epochs: Epochs = None,
    device: Device = "auto",
    cluster: Cluster = None,
    processes: AtOnce = 1,
    out: Out = OUT,
    reuse: From = None,
    render_only: RenderOnly = False,
) -> None:
    """Inject noise into training data: how well it is detected, and what it costs the ranking."""
    from accord_lab.leaderboards import injected as page

    if render_only:
        show(page.render(out), _is_shown)
        return
    check_counts(seeds, tune)
    names, shares = _split(models=models, methods=methods, kinds=kinds), parse_numbers(rates, "--rates", float)
    loaded = _load(datasets, ("demo", "ml-100k", "modcloth"))

    def run(request: Callable[[Dataset], Request]) -> list[Table | Figure]:
        return page.run(loaded, request, out, trials=tune, rates=shares, **names)

    show(_with_progress(run, seeds, epochs, device, cluster, processes, reuse), _is_shown)


def partners(
    datasets: Datasets = None,
    model: Annotated[str, typer.Option(help="model that is trained with each partner")] = "gmf",
    partners: Annotated[str, typer.Option(help="models of the frozen partner")] = "mf,ease,item-knn,ials",
    seeds: Seeds = 3,
    epochs: Epochs = None,
    device: Device = "auto",
    cluster: Cluster = None,
    processes: AtOnce = 1,
    out: Out = OUT,
    reuse: From = None,
    render_only: RenderOnly = False,
) -> None:
    """DeCA(p) with frozen partners of other families: whether agreement of different models tells noise."""
    from accord_lab.leaderboards import partners as page

    if render_only:
        show(page.render(out), _is_shown)
        return
    check_counts(seeds)
    names, loaded = partners.split(","), _load(datasets, ("demo", "ml-100k", "modcloth"))

    def run(request: Callable[[Dataset], Request]) -> list[Table | Figure]:
        return page.run(loaded, request, out, model, names)

    show(_with_progress(run, seeds, epochs, device, cluster, processes, reuse), _is_shown)


def _is_shown(column: str) -> bool:
    return "@5" not in column and "recall" not in column


def _split(**options: str | None) -> dict[str, list[str]]:
    return {name: text.split(",") for name, text in options.items() if text}


def _load(datasets: list[str] | None, default: tuple[str, ...]) -> list[Dataset]:
    from accord.data import catalog
    from accord.data.load import load

    names = datasets or [name for name in default if catalog.location(name)]
    if not names:
        raise InputError(f"none of {', '.join(default)} is available; set ACCORD_DATA, or name a dataset to fetch it.")
    return [load(name) for name in names]


def _with_progress(
    run: Run,
    seeds: int,
    epochs: int | None,
    device: str,
    cluster: str | None,
    processes: int,
    reuse: list[Path] | None,
) -> list[Table | Figure]:
    """Run with a progress bar; nothing is lost by an interruption."""
    from accord.cli.display import say, training_progress
    from accord.comparing.compare import Request
    from accord.comparing.executor import Processes, workers_on

    for folder in reuse or []:
        if not folder.is_dir():
            raise InputError(f"--from {folder}: there is no such folder.")
    if cluster is not None and processes > 1:
        raise InputError("--cluster and --processes each say where rows train; give one of them.")
    where = workers_on(cluster, say) if processes == 1 else nullcontext(Processes(processes, share_gpu=True))
    with continuing(), where as workers, training_progress() as watch:
        request = partial(
            Request, seeds=seeds, epochs=epochs, device=device, watch=watch, say=say, reuse=tuple(reuse or ()),
            workers=workers,
        )  # fmt: skip
        return run(request)
