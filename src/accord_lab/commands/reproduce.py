"""`accord lab reproduce`: the paper's tables and figures."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from accord.cli.options import Cluster, Deterministic, Device
from accord.errors import InputError, unknown
from accord_lab.comparing.command import continuing, show, split_names

if TYPE_CHECKING:
    from accord.comparing.compare import Request
    from accord_lab.paper.experiment import Experiment

NAMES = "overall, ablation, selection, curves, agreement, posterior, grid, or all"


def reproduce(
    name: Annotated[str, Argument(help=NAMES)],
    dataset: Annotated[str | None, Option(help="datasets, separated by commas; all available by default")] = None,
    model: Annotated[str | None, Option(help="models, separated by commas; the paper's if not given")] = None,
    method: Annotated[str | None, Option(help="methods, separated by commas; the paper's if not given")] = None,
    protocol: Annotated[str, Option(help="published or corrected")] = "published",
    seeds: Annotated[
        int | None, Option(help="runs of each cell, with seeds 2019, 2020, …; 3, or 10 for the leaderboard")
    ] = None,
    epochs: Annotated[int | None, Option(help="passes over the data, instead of the paper's")] = None,
    deterministic: Deterministic = False,
    device: Device = "auto",
    cluster: Cluster = None,
    out: Annotated[Path, Option(help="folder of the pages and raw results")] = Path("runs/reproduction"),
    render_only: Annotated[bool, Option("--render-only", help="only write the pages again, from the results")] = False,
) -> None:
    """Reproduce the paper's tables and figures, its values next to ours. Continues where it was interrupted.

    The overall comparison under the corrected protocol is the leaderboard: all models and methods, equally tuned.
    """
    from accord.protocol import PRESETS
    from accord_lab.paper.reproduce import EXPERIMENTS

    if name != "all" and name not in EXPERIMENTS:
        raise unknown("table or figure", name, [*EXPERIMENTS, "all"])
    if protocol not in PRESETS:
        raise unknown("protocol", protocol, PRESETS)
    wanted = split_names(dataset=dataset, model=model, method=method)
    if name == "overall" and protocol == "corrected":
        from accord_lab.commands.leaderboard import Making, leaderboard

        making = Making(epochs, device, cluster, out=out / protocol, render_only=render_only)
        leaderboard(wanted.get("dataset"), model, method, 10 if seeds is None else seeds, making=making)
        return
    from accord.cli.display import say
    from accord.comparing.compare import Request
    from accord.comparing.executor import workers_on

    runs = 3 if seeds is None else seeds
    with continuing(), workers_on(None if render_only else cluster, say) as workers:
        request = partial(
            Request, protocol=protocol, seeds=runs, epochs=epochs, device=device, say=say, per_user=False,
            workers=workers,
        )  # fmt: skip
        for one in EXPERIMENTS if name == "all" else [name]:
            given = _applicable(EXPERIMENTS, one, wanted) if name == "all" else wanted
            if given is not None:
                _one(one, given, request, out / protocol, render_only)


def _applicable(
    experiments: dict[str, Experiment], name: str, wanted: dict[str, list[str]]
) -> dict[str, list[str]] | None:
    """The wanted names that this experiment has; None if it has none of them. Names that none has are errors."""
    given = {}
    for what, names in wanted.items():
        valid = {one for each in experiments.values() for one in (*getattr(each, f"{what}s"), *each.lacking)}
        for one in names:
            if one not in valid:
                raise unknown(what, one, sorted(valid))
        given[what] = [one for one in names if one in getattr(experiments[name], f"{what}s")]
        if not given[what]:
            return None
    return given


def _one(
    name: str, wanted: dict[str, list[str]], request: Callable[..., Request], folder: Path, render_only: bool
) -> None:
    from accord.cli.display import say, training_progress
    from accord.comparing.results import Results
    from accord.data import catalog
    from accord.data.load import load_named
    from accord_lab.paper import electronics
    from accord_lab.paper.reproduce import EXPERIMENTS
    from accord_lab.paper.reproduce import reproduce as run_one

    experiment = EXPERIMENTS[name]
    chosen = experiment.choose("dataset", wanted.get("dataset"))
    for what in ("model", "method"):
        experiment.choose(what, wanted.get(what))
    available = [one for one in chosen if "dataset" in wanted or catalog.location(one)]
    finished = {line["dataset"] for line in Results(folder, name).read()}
    if render_only and "dataset" not in wanted:
        available = [one for one in available if one in finished]
    if not available:
        raise InputError(
            f"{folder}/{name}.jsonl has no results to render; run 'accord lab reproduce {name}' first."
            if render_only
            else f"none of {', '.join(chosen)} is available; set ACCORD_DATA, or name one with --dataset to fetch it."
        )
    others = [one for one in experiment.datasets if one in finished and one not in available and catalog.location(one)]
    for one in available:
        electronics.complete(one)
    say(f"{name}: {experiment.title} · {', '.join(available)}")
    with training_progress() as watch:
        parts = run_one(
            name, [load_named(one) for one in available], wanted.get("model"), wanted.get("method"),
            partial(request, watch=watch), folder, render_only, [load_named(one) for one in others],
        )  # fmt: skip
    for part in parts:
        show([part], lambda column: "@" not in column or "@20" in column or "@50" in column)
        for note in getattr(part, "notes", ()):  # a figure has none
            say(note)
    say(f"pages and raw results: {folder}/{name}.*")
