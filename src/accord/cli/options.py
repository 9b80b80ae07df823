"""The options that commands share, and how their values are read."""

from __future__ import annotations

import inspect
import json
import shlex
import sys
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer
from typer import Argument, Option

from accord.errors import InputError, shown, unknown

if TYPE_CHECKING:
    from accord.data.columns import Columns
    from accord.data.interactions import Dataset

FORMATS = ("table", "json", "csv", "parquet")
SUFFIXES = {".csv": "csv", ".json": "json", ".jsonl": "json", ".parquet": "parquet", ".txt": "table"}
DataArgument = Annotated[
    list[str], Argument(help="files, a folder, a store, a database, or a named dataset (see 'accord data list')")
]
Clean = Annotated[str | None, Option(help="which held-out pairs are real preferences: 'value>=5', 'dwell>10'")]
LABELS = "which interactions are real: 'rating>=4', a column of 0 and 1, or a file of user, item, label"
Labels = Annotated[str | None, Option(help=LABELS)]
ItemsFile = Annotated[Path | None, Option("--items", help="file of items: id, title and any other columns")]
NewItemsFile = Annotated[
    Path | None, Option("--items", help="file of items, including new ones: id and any other columns")
]
Device = Annotated[str, Option(help="auto, cpu or cuda")]
Cluster = Annotated[
    str | None,
    Option(help="train on a Ray cluster: its HOST:PORT, or auto for one on this machine, started if needed"),
]
RunArgument = Annotated[Path, Argument(help="a run folder")]
AllMetrics = Annotated[
    bool,
    Option("--all-metrics", help="print every metric at every K, and coverage, novelty and popularity of the lists"),
]
AllowImports = Annotated[bool, Option("--allow-imports", help="import the model and method classes that the run names")]


def _be_deterministic(wanted: bool) -> bool:
    """Called as soon as the command line is read: it must be set before CUDA is used."""
    if wanted:
        from accord.fitting import deterministic

        deterministic()
    return wanted


Deterministic = Annotated[
    bool,
    Option(
        "--deterministic",
        callback=_be_deterministic,
        help="reproduce results bit by bit on CUDA, which is slower; a CPU always does",
    ),
]


@dataclass(frozen=True)
class Log:
    user_col: Annotated[str | None, Option(help="column of the users; guessed from usual names if not given")] = None
    item_col: Annotated[str | None, Option(help="column of the items")] = None
    value_col: Annotated[str | None, Option(help="column of the value (rating, dwell time, …)")] = None
    time_col: Annotated[str | None, Option(help="column of the time")] = None
    query: Annotated[
        str | None, Option(help="what to read from a database, as 'select user_id, item_id, ts from clicks'")
    ] = None

    @property
    def columns(self) -> Columns | None:
        """The columns that were named; None where all are to be guessed."""
        from accord.data.columns import Columns

        named = {option.removesuffix("_col"): name for option, name in vars(self).items() if option != "query"}
        return Columns(**named) if any(named.values()) else None

    def source(self, data: list[str]) -> Any:
        """What the words of the command line name: a path, several, or a query of a database."""
        if self.query is None:
            return data[0] if len(data) == 1 else data
        from accord.data.databases import Query

        if len(data) > 1:
            raise InputError("--query goes with one database.")
        return Query.of(data[0], self.query)


@dataclass(frozen=True)
class WeightedLog(Log):
    weight_col: Annotated[str | None, Option(help="column of weights: how much an interaction counts")] = None


