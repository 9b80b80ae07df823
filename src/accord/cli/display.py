"""What the command line shows: tables, progress, notes. Results go to standard output, the rest to standard error."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from accord.config import describe, full_name
from accord.errors import printable
from accord.io.files import replacing

if TYPE_CHECKING:
    from accord.data.check import Report
    from accord.training.trainer import Progress

WIDE = 200
SHOWN_KS = (10, 20)


def console(stderr: bool = False) -> Console:
    plain = Console(stderr=stderr, highlight=False)
    return plain if plain.is_terminal else Console(stderr=stderr, highlight=False, width=WIDE, soft_wrap=True)


def say(text: str) -> None:
    console(stderr=True).print(printable(text), markup=False)


def print_table(columns: Sequence[str], rows: Iterable[Sequence[Any]], title: str | None = None) -> None:
    table = Table(box=None, title=title and _plain(title), title_justify="left", pad_edge=False)
    for name in columns:
        table.add_column(_plain(name), overflow="fold")
    for row in rows:
        table.add_row(*(_plain(cell) for cell in row))
    console().print(table)


def _plain(cell: Any) -> str:
    from rich.markup import escape

    return escape(printable(f"{cell:.4f}" if isinstance(cell, float) else "" if cell is None else str(cell)))


def metrics_table(metrics: dict[str, Any], every: bool = False, ks: Sequence[int] | None = None) -> None:
    """Mean ± standard deviation, for all users and for warm and cold users: of recall and NDCG at `ks`, or of every
    metric."""
    data, runs = metrics["dataset"], metrics["runs"]
    groups = metrics["groups"]
    say(
        f"{data['name']}: {data['users']:,} users, {data['items']:,} items, {data['train']:,} train, "
        f"{data['valid']:,} valid, {data['test']:,} test · {full_name(metrics['model'], metrics['method'])} · "
        f"{metrics['protocol']['name']} · {len(runs)} run(s)"
    )
    if not metrics["mean"]:
        say("nothing was held out, so that nothing is evaluated")
        return
    shown = {name: group for name, group in groups.items() if group["users"]}
    columns = ["metric", "all users", *(f"{name} ({group['users']:,})" for name, group in shown.items())]
    rows = []
    for name in metrics["mean"] if every else _shown_first(metrics["mean"], ks):
        mean = metrics["mean"][name]
        spread = f" ± {metrics['std'][name]:.4f}" if len(runs) > 1 else ""
        rows.append([name, f"{mean:.4f}{spread}", *(f"{group['mean'][name]:.4f}" for group in shown.values())])
    print_table(columns, rows)
    if "before_validation" in metrics:
        before = metrics["before_validation"]["mean"]
        figures = ", ".join(f"{name} {value:.4f}" for name, value in before.items() if name.startswith("ndcg"))
        say(f"judged once fitted on train and validation, which came before the test; on train alone: {figures}")
    if "refit" in metrics:
        fitted = metrics["refit"]["interactions"]
        say(f"what it recommends is fitted again on all {fitted:,} interactions; the figures are those of before")


def _shown_first(names: Iterable[str], ks: Sequence[int] | None) -> list[str]:
    """The metrics that are shown unasked: recall and NDCG, and where nobody chose the lengths, at 10 and 20 alone."""
    from accord.training.plan import DEFAULT_KS, KS

    found = [(name, *name.split("@")) for name in names]
    lengths = tuple(sorted({int(k) for *_, k in found}))
    if ks is None:
        ks = SHOWN_KS if lengths in (DEFAULT_KS, *KS.values()) else lengths
    return [name for name, metric, k in found if metric in ("recall", "ndcg") and int(k) in ks]


def members_table(metrics: dict[str, Any]) -> None:
    """What voted in a consensus, what else was tried, and what each reaches alone; and the notes of any training."""
    search = metrics.get("search")
    if search is not None:
        tried, most = len(search["tried"]), search["trials"]
        options = "1 option" if most == 1 else f"{most} options"
        families = len({(entry["model"], entry.get("method")) for entry in metrics["members"]})
        say(f"tried {tried} settings of {families} families, {options} of each at most; the best of each:")
    if "members" in metrics:
        from accord.report.members import member_columns, member_rows

        print_table(member_columns(metrics), member_rows(metrics["members"]))
    for note in metrics.get("notes", ()):
        say(f"note: {note}")


@contextmanager
def training_progress() -> Iterator[Callable[[Progress], None]]:
    """A progress bar with the loss, the speed and the validation metric; without a terminal one line of a search."""
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[figures]}"),
        TimeRemainingColumn(),
    )
    screen = Console(stderr=True)
    with Bar(*columns, console=screen, transient=True, disable=not screen.is_terminal) as bar:
        tasks: dict[str, Any] = {}

        def watch(progress: Progress) -> None:
            if progress.plan is not None and not screen.is_terminal:  # where no bar shows that something is done
                say(progress.plan)
            figures = progress.unit
            if progress.step:
                figures += f" · loss {progress.loss:.4f} · {progress.steps_per_second:.0f} steps/s"
            if progress.value is not None:
                figures += f" · valid {progress.value:.4f}"
            if progress.stage not in tasks:
                what = f"{'evaluating' if progress.unit == 'users' else 'training'} {progress.stage}"
                tasks[progress.stage] = bar.add_task(what, total=progress.epochs, figures=figures)
            unfinished = progress.epoch < progress.epochs
            bar.update(tasks[progress.stage], completed=progress.epoch, figures=figures, visible=unfinished)

        yield watch


def check_report(report: Report) -> None:
    rows = [["users", f"{report.users:,}"], ["items", f"{report.items:,}"]]
    rows += [[f"{name} interactions", f"{count:,}"] for name, count in report.interactions.items()]
    rows += [["sparsity", f"{report.sparsity:.4%}"]]
    # what there is of these is said below, in sentences
    looked_for = {
        "repeated pairs": sum(report.duplicates.values()),
        "pairs shared by two parts": sum(report.shared.values()),
        "test interactions of unknown users or items": report.cold["interactions"],
        "constant columns": len(report.constant),
    }
    rows += [[what, "none"] for what, found in looked_for.items() if not found]
    print_table([report.name, ""], rows)
    for sentence in (*report.notes, *report.findings):
        console().print(f"- {printable(sentence)}", markup=False)


def describe_kinds(section: str, kinds: Iterable[Any]) -> None:
    """Each model or method with its options."""
    for kind in kinds:
        console().print(f"{kind.name}: {kind.summary}", markup=False)
        _options_table(section, kind.Config)


def describe_section(section: str, config: Any, when: str) -> None:
    console().print(f"{section}: {when}", markup=False)
    _options_table(section, config)


def _options_table(section: str, config: Any) -> None:
    rows = [(f"  --set {section}.{name}={default}", meaning) for name, default, meaning in describe(config)]
    width = max((len(option) for option, _ in rows), default=0)
    for option, meaning in rows:
        console().print(f"{option:<{width}}  {meaning}", markup=False)
    console().print()


def table_as_text(table: Any, format_: str) -> str:
    """An Arrow table as text: aligned columns, JSON lines or CSV."""
    if format_ == "json":
        return "\n".join(json.dumps(row, ensure_ascii=False) for row in table.to_pylist())
    if format_ == "csv":
        return _csv(table).decode().rstrip("\n")
    out = io.StringIO()
    printed = Table(box=None, pad_edge=False)
    for name in table.column_names:
        printed.add_column(_plain(name))
    for row in table.to_pylist():
        printed.add_row(*(_plain(value) for value in row.values()))
    Console(file=out, width=WIDE, highlight=False).print(printed)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines())


def _csv(table: Any) -> bytes:
    import pyarrow.csv

    from accord.io.csv_safety import guarded_table

    out = io.BytesIO()
    pyarrow.csv.write_csv(guarded_table(table), out)
    return out.getvalue()


def write_table(table: Any, path: Path, format_: str) -> None:
    """Write an Arrow table; the file is complete or not there."""
    with replacing(path) as temporary:
        if format_ == "parquet":
            import pyarrow.parquet as pq

            pq.write_table(table, temporary)
        else:
            temporary.write_text(table_as_text(table, format_) + "\n")
