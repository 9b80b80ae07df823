"""`accord audit`, `weights` and `judge`: the health and noise of a log, and how real each interaction is."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from accord.cli import options as o
from accord.errors import InputError

if TYPE_CHECKING:
    from accord.auditing.audit import Cleaned


def audit(
    data: o.DataArgument,
    *,
    out: Annotated[Path | None, Option(help="audit folder; runs/DATA-audit if not given")] = None,
    write_clean: Annotated[
        Path | None, Option(help="write the log without its noise to this .csv, .tsv or .parquet file")
    ] = None,
    drop_below: Annotated[
        float | None, Option(help="with --write-clean: smallest p_real to keep; 0.5 if not given")
    ] = None,
    seeds: Annotated[int, Option(help="runs of each learned model that denoising is tested with")] = 3,
    deterministic: o.Deterministic = False,
    device: o.Device = "auto",
    cluster: o.Cluster = None,
    log: o.Log,
    items: o.ItemsFile = None,
    labelling: o.Labelling,
    splitting: o.Splitting,
    resume: Annotated[bool, Option("--resume", help="continue where an interrupted audit stopped")] = False,
    overwrite: Annotated[bool, Option("--overwrite", help="replace a finished audit in --out")] = False,
) -> None:
    """Report how healthy a log is, which interactions are probably noise, and whether denoising helps."""
    least = 0.5 if drop_below is None else drop_below
    if write_clean is not None:
        from accord.auditing.audit import check_target

        check_target(write_clean, least)
    elif drop_below is not None:
        raise InputError("--drop-below goes with --write-clean FILE: give that too.")
    source = log.source(data)
    reading = {"columns": log.columns, "items": items, **labelling.settings, **splitting.settings}

    from accord.cli.display import say

    if out is not None and write_clean is not None and not overwrite and (out / "summary.json").exists():
        from accord.auditing.audit import write_clean as write
        from accord.auditing.interaction_log import open_log
        from accord.io.parquet import read_table

        rows = open_log(source, seed=splitting.split_seed, **reading)
        say(f"{out} holds a finished audit, which is used; --overwrite replaces it.")
        judged = read_table(out / "interactions.parquet")
        _written(write(write_clean, rows, judged, least), write_clean)
        return

    import torch

    from accord.auditing.audit import audit as run_audit
    from accord.auditing.audit import is_unfinished
    from accord.cli.display import training_progress
    from accord.comparing.executor import workers_on

    processes = torch.get_num_threads()
    first = source[0] if isinstance(source, list) else source
    name = Path(first).expanduser().resolve().name.split(".")[0] if isinstance(first, str) else first.name
    usual = Path("runs") / f"{name}-audit"
    folder = o.run_folder(out, usual, resume, overwrite, "audit", "summary.json", is_unfinished)
    with workers_on(cluster, say) as workers, training_progress() as watch:
        result = run_audit(
            source, **reading, split_seed=splitting.split_seed, seeds=seeds, device=device, out=folder, resume=resume,
            watch=watch, say=say, workers=None if cluster is None else workers, processes=processes,
            command=o.typed(),
        )  # fmt: skip
    _show(result.summary)
    if write_clean is not None:
        _written(result.write_clean(write_clean, least), write_clean)
    say(f"audit folder: {folder}")
    say(f"what to label next: {folder / 'to_label.csv'}; fill it in and give it as --labels")
    say(f"report: {folder / 'report.html'}")


def _show(summary: dict[str, Any]) -> None:
    from accord.cli.display import console, print_table

    data, noise = summary["data"], summary["noise"]
    rows = [
        ["interactions", f"{data['interactions']:,} of {data['users']:,} users with {data['items']:,} items"],
        ["probably noise", f"{noise['rate']:.1%} ({noise['low']:.1%} to {noise['high']:.1%})"],
        ["more probably noise than not", f"{noise['suspects']:,} interactions"],
    ]
    if summary["detection"]:
        first, popular = summary["detection"]["scores"][:2]
        interval = f"{first['auc_low']:.3f} to {first['auc_high']:.3f}"
        rows.append(["noise detection (AUC)", f"{first['auc']:.3f} ({interval}); popularity {popular['auc']:.3f}"])
        rows.append(["calibration error", f"{summary['detection']['calibration']['ece']:.3f}"])
    print_table([f"audit of {data['name']}", ""], rows)
    for finding in summary["health"]["findings"]:
        if finding["level"] != "fine":
            console().print(f"- {finding['level']}: {finding['title']}.", markup=False)
    if summary["verdict"]:
        console().print(summary["verdict"]["sentence"], markup=False)


def _written(cleaned: Cleaned, path: Path) -> None:
    from accord.cli.display import say

    lost = f", and with them {cleaned.users_lost:,} users" if cleaned.users_lost else ""
    dropped = f"; {cleaned.dropped:,} rows left out{lost}" if cleaned.dropped else ""
    say(f"clean log: {path}, {cleaned.rows:,} rows{dropped}")


def judge(
    data: o.DataArgument,
    *,
    judge: Annotated[
        str, Option(help="a program that reads pairs as JSON Lines and writes a number from 0 to 1 for each")
    ],
    judgements: Annotated[int, Option(help="pairs to ask it about, including some that people have labelled")] = 100,
    seconds: Annotated[float, Option(help="time limit for all of them")] = 3600.0,
    labelling: o.Labelling,
    items: o.ItemsFile = None,
    log: o.Log,
    printed: o.Printed,
) -> None:
    """Let a program label the most useful interactions, and say what its labels are worth."""
    printed.format()
    from accord.cli.display import say, say_notes
    from accord.data.load import load_whole
    from accord.data.titles import with_items
    from accord.posteriors.judge import judge as ask

    dataset = load_whole(log.source(data), columns=log.columns, **labelling.settings)
    dataset = dataset if items is None else with_items(dataset, items, log.columns)
    say_notes(dataset.notes)
    result = ask(dataset, judge, judgements, seconds)
    printed.put(result.table)
    for note in result.notes:
        say(f"judge: {note}")


def weights(data: o.DataArgument, *, printed: o.Printed, labelling: o.Labelling, log: o.Log) -> None:
    """Estimate how likely each interaction is real, and its weight in training: user, item, p_real, weight."""
    from accord.cli.display import say_notes
    from accord.posteriors.estimate import posterior

    printed.format()
    result = posterior(log.source(data), columns=log.columns, **labelling.settings)
    say_notes([note for note in (*result.notes, result.gain) if note])
    printed.put(result.table)