@dataclass(frozen=True)
class Labelling:
    """Which interactions are real."""

    labels: Annotated[list[str] | None, Option(help=f"{LABELS}; may be given more than once")] = None
    events: Annotated[str | None, Option(help="the label of each kind of event: 'view=?,cart=0.7,buy=1'")] = None
    unknown: Annotated[str | None, Option(help="values that mean 'not rated' in a rule of --labels: '-1'")] = None

    @property
    def settings(self) -> dict[str, Any]:
        """As `accord.load` takes them."""
        labels = given = self.labels or []
        if self.unknown is not None:
            from accord.data.rules import UNKNOWN, LabelRule

            labels = [one + UNKNOWN + self.unknown if LabelRule.parse(one) else one for one in given]
            if labels == given:
                raise InputError(
                    f"--unknown {shown(self.unknown)} needs a rule: give one too, such as --labels 'rating>=4'."
                )
            parse_numbers(self.unknown, "--unknown", float)
        return {"labels": labels[0] if len(labels) == 1 else labels or None, "events": self.events}


@dataclass(frozen=True)
class Splitting:
    clean: Clean = None
    split: Annotated[
        str, Option(help="auto, random, chronological, leave-last-out, global-time or global-time:2021-06-01")
    ] = "auto"
    ratios: Annotated[str, Option(help="shares of train, valid and test; 1,0,0 to train on everything")] = "0.8,0.1,0.1"
    split_seed: Annotated[int, Option(help="seed of the split")] = 0

    @property
    def settings(self) -> dict[str, Any]:
        """As `accord.load` takes them, but for the seed."""
        return {"clean": self.clean, "split": self.split, "ratios": parse_numbers(self.ratios, "--ratios", float)}


@dataclass(frozen=True)
class Choice:
    """Which items may be recommended."""

    exclude: Annotated[list[str] | None, Option(help="an item to leave out; may be given more than once")] = None
    exclude_file: Annotated[Path | None, Option(help="a file of items to leave out, one id per line")] = None
    allow: Annotated[
        list[str] | None, Option(help="an item to choose from, and no others; may be given more than once")
    ] = None
    allow_file: Annotated[Path | None, Option(help="a file of the only items to choose from, one id per line")] = None
    where: Annotated[
        list[str] | None,
        Option(help="a condition on a column of --items: 'genre=drama|war', 'year>=1990'"),
    ] = None

    def arguments(self) -> dict[str, Any]:
        """As `Recommender.recommend` takes them; nothing where all items may be."""
        given = {name: [*(vars(self)[name] or [])] for name in ("exclude", "allow", "where")}
        for name in ("exclude", "allow"):
            if (file := vars(self)[f"{name}_file"]) is not None:
                given[name] += read_ids(file, f"--{name}-file")
        return {name: values for name, values in given.items() if values}


@dataclass(frozen=True)
class Printed:
    """Where a table goes."""

    format_: Annotated[
        str | None, Option("--format", help="table, json, csv or parquet; by the name of the file if not given")
    ] = None
    output: Annotated[
        Path | None,
        Option("-o", "--output", "--out", help="a .csv, .json, .jsonl, .parquet or .txt file; the screen if not given"),
    ] = None

    def format(self) -> str:
        """That of --format, else that of the file's name. A file of a run folder is refused."""
        given, output = self.format_, self.output
        if output is not None and output.is_file() and (output.parent / "manifest.json").is_file():
            raise InputError(
                f"{output} is in a run folder and would be replaced; give --out a file that lies elsewhere."
            )
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

    def put(self, table: Any) -> None:
        put_table(table, self.output, self.format())


class _WithoutPandas:
    """Lets Arrow take pandas for not installed: it would load it, which takes half a second, to look for its frames."""

    @staticmethod
    def find_spec(name: str, *_: Any) -> None:
        if name == "pandas":
            raise ModuleNotFoundError(name=name)


@dataclass(frozen=True)
class Opening:
    device: Device = "auto"
    allow_imports: AllowImports = False

    def open(self, run: Path) -> Any:
        import pyarrow as pa

        sys.meta_path.insert(0, _WithoutPandas)
        pa.array([0])  # it looks for pandas once
        sys.meta_path.remove(_WithoutPandas)
        from accord.recommender.recommender import Recommender
        from accord.training.plan import find_device

        return Recommender.load(run, device=str(find_device(self.device)), allow_imports=self.allow_imports)


