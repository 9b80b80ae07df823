"""`accord train`, `evaluate`, `update` and `report`: one recommender, from the data to its folder and back; and
`accord models` and `accord methods`: what can be trained."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from accord.cli import options as o
from accord.errors import InputError

NewItems = Annotated[
    bool, Option("--new-items", help="fit once more with a tenth of the items held out, and rank these as new")
]


def train(
    data: o.DataArgument,
    *,
    model: Annotated[
        str | None, Option(help="auto searches for the best; see 'accord models', or give my.module:MyModel")
    ] = None,
    method: Annotated[str | None, Option(help="for a learned model, deca if not given; see 'accord methods'")] = None,
    budget: Annotated[
        float | None, Option(help="seconds that the search of auto may take on two ordinary cores; 120 if not given")
    ] = None,
    recipe: Annotated[
        Path | None, Option(help="train as another run was trained: its folder, or its config.json")
    ] = None,
    protocol: Annotated[str, Option(help="published (as the paper's tables were made) or corrected")] = "corrected",
    seeds: Annotated[int | None, Option(help="how many runs, with seeds 2019, 2020, …")] = None,
    seed: Annotated[int | None, Option(help="one run with this seed")] = None,
    set_: Annotated[list[str] | None, Option("--set", help="an option, such as method.c1=100 or train.l2=0.01")] = None,
    epochs: Annotated[int | None, Option(help="passes over the training data, at most")] = None,
    k: Annotated[str | None, Option(help="list lengths to evaluate, such as 5,20")] = None,
    all_metrics: o.AllMetrics = False,
    deterministic: o.Deterministic = False,
    device: o.Device = "auto",
    log: o.WeightedLog,
    labelling: o.Labelling,
    splitting: o.Splitting,
    session_gap: Annotated[
        str | None, Option(help="split users into sessions by time: a pause of over 30m begins a new one")
    ] = None,
    items: o.ItemsFile = None,
    new_items: NewItems = False,
    out: Annotated[Path | None, Option(help="run folder; runs/DATA-MODEL-METHOD if not given")] = None,
    refit: Annotated[
        bool | None,
        Option(help="fit again on the whole log once it is evaluated; done unless the model is a learned one"),
    ] = None,
    resume: Annotated[bool, Option("--resume", help="continue where an interrupted training stopped")] = False,
    overwrite: Annotated[bool, Option("--overwrite", help="replace a finished run in --out")] = False,
) -> None:
    """Train, evaluate and save a recommender."""
    if seeds is not None and seed is not None:
        raise InputError("give --seeds or --seed, not both.")
    if recipe is not None and any((model, method, budget, seeds, seed, set_, epochs, k)):
        raise InputError("--recipe sets the model, its options and seeds; leave those options out.")
    config = None if recipe is None else recipe / "config.json" if recipe.is_dir() else recipe
    if config is not None and not config.exists():
        raise InputError(f"--recipe {recipe}: {config} does not exist; give a run folder, or the config.json of one.")
    if new_items and items is None:
        raise InputError("--new-items needs --items, a file that describes the items.")
    options = o.parse_options(set_ or [])
    if budget is not None and (asked := model or method or "auto") != "auto":
        raise InputError(f"--budget limits the search of auto, and {asked} is not searched for; leave one of them out.")
    if budget is not None:
        if not 0 < budget < float("inf"):
            raise InputError(f"--budget {budget:g}: give seconds above 0, as 120.")
        options["model.budget"] = budget

    from accord.cli import display

    began = time.perf_counter()
    dataset = o.load_data(data, log, splitting, labelling, items=items, session_gap=session_gap)
    read_seconds = time.perf_counter() - began
    display.say_notes(dataset.notes)

    # only now what loads torch: the notes need not wait for it
    from accord.data.split import by_user
    from accord.fitting import RunContext, fit_run
    from accord.recommender.held_out_items import evaluate_new_items
    from accord.training.plan import find_device, model_and_method, plan
    from accord.training.run import RunSpec

    chosen = [seed] if seed is not None else 1 if seeds is None else seeds
    ks = o.parse_numbers(k, "--k") if k else None
    # mistakes are found before a folder is made
    if config is not None:
        run = RunSpec.read(config)
    else:
        run = plan(dataset, *model_and_method(model, method), protocol, chosen, options, epochs, ks)
    find_device(device)
    parts = (run.config.model, run.config.method)
    name = "-".join([dataset.name, *(part.replace(":", ".") for part in parts if part)])
    folder = o.run_folder(out, Path("runs") / name, resume, overwrite)
    also = by_user(dataset, splitting.clean, splitting.split_seed) if dataset.is_split_at_a_moment else None
    context = RunContext(command=o.typed(), read_seconds=read_seconds, also=also)
    with display.training_progress() as watch:
        recommender = fit_run(
            dataset, run, device=device, out=folder, resume=resume, refit=refit, watch=watch, context=context
        )
    display.members_table(recommender.metrics)
    display.metrics_table(recommender.metrics, all_metrics, ks)
    too_few: InputError | None = None
    if new_items:
        try:
            recommender.metrics["new_items"] = evaluate_new_items(recommender)
            recommender.save(folder, overwrite=True)
            display.new_items_table(recommender.metrics["new_items"])
        except InputError as error:
            too_few = error
    if all_metrics:
        display.say_beyond(recommender)
    seconds, page = recommender.metrics["seconds"], None
    if recommender.metrics["mean"]:
        from accord.report.run_report import write_report

        began = time.perf_counter()
        try:
            page = write_report(folder / "report.html", [(str(folder), recommender)])
        except OSError as error:
            advice = f"the run in {folder} is complete; write its report with 'accord report {folder}'"
            raise InputError(
                f"the report cannot be written ({(error.strerror or str(error)).lower()}); {advice}."
            ) from error
        seconds = {**seconds, "report": time.perf_counter() - began}
    display.say_seconds(seconds)
    display.say(f"run folder: {folder}")
    if page is not None:
        display.say(f"report: {page}")
    if "diverged" in recommender.metrics:
        raise InputError(f"{folder} holds the runs that did not diverge; train the others with a smaller train.lr.")
    if too_few is not None:
        raise too_few


def evaluate(
    run: o.RunArgument,
    data: Annotated[
        list[str] | None, Argument(help="interactions that were held out; the test of the run if not given")
    ] = None,
    *,
    k: Annotated[str | None, Option(help="list lengths, such as 5,20; those of the training if not given")] = None,
    all_metrics: o.AllMetrics = False,
    new_items: NewItems = False,
    per_user: Annotated[Path | None, Option(help="Parquet file for the metrics of every user")] = None,
    log: o.Log,
    opening: o.Opening,
) -> None:
    """Evaluate a saved run on the test that belongs to it, or on other interactions."""
    from accord.cli.display import metrics_table, new_items_table, say, say_beyond
    from accord.recommender.held_out_items import evaluate_new_items

    recommender = opening.open(run)
    ks = o.parse_numbers(k, "--k") if k else None
    evaluation = recommender.evaluate(log.source(data) if data else None, ks, log.columns)
    metrics = {**recommender.metrics, **evaluation.summary()}
    if data:  # which the run that recommends is evaluated on
        metrics = {
            name: value for name, value in metrics.items() if name not in ("before_validation", "by_user", "refit")
        }
        metrics["runs"] = metrics["runs"][: evaluation.runs]
        say(f"evaluated on the interactions given, of {len(evaluation.users):,} users, not on the test of the run")
    metrics_table(metrics, all_metrics, ks)
    if new_items:
        new_items_table(evaluate_new_items(recommender))
    if all_metrics:
        say_beyond(recommender)
    if per_user:
        o.put_table(recommender.per_user(evaluation), per_user, "parquet")


def update(
    run: o.RunArgument,
    new: o.DataArgument,
    *,
    out: Annotated[Path | None, Option("-o", "--out", help="the folder of the updated run")] = None,
    in_place: Annotated[bool, Option("--in-place", help="replace the run itself")] = False,
    overwrite: Annotated[bool, Option("--overwrite", help="replace a finished run in --out")] = False,
    without_learned: Annotated[
        bool, Option("--without-learned", help="faster: a consensus loses its learned members")
    ] = False,
    items: o.ItemsFile = None,
    log: o.WeightedLog,
    opening: o.Opening,
) -> None:
    """Add new interactions to a run without a search: solved models and the members of a consensus are fitted again on
    everything, CDAE, LightGCN and SASRec take longer histories."""
    if (out is None) != in_place:
        raise InputError("give --out DIR for the updated run, or --in-place.")
    folder = run if out is None else o.run_folder(out, out, resume=False, overwrite=overwrite)

    from accord.cli.display import say
    from accord.io.files import only_writer

    recommender = opening.open(run)
    before, seconds = (len(recommender.users), len(recommender.items)), recommender.metrics["seconds"]
    if recommender.run.members and not without_learned and (took := seconds.get("refit", seconds.get("train"))):
        say(f"refitting the members on the larger log; the last fit took {took:,.0f} s")
    updated = recommender.update(log.source(new), columns=log.columns, items=items, without_learned=without_learned)
    with only_writer(folder):
        updated.save(folder, overwrite=True)
    added = [f"{len(now) - then:,} new" for now, then in zip((updated.users, updated.items), before, strict=True)]
    say(
        f"{updated.metrics['updates'][-1]['interactions']:,} interactions, {len(updated.train.items):,} in all; "
        f"{len(updated.users):,} users ({added[0]}), {len(updated.items):,} items ({added[1]}); "
        "the metrics are from before the update"
    )
    say(f"run folder: {folder}")


def report(
    runs: Annotated[list[Path], Argument(metavar="RUN...", help="run folders; the first is the baseline")],
    *,
    output: Annotated[
        Path | None,
        Option("-o", "--output", help="file to write; default: report.html in the run folder, or above several"),
    ] = None,
    opening: o.Opening,
) -> None:
    """Write a page about one or several runs of the same data: metrics, users, recommendations, settings."""
    if output is not None and output.is_dir():
        raise InputError(f"-o {output} is a folder; name a file in it, as {output / 'report.html'}.")
    if len({run.resolve() for run in runs}) < len(runs):
        raise InputError("a run folder was given twice; name each one once.")
    loaded = [(str(run), opening.open(run)) for run in runs]

    from accord.cli.display import say
    from accord.report.run_report import write_report

    default = (runs[0] if len(runs) == 1 else runs[0].parent) / "report.html"
    say(f"report: {write_report(output or default, loaded)}")


def models() -> None:
    """List the models and their options."""
    from accord.cli.display import describe_kinds
    from accord.config import with_declared
    from accord.models import MODELS

    describe_kinds("model", with_declared("model", MODELS))


def methods() -> None:
    """List the methods and their options."""
    from accord.cli.display import describe_kinds, describe_options
    from accord.config import with_declared
    from accord.methods import METHODS
    from accord.training.trainer import TrainConfig

    describe_kinds("method", with_declared("method", METHODS))
    describe_options("train", "train", "for every method", TrainConfig)
