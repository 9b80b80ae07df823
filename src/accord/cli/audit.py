"""`accord audit`: the health of a log, its probable noise, and whether denoising helps."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from accord.cli.options import (
    Clean,
    Cluster,
    DataArgument,
    Deterministic,
    Device,
    Events,
    ItemColumn,
    ItemsFile,
    Labels,
    Query,
    Ratios,
    Split,
    TimeColumn,
    UserColumn,
    ValueColumn,
    parse_numbers,
    source_of,
    typed,
)
from accord.errors import InputError

if TYPE_CHECKING:
    from accord.auditing.audit import Cleaned

HALF = 0.5


def audit(
    data: DataArgument,
    out: Annotated[Path | None, typer.Option(help="audit folder; runs/DATA-audit if not given")] = None,
    write_clean: Annotated[
        Path | None, typer.Option(help="write the log without its noise to this .csv, .tsv or .parquet file")
    ] = None,
    drop_below: Annotated[
        float | None, typer.Option(help="with --write-clean: smallest p_real to keep; 0.5 if not given")
    ] = None,
    weights: Annotated[
        bool, typer.Option("--weights", help="with --write-clean: keep every row, with p_real as its weight")
    ] = False,
    seeds: Annotated[int, typer.Option(help="runs of each learned model that denoising is tested with")] = 3,
    deterministic: Deterministic = False,
    device: Device = "auto",
    cluster: Cluster = None,
    user_col: UserColumn = None,
    item_col: ItemColumn = None,
    value_col: ValueColumn = None,
    time_col: TimeColumn = None,
    query: Query = None,
    items: ItemsFile = None,
    labels: Labels = None,
    events: Events = None,
    clean: Clean = None,
    split: Split = "auto",
    ratios: Ratios = "0.8,0.1,0.1",
    split_seed: Annotated[int, typer.Option(help="seed of the split")] = 0,
    resume: Annotated[bool, typer.Option("--resume", help="continue where an interrupted audit stopped")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="replace a finished audit in --out")] = False,
) -> None:
    """Say how healthy a log is, which interactions are probably noise, and whether denoising helps."""
    if write_clean is None and (weights or drop_below is not None):
        raise InputError("--drop-below and --weights go with --write-clean FILE: give that too.")

    from accord.auditing.audit import check_target
    from accord.data.columns import Columns

    if write_clean is not None:
        check_target(write_clean, drop_below, weights)
    source = source_of(data, query)
    given = (user_col, item_col, value_col, time_col)
    reading: dict[str, Any] = {
        "columns": Columns(*given) if any(given) else None,
        "split": split,
        "ratios": parse_numbers(ratios, "--ratios", float),
        "clean": clean,
        "items": items,
        "labels": labels,
        "events": events,
    }
    least = HALF if drop_below is None else drop_below

    from accord.cli.display import say

    if out is not None and write_clean is not None and not overwrite and (out / "summary.json").exists():
        from accord.auditing.audit import write_clean as write
        from accord.auditing.interaction_log import open_log
        from accord.io.parquet import read_table

        log = open_log(source, seed=split_seed, **reading)
        say(f"{out} holds a finished audit, which is used; --overwrite replaces it.")
        judged = read_table(out / "interactions.parquet")
        _written(write(write_clean, log, judged, least, weights), write_clean)
        return

    import torch

    from accord.auditing.audit import audit as run_audit
    from accord.cli.display import training_progress
    from accord.comparing.ray_executor import workers_on

    processes = torch.get_num_threads()
    folder = _folder(source, out, resume, overwrite)
    with workers_on(cluster, say) as workers, training_progress() as watch:
        result = run_audit(
            source, **reading, split_seed=split_seed, seeds=seeds, device=device, out=folder, resume=resume,
            watch=watch, say=say, workers=None if cluster is None else workers, processes=processes,
            command=typed(),
        )  # fmt: skip
    _show(result.summary)
    if write_clean is not None:
        _written(result.write_clean(write_clean, least, weights), write_clean)
    say(f"audit folder: {folder}")
    say(f"what to label next: {folder / 'to_label.csv'}; fill it in and give it as --labels")
    say(f"report: {folder / 'report.html'}")


def _folder(source: Any, given: Path | None, resume: bool, overwrite: bool) -> Path:
    """The audit folder. One that the caller names is only replaced with --overwrite; the default gets a number."""
    from accord.auditing.audit import is_unfinished

    if given is None:
        first = source[0] if isinstance(source, list) else source
        name = Path(first).expanduser().resolve().name.split(".")[0] if isinstance(first, str) else first.name
        usual = Path("runs") / f"{name}-audit"
        folder, number = usual, 1
        while folder.exists() and not overwrite and not (resume and is_unfinished(folder)):
            number += 1
            folder = usual.with_name(f"{usual.name}-{number}")
        return folder
    if given.is_file():
        raise InputError(f"--out {given} is a file; give a folder.")
    continues = resume and is_unfinished(given)
    if not overwrite and not continues and (given / "summary.json").exists():
        raise InputError(f"{given} holds a finished audit; give another --out, or --overwrite to replace it.")
    if not overwrite and not resume and is_unfinished(given):
        raise InputError(
            f"{given} holds an interrupted audit; continue it with --resume, or --overwrite to start again."
        )
    return given


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
        error = summary["detection"]["reliability"]
        interval = f"{first['auc_low']:.3f} to {first['auc_high']:.3f}"
        rows.append(["noise detection (AUC)", f"{first['auc']:.3f} ({interval}); popularity {popular['auc']:.3f}"])
        rows.append(["calibration error", f"{error['before']['ece']:.3f}, recalibrated {error['after']['ece']:.3f}"])
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