@dataclass(frozen=True)
class Asking(Opening):
    new_items: NewItemsFile = None

    def open(self, run: Path) -> Any:
        recommender = super().open(run)
        return recommender if self.new_items is None else recommender.with_items(self.new_items)


def with_groups(command: Callable[..., None]) -> Callable[..., None]:
    """A command as typer reads it: a parameter whose type is a group of options stands for the options of the group."""
    hints = get_type_hints(command, include_extras=True)
    parameters: list[inspect.Parameter] = []
    groups: dict[str, Any] = {}
    for parameter in inspect.signature(command).parameters.values():
        kind = hints[parameter.name]
        if isinstance(kind, type) and is_dataclass(kind):
            groups[parameter.name] = kind
            parameters += inspect.signature(kind, eval_str=True).parameters.values()
        else:
            parameters.append(parameter.replace(annotation=kind))

    @wraps(command)
    def call(**given: Any) -> None:
        for name, kind in groups.items():
            given[name] = kind(**{field.name: given.pop(field.name) for field in fields(kind)})
        command(**given)

    options = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in parameters]
    vars(call)["__signature__"] = inspect.Signature(options)
    call.__annotations__ = {one.name: one.annotation for one in options}
    return call


def interrupted(folder: Path) -> bool:
    return any(folder.glob("checkpoint-*")) and not (folder / "metrics.json").exists()


def run_folder(
    given: Path | None,
    default: Path,
    resume: bool,
    overwrite: bool,
    what: str = "run",
    finished: str = "metrics.json",
    unfinished: Callable[[Path], bool] = interrupted,
) -> Path:
    """Where a run or an audit goes. A given folder is replaced only with --overwrite; the default one gets a number."""
    if given is None:
        folder, number = default, 1
        while folder.exists() and not overwrite and not (resume and unfinished(folder)):
            number += 1
            folder = default.with_name(f"{default.name}-{number}")
        return folder
    if given.is_file():
        raise InputError(f"--out {given} is a file; give a folder.")
    is_unfinished = unfinished(given)
    if not overwrite and not (resume and is_unfinished) and (given / finished).exists():
        raise InputError(f"{given} holds a finished {what}; give another --out, or --overwrite to replace it.")
    if not overwrite and not resume and is_unfinished:
        again = "continue it with --resume, or --overwrite to start again"
        raise InputError(f"{given} holds an interrupted {what}; {again}.")
    return given


def typed() -> str:
    """The command as it was typed, to be repeated: without --resume, --overwrite and passwords."""
    from accord.data.databases import without_password

    words = [without_password(word) for word in sys.argv[1:] if word not in ("--resume", "--overwrite")]
    return shlex.join(["accord", *words])


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
        raise InputError(f"{option} {shown(text)}: give numbers separated by commas, such as 5,20.") from None


def read_ids(path: Path, option: str) -> list[str]:
    if not path.is_file():
        raise InputError(f"{option} {path}: there is no such file; check the path.")
    try:
        ids = [line.strip() for line in path.read_text(encoding="utf-8-sig").split("\n") if line.strip()]
    except UnicodeDecodeError as error:
        raise InputError(f"{option} {path} is not UTF-8 text ({error}); save it as UTF-8.") from None
    if not ids:
        raise InputError(f"{option} {path}: the file is empty; write one id per line.")
    return ids


def load_data(
    data: list[str], log: Log, splitting: Splitting, labelling: Labelling | None = None, **more: Any
) -> Dataset:
    from accord.data.load import load

    more |= {**splitting.settings, **({} if labelling is None else labelling.settings)}
    return load(log.source(data), columns=log.columns, seed=splitting.split_seed, **more)


def put_table(table: Any, output: Path | None, format_: str) -> None:
    from accord.cli.display import say, table_as_text, write_table

    if output is not None:
        write_table(table, output, format_)
        say(f"{len(table):,} rows: {output}")
    elif text := table_as_text(table, format_):
        typer.echo(text)
