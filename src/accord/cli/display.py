"""Tables, progress bars and notes of the command line. Results go to standard output, all else to standard error."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, ProgressColumn, Task, TaskID, TextColumn
from rich.progress import Progress as ProgressBar
from rich.table import Table
from rich.text import Text

from accord.config import describe, full_name
from accord.errors import Note, printable
from accord.io.files import replacing

if TYPE_CHECKING:
    from accord.recommender.recommender import Recommender
    from accord.training.trainer import Progress

WIDE = 200
SHOWN_KS = (10, 20)
LINES_APART = 30.0  # seconds between two lines about progress where there is no terminal
MOST_ROWS = 6  # about progress on a terminal
SEARCH = "search"  # the row of a search, above those of the trainings in it


def console(stderr: bool = False) -> Console:
    terminal = Console(stderr=stderr, highlight=False)
    return terminal if terminal.is_terminal else Console(stderr=stderr, highlight=False, width=WIDE, soft_wrap=True)


def say(text: str) -> None:
    console(stderr=True).print(printable(Note(text).for_command), markup=False)


def say_notes(notes: Iterable[str]) -> None:
    for note in notes:
        say(Note("note: ", note))


def print_table(columns: Sequence[str], rows: Iterable[Sequence[Any]], title: str | None = None) -> None:
    console().print(_table(columns, rows, title))


def _table(columns: Sequence[str], rows: Iterable[Sequence[Any]], title: str | None = None) -> Table:
    table = Table(box=None, title=title and _text(title), title_justify="left", pad_edge=False)
    for name in columns:
        table.add_column(_text(name), overflow="fold")
    for row in rows:
        table.add_row(*(_text(cell) for cell in row))
    return table


def _text(cell: Any) -> str:
    from rich.markup import escape

    return escape(printable(f"{cell:.4f}" if isinstance(cell, float) else "" if cell is None else str(cell)))


def metrics_table(metrics: dict[str, Any], every: bool = False, ks: Sequence[int] | None = None) -> None:
    """Mean ± standard deviation of recall and NDCG at `ks`, or of every metric, for all, warm and cold users."""
    data, runs = metrics["dataset"], metrics["runs"]
    say(
        f"{data['name']}: {data['users']:,} users, {data['items']:,} items, {data['train']:,} train, "
        f"{data['valid']:,} valid, {data['test']:,} test · {full_name(metrics['model'], metrics['method'])} · "
        f"{metrics['protocol']['name']} · {len(runs)} run(s)"
    )
    if not metrics["mean"]:
        say("nothing was held out, so there are no metrics")
        return
    shown = {name: group for name, group in metrics["groups"].items() if group["users"]}
    columns = ["metric", "all users", *(f"{name} ({group['users']:,})" for name, group in shown.items())]
    rows = []
    for name in metrics["mean"] if every else _shown_first(metrics["mean"], ks):
        mean = metrics["mean"][name]
        spread = f" ± {metrics['std'][name]:.4f}" if len(runs) > 1 else ""
        rows.append([name, f"{mean:.4f}{spread}", *(f"{group['mean'][name]:.4f}" for group in shown.values())])
    print_table(columns, rows)
    if "before_validation" in metrics:
        before = metrics["before_validation"]["mean"]
        values = ", ".join(f"{name} {before[name]:.4f}" for name in _shown_first(before, ks))
        say(f"Evaluated after a fit on train and validation, which precede the test in time; on train alone: {values}")
    if "by_user" in metrics:
        names = _shown_first(metrics["mean"], ks)
        values = ", ".join(f"{name} {metrics['by_user']['mean'][name]:.4f}" for name in names)
        say(f"On the last interactions of each user instead, where training sees what others did later: {values}")
    if "refit" in metrics:
        total = metrics["refit"]["interactions"]
        say(f"Final model refitted on all {total:,} interactions; the metrics above are from held-out data")


def say_beyond(recommender: Recommender, k: int = SHOWN_KS[-1]) -> None:
    """Coverage, novelty and popularity of the lists of a sample of users."""
    from accord.report.runs import SAMPLE, sample_users
    from accord.report.sections import beyond_accuracy, described

    users = recommender.users.take(sample_users(recommender, SAMPLE))
    say(described(beyond_accuracy(recommender, recommender.recommend(users, k)), k))


def _shown_first(names: Iterable[str], ks: Sequence[int] | None) -> list[str]:
    """The metrics that are shown by default: recall and NDCG, at 10 and 20 unless other lengths were chosen."""
    from accord.training.plan import DEFAULT_KS, KS

    parts = [(name, *name.split("@")) for name in names]
    lengths = tuple(sorted({int(k) for *_, k in parts}))
    if ks is None:
        ks = SHOWN_KS if lengths in (DEFAULT_KS, *KS.values()) else lengths
    return [name for name, metric, k in parts if metric in ("recall", "ndcg") and int(k) in ks]


def new_items_table(result: dict[str, Any]) -> None:
    """How well held-out items are recommended, and what that costs the other items."""
    print_table([f"{result['items']:,} items held out entirely", "recall@20"], result["recall@20"].items())
    others = ", ".join(f"{value:.4f} {name}" for name, value in result["others"].items())
    say(f"ndcg@20 of the other items: {others or 'none was held out'}")


def members_table(metrics: dict[str, Any]) -> None:
    """The members of a consensus, the candidates without a vote and the metrics of each; and the notes of training."""
    search = metrics.get("search")
    if search is not None:
        families = len({(entry["model"], entry.get("method")) for entry in metrics["members"]})
        say(f"tried {len(search['tried'])} configurations of {families} families; the best of each:")
    if "members" in metrics:
        from accord.report.sections import member_columns, member_rows

        rows = member_rows(metrics["members"])
        print_table(member_columns(metrics), rows)
        if search is not None:
            say(_chosen(rows))
    say_notes(metrics.get("notes", ()))


def _chosen(rows: Sequence[tuple[str, str, float | None, float | None, str]]) -> str:
    """What auto chose on this log, compared with EASE tuned by the same search."""
    voting = [f"{name} ({options})" for name, weight, _, _, options in rows if weight]
    what = f"{voting[0]} alone" if len(voting) == 1 else f"a vote of {len(voting)} models"
    tuned = [row for row in rows if row[0] in ("ease", "sparse-ease") and row[3]]
    ease = max(tuned, key=lambda row: row[2] or 0, default=None)
    compared = "" if ease is None else f"; {ease[0]}, tuned the same way, has ndcg@20 {ease[3]:.4f} on the test"
    return f"auto chose {what}{compared}"


def say_seconds(seconds: Mapping[str, float]) -> None:
    """What each part of a run took; learning from labels is part of the training."""
    parts = [f"{name} {value:,.1f} s" for name, value in seconds.items() if name != "labels" and value]
    labels = f" (labels {seconds['labels']:,.1f} s of the training)" if seconds.get("labels") else ""
    say(f"took {', '.join(parts)}{labels}")


class TimeLeft(ProgressColumn):
    """How long it still takes if it goes on as it did: it shrinks between two reports too."""

    def render(self, task: Task) -> Text:
        ends = task.fields["ends"]
        return Text("" if ends is None else _time_left(ends))


def _time_left(ends: float) -> str:
    return f"{timedelta(seconds=max(0, round(ends - monotonic())))} left"


@contextmanager
def step_progress() -> Iterator[Callable[..., None]]:
    """What long work is doing and how long it still takes: a few rows on a terminal, elsewhere a line now and then.
    Yields a function of a step, how much of it is done, of how much, and what that is; it takes the row of the step
    before it if both name the same `row`."""
    screen = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(16), TextColumn("{task.fields[done]}"), TimeLeft())
    with ProgressBar(*columns, console=screen, transient=True, disable=not screen.is_terminal) as bar:
        tasks: dict[str, TaskID] = {}
        starts: dict[str, tuple[float, int]] = {}  # when the row was first shown, and what was done then
        lines: dict[str, str] = {}
        said = monotonic()

        def close(row: str) -> None:
            starts.pop(row, None)
            lines.pop(row, None)
            if row in tasks:
                bar.remove_task(tasks.pop(row))

        def show(step: str, done: int, total: int | None, what: str = "", row: str | None = None) -> None:
            nonlocal said
            row, now, searches = row or step, monotonic(), row == SEARCH
            for other in [*starts] if searches else []:  # the steps of what was tried before
                if other != row:
                    close(other)
            if total is not None and done >= total and not searches:
                close(row)
                return
            began, before = starts.setdefault(row, (now, done))
            ends = None
            if total is not None and before < done < total:
                ends = now + (now - began) * (total - done) / (done - before)
            counted = " ".join([f"{done:,}" if total is None else f"{done:,}/{total:,}", what]).rstrip()
            counted = (what and f"{done}{what}") if searches else counted
            if row not in tasks and len(tasks) < MOST_ROWS:
                tasks[row] = bar.add_task(step, done="", ends=None)
            if row in tasks:
                bar.update(tasks[row], description=step, completed=done, total=total, done=counted, ends=ends)
            lines[row] = f"{step}: {counted}".rstrip(": ") + ("" if ends is None else f", {_time_left(ends)}")
            if not screen.is_terminal and now - said >= LINES_APART:
                said = now
                say("; ".join(lines.values()))

        yield show


@contextmanager
def training_progress() -> Iterator[Callable[[Progress], None]]:
    """`step_progress` of trainings, with loss, speed and validation metric, and of a search, with its plan first."""
    from accord.training.trainer import OF_BUDGET

    with step_progress() as show:

        def watch(progress: Progress) -> None:
            if progress.plan is not None:
                say(progress.plan)
            if progress.unit in (OF_BUDGET, ""):
                show(progress.stage, progress.epoch, progress.epochs, progress.unit, SEARCH)
                return
            status = progress.unit
            if progress.step:
                status += f" · loss {progress.loss:.4f} · {progress.steps_per_second:.0f} steps/s"
            if progress.value is not None:
                status += f" · valid {progress.value:.4f}"
            verb = "evaluating" if progress.unit == "users" else "training"
            show(f"{verb} {progress.stage}", progress.epoch, progress.epochs, status)

        yield watch


def check_report(report: Mapping[str, Any]) -> None:
    """What `accord data check` tells of a log; what the reader said already is not said again."""
    from accord.data.labels import described

    data, notes = report["data"], report["data"]["notes"]
    rows = [["users", f"{data['users']:,}"], ["items", f"{data['items']:,}"]]
    rows += [[f"{name} interactions", f"{count:,}"] for name, count in data["parts"].items()]
    print_table([data["name"], ""], [*rows, ["density", f"{data['density']:.4%}"]])
    findings = [one for one in report["health"]["findings"] if one["level"] != "fine"]
    if any(" repeat a " in note for note in notes):
        findings = [one for one in findings if one["name"] != "duplicates"]
    problems = [f"{one['level']}: {one['title']}. {one['advice']}" for one in findings]
    for sentence in (*notes, *described(report["labels"]), *problems):
        console().print(f"- {printable(Note(sentence).for_command)}", markup=False)


def describe_kinds(section: str, kinds: Mapping[str, Any]) -> None:
    for kind in dict.fromkeys(kinds.values()):
        names = ", ".join(name for name, one in kinds.items() if one is kind)
        describe_options(section, names, kind.summary, kind.Config)


def describe_options(section: str, name: str, summary: str, config: Any) -> None:
    console().print(f"{name}: {summary}", markup=False)
    rows = [(f"  --set {section}.{option}={default}", meaning) for option, default, meaning in describe(config)]
    width = max((len(option) for option, _ in rows), default=0)
    for option, meaning in rows:
        console().print(f"{option:<{width}}  {meaning}", markup=False)
    console().print()


def table_as_text(table: Any, format_: str) -> str:
    """An Arrow table as text: aligned columns, JSON lines or CSV."""
    if format_ == "json":
        return "\n".join(json.dumps(row, ensure_ascii=False) for row in table.to_pylist())
    if format_ == "csv":
        from accord.io.csv_safety import write_csv

        out = io.BytesIO()
        write_csv(table, out)
        return out.getvalue().decode().rstrip("\n")
    text = io.StringIO()
    Console(file=text, width=WIDE, highlight=False).print(
        _table(table.column_names, (row.values() for row in table.to_pylist()))
    )
    return "\n".join(line.rstrip() for line in text.getvalue().splitlines())


def write_table(table: Any, path: Path, format_: str) -> None:
    with replacing(path) as temporary:
        if format_ == "parquet":
            import pyarrow.parquet as pq

            pq.write_table(table, temporary)
        else:
            temporary.write_text(table_as_text(table, format_) + "\n")
