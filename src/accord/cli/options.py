"""The options that commands share, and how their values are read."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from accord.errors import InputError, shown, unknown

if TYPE_CHECKING:
    from accord.data.interactions import Dataset

FORMATS = ("table", "json", "csv", "parquet")
SUFFIXES = {".csv": "csv", ".json": "json", ".jsonl": "json", ".parquet": "parquet", ".txt": "table"}
DataArgument = Annotated[
    list[str],
    typer.Argument(help="files, a folder, a store, a database, or a named dataset (see 'accord data list')"),
]
Query = Annotated[
    str | None, typer.Option(help="what to read from a database, as 'select user_id, item_id, ts from clicks'")
]
UserColumn = Annotated[str | None, typer.Option(help="column of the users; guessed from usual names if not given")]
ItemColumn = Annotated[str | None, typer.Option(help="column of the items")]
ValueColumn = Annotated[str | None, typer.Option(help="column of the value (rating, dwell time, …)")]
TimeColumn = Annotated[str | None, typer.Option(help="column of the time")]
WeightColumn = Annotated[str | None, typer.Option(help="column of what an interaction counts for, 1 if not given")]
Clean = Annotated[str | None, typer.Option(help="which held-out pairs are real preferences: 'value>=5', 'dwell>10'")]
Labels = Annotated[
    str | None,
    typer.Option(help="which interactions are real: 'rating>=4', a column of 0 and 1, or a file of user, item, label"),
]
Events = Annotated[str | None, typer.Option(help="what kinds of events say: 'view=?,cart=0.7,buy=1'")]
Split = Annotated[
    str, typer.Option(help="auto, random, chronological, leave-last-out, global-time or global-time:2021-06-01")
]
Ratios = Annotated[str, typer.Option(help="shares of train, valid and test; 1,0,0 to train on everything")]
ItemsFile = Annotated[Path | None, typer.Option("--items", help="file of item titles: id, title and any other columns")]
Device = Annotated[str, typer.Option(help="auto, cpu or cuda")]
Cluster = Annotated[
    str | None,
    typer.Option(help="train on a Ray cluster: its HOST:PORT, or auto for one on this machine, started if need be"),
]
RunArgument = Annotated[Path, typer.Argument(help="a run folder")]
Exclude = Annotated[list[str] | None, typer.Option(help="an item to leave out; may be given more than once")]
ExcludeFile = Annotated[Path | None, typer.Option(help="a file of items to leave out, one id per line")]
Allow = Annotated[
    list[str] | None, typer.Option(help="an item to choose from, and no others; may be given more than once")
]
AllowFile = Annotated[Path | None, typer.Option(help="a file of the only items to choose from, one id per line")]
Where = Annotated[
    list[str] | None,
    typer.Option(help="what must hold of an item, by a column of --items: 'genre=drama|war', 'year>=1990'"),
]
Output = Annotated[
    Path | None,
    typer.Option("-o", "--output", "--out", help="a .csv, .json, .jsonl, .parquet or .txt file; else the screen"),
]
Format = Annotated[
    str | None, typer.Option("--format", help="table, json, csv or parquet; else by the name of the file")
]
AllMetrics = Annotated[
    bool,
    typer.Option("--all-metrics", help="print every metric at every K, not recall and NDCG alone"),
]
AllowImports = Annotated[
    bool, typer.Option("--allow-imports", help="import the model and method classes the run names")
]


def _be_deterministic(wanted: bool) -> bool:
    """Called as soon as the command line is read: it must be set before CUDA is used."""
    if wanted:
        from accord.fitting import deterministic

        deterministic()
    return wanted


Deterministic = Annotated[
    bool,
    typer.Option(
        "--deterministic",
        callback=_be_deterministic,
        help="the same bits every time on CUDA too, which takes longer; always so on a CPU",
    ),
]


def run_folder(given: Path | None, default: Path, resume: bool, overwrite: bool) -> Path:
    """Where the run goes. A given folder is replaced only with --overwrite; the default one gets a number."""
    if given is None:
        folder, number = default, 1
        while folder.exists() and not overwrite and not (resume and interrupted(folder)):
            number += 1
            folder = default.with_name(f"{default.name}-{number}")
        return folder
    if not overwrite and (given / "metrics.json").exists():
        raise InputError(f"{given} holds a finished run; give another --out, or --overwrite to replace it.")
    if not overwrite and not resume and interrupted(given):
        raise InputError(f"{given} holds an interrupted run; continue it with --resume, or --overwrite to start again.")
    return given


def interrupted(folder: Path) -> bool:
    return any(folder.glob("checkpoint-*")) and not (folder / "metrics.json").exists()


def typed() -> str:
    """The command as it was typed, to be repeated: without --resume, --overwrite and passwords."""
    from accord.data.databases import without_password

    words = [without_password(word) for word in sys.argv[1:] if word not in ("--resume", "--overwrite")]
    return shlex.join(["accord", *words])


def source_of(data: list[str], query: str | None) -> Any:
    """What the words of the command line name: a path, several, or a query of a database."""
    if query is None:
        return data[0] if len(data) == 1 else data
    from accord.data.databases import Query as DatabaseQuery

    if len(data) > 1:
        raise InputError("--query goes with one database.")
    return DatabaseQuery.of(data[0], query)


def without(words: list[str], options: tuple[str, ...]) -> list[str]:
    """The words of a command without some options and their values."""
    left, skip = [], False
    for word in words:
        if not skip and word.partition("=")[0] not in options:
            left.append(word)
        skip = not skip and word in options
    return left


def parse_options(pairs: list[str]) -> dict[str, Any]:
    options: dict[str, Any] = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not equals or not key:
            raise InputError(f"--set {shown(pair)}: write it as method.c1=100.")
        try:
            options[key] = json.loads(text)
        except json.JSONDecodeError:
            options[key] = text
        except (ValueError, RecursionError):  # an integer with thousands of digits, or lists nested thousands deep
            raise InputError(f"--set {shown(pair)} has no value; write it as method.c1=100.") from None
    return options


def parse_numbers(text: str, option: str, kind: type = int) -> list[Any]:
    try:
        return [kind(part) for part in text.split(",")]
    except ValueError:
        raise InputError(f"{option} {shown(text)}: give numbers separated by commas, as 5,20.") from None


def read_ids(path: Path, option: str) -> list[str]:
    """The ids of a file, one per line."""
    if not path.is_file():
        raise InputError(f"{option} {path}: there is no such file; check the path.")
    try:
        ids = [line.strip() for line in path.read_text(encoding="utf-8-sig").split("\n") if line.strip()]
    except UnicodeDecodeError as error:
        raise InputError(f"{option} {path} is not UTF-8 text ({error}); save it as UTF-8.") from None
    if not ids:
        raise InputError(f"{option} {path}: the file is empty; write one id per line.")
    return ids


def choice(
    exclude: list[str] | None,
    exclude_file: Path | None,
    allow: list[str] | None,
    allow_file: Path | None,
    where: list[str] | None,
) -> dict[str, Any]:
    """Which items may be recommended, as `Recommender.recommend` takes it; nothing where all may."""
    excluded = [*(exclude or []), *(read_ids(exclude_file, "--exclude-file") if exclude_file else [])]
    allowed = [*(allow or []), *(read_ids(allow_file, "--allow-file") if allow_file else [])]
    return {k: v for k, v in {"exclude": excluded, "allow": allowed, "where": where}.items() if v}


def load_data(
    source: Any,
    columns: tuple[str | None, ...],
    clean: str | None,
    split: str,
    ratios: str,
    seed: int,
    items: Path | None = None,
    labels: str | None = None,
    events: str | None = None,
) -> Dataset:
    from accord.data.columns import Columns
    from accord.data.load import load

    return load(
        source, columns=Columns(*columns) if any(columns) else None, split=split, clean=clean, seed=seed,
        ratios=parse_numbers(ratios, "--ratios", float), items=items, labels=labels, events=events,
    )  # fmt: skip


def open_run(run: Path, device: str, allow_imports: bool) -> Any:
    from accord.recommender.recommender import Recommender
    from accord.training.plan import find_device

    return Recommender.load(run, device=str(find_device(device)), allow_imports=allow_imports)


def format_of(given: str | None, output: Path | None) -> str:
    """The format of a table: that of --format, else that of the file's name. A file of a run folder is refused."""
    if output is not None and output.is_file() and (output.parent / "manifest.json").is_file():
        raise InputError(f"{output} is in a run folder and would be replaced; give --out a file that lies elsewhere.")
    if given is None and output is not None:
        if output.suffix.lower() not in SUFFIXES:
            *others, last = SUFFIXES
            raise InputError(f"{output}: give a name that ends in {', '.join(others)} or {last}, or a --format.")
        return SUFFIXES[output.suffix.lower()]
    if given is not None and given not in FORMATS:
        raise unknown("format", given, FORMATS)
    if given == "parquet" and output is None:
        raise InputError("--format parquet needs a file: give -o FILE.")
    return given or "table"


def put_table(table: Any, output: Path | None, format_: str) -> None:
    from accord.cli.display import say, table_as_text, write_table

    if output is not None:
        write_table(table, output, format_)
        say(f"{len(table):,} rows: {output}")
    elif text := table_as_text(table, format_):
        typer.echo(text)


@contextmanager
def step_progress() -> Iterator[Callable[[str, int, int | None], None]]:
    """A bar for each step of long work, on a terminal: its name, how much is done, and of how much."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    screen = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[count]}"), TimeElapsedColumn())
    with Progress(*columns, console=screen, transient=True, disable=not screen.is_terminal) as bar:
        tasks: dict[str, Any] = {}

        def watch(step: str, done: int, total: int | None) -> None:
            count = f"{done:,}" if total is None else f"{done:,} of {total:,}"
            if step not in tasks:
                tasks[step] = bar.add_task(step, total=total, count=count)
            bar.update(tasks[step], completed=done, total=total, count=count)

        yield watch
