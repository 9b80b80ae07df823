"""`accord lab leaderboard`, `injected` and `partners`: what methods are worth under the corrected protocol."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from typer import Argument, Option

from accord.cli.options import Cluster, Device, parse_numbers
from accord.errors import InputError
from accord_lab.comparing.command import Epochs, Seeds, check_counts, continuing, show, split_names

if TYPE_CHECKING:
    from accord.data.interactions import Dataset

    Options = Callable[[], dict[str, Any]]

Datasets = Annotated[list[str] | None, Argument(help="named datasets, files or folders; those available if not given")]
Models = Annotated[str | None, Option(help="models, separated by commas")]
Methods = Annotated[str | None, Option(help="methods, separated by commas; all if not given")]
Tune = Annotated[int, Option(help="tuning trials for each row first, chosen by validation NDCG@20; 0: defaults")]
Of = Literal["methods", "softmax"]


@dataclass(frozen=True)
class Making:
    """How the runs of a page train, and where it is written."""

    epochs: Epochs = None
    device: Device = "auto"
    cluster: Cluster = None
    processes: Annotated[int, Option(min=1, help="rows that train at once, which may share a GPU")] = 1
    out: Annotated[Path, Option(help="folder of the page and raw results")] = Path("runs/leaderboard")
    reuse: Annotated[
        list[Path] | None,
        Option("--from", help="reuse finished runs of another --out; may be given more than once"),
    ] = None
    render_only: Annotated[bool, Option("--render-only", help="only write the page again, from the results")] = False

    def show(
        self, page: Any, datasets: list[str] | None, usual: tuple[str, ...], seeds: int, tune: int, choice: Options
    ) -> None:
        """Make a page and print its tables, with a progress bar; nothing is lost by an interruption."""
        from accord.cli.display import say, training_progress
        from accord.comparing.compare import Request
        from accord.comparing.executor import Processes, workers_on

        if self.render_only:
            show(page.render(self.out), _is_shown)
            return
        check_counts(seeds, tune)
        chosen, loaded = choice(), _load(datasets, usual)
        reuse, processes = tuple(self.reuse or ()), self.processes
        for folder in reuse:
            if not folder.is_dir():
                raise InputError(f"--from {folder}: there is no such folder.")
        if self.cluster is not None and processes > 1:
            raise InputError("--cluster and --processes each say where rows train; give one of them.")
        where = workers_on(self.cluster, say) if processes == 1 else nullcontext(Processes(processes, share_gpu=True))
        with continuing(), where as workers, training_progress() as watch:
            request = partial(
                Request, seeds=seeds, epochs=self.epochs, device=self.device, watch=watch, say=say, reuse=reuse,
                workers=workers,
            )  # fmt: skip
            made = page.run(loaded, request, self.out, **chosen)
        show(made, _is_shown)


def leaderboard(
    datasets: Datasets = None,
    models: Models = None,
    methods: Methods = None,
    seeds: Seeds = 10,
    tune: Tune = 16,
    *,
    making: Making,
) -> None:
    """Compare every model with every method, equally tuned, against Normal and the best row without denoising."""
    from accord_lab.leaderboards import leaderboard as page

    usual = ("ml-100k", "modcloth", "adressa")
    making.show(
        page, datasets, usual, seeds, tune, lambda: {"trials": tune, **split_names(models=models, methods=methods)}
    )


def injected(
    datasets: Datasets = None,
    models: Models = None,
    methods: Methods = None,
    kinds: Annotated[str, Option(help="uniform, popularity, user")] = "uniform,popularity,user",
    rates: Annotated[str, Option(help="shares of the training pairs that are noise")] = "0.1,0.2,0.3,0.4",
    seeds: Seeds = 5,
    tune: Tune = 16,
    of: Annotated[Of, Option(help="softmax: rows of MF by softmax, with agreement and without")] = "methods",
    *,
    making: Making,
) -> None:
    """Inject noise into training data, and measure how well it is detected and what it costs the ranking."""
    from accord_lab.leaderboards import injected, softmax

    def choice() -> dict[str, Any]:
        if of == "softmax" and (models or methods):
            raise InputError(
                "--models and --methods are not for --of softmax, whose rows are all of MF; leave them out."
            )
        names = split_names(models=models, methods=methods, kinds=kinds)
        return {"trials": tune, "rates": parse_numbers(rates, "--rates", float), **names}

    page = injected if of == "methods" else softmax
    making.show(page, datasets, ("demo", "ml-100k", "modcloth"), seeds, tune, choice)


def partners(
    datasets: Datasets = None,
    model: Annotated[str, Option(help="model that is trained with each partner")] = "gmf",
    partners: Annotated[str, Option(help="models of the frozen partner")] = "mf,ease,item-knn,ials",
    seeds: Seeds = 3,
    *,
    making: Making,
) -> None:
    """Train DeCA(p) with frozen partners of other families: does agreement of different models reveal noise?"""
    from accord_lab.leaderboards import partners as page

    usual = ("demo", "ml-100k", "modcloth")
    making.show(page, datasets, usual, seeds, 0, lambda: {"model": model, "partners": partners.split(",")})


def _is_shown(column: str) -> bool:
    return "@5" not in column and "recall" not in column


def _load(datasets: list[str] | None, default: tuple[str, ...]) -> list[Dataset]:
    from accord.data import catalog
    from accord.data.load import load

    names = datasets or [name for name in default if catalog.location(name)]
    if not names:
        raise InputError(f"none of {', '.join(default)} is available; set ACCORD_DATA, or name a dataset to fetch it.")
    return [load(name) for name in names]
