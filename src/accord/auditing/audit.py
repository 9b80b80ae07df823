"""`accord.audit`: read the log, check its health, estimate p_real, measure it, test denoising, write the results."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from accord.auditing.detection import detection
from accord.auditing.health import as_json, described, health
from accord.auditing.interaction_log import Log, open_log
from accord.auditing.noise import interactions_table, judge, label_table, noise_summary, side_table
from accord.auditing.page import write_page
from accord.auditing.verdict import verdict
from accord.comparing.executor import Here, Processes, Say, Workers
from accord.data import labels as labelling
from accord.data.columns import Columns
from accord.data.csr import Floats
from accord.data.interactions import IdMap, Interactions
from accord.data.split import pairs
from accord.errors import Argument, ColumnArgument, InputError, Note
from accord.io.csv_safety import write_csv
from accord.io.files import only_writer, replacing, write_json
from accord.models.histories import one_thread
from accord.training.trainer import Watch
from accord.version import __version__

LARGE = 20_000  # interactions from which on it is worth starting processes
WORK = "unfinished"  # folder inside the audit folder: the finished steps of an interrupted audit
TABLES = ("interactions", "users", "items")
SUFFIXES = {".csv": ",", ".tsv": "\t", ".parquet": None}


def audit(
    data: Any,
    *,
    columns: Columns | None = None,
    split: str = "auto",
    ratios: Sequence[float] = (0.8, 0.1, 0.1),
    clean: str | None = None,
    split_seed: int = 0,
    items: Any = None,
    labels: Any = None,
    events: str | None = None,
    seeds: int = 3,
    device: str = "auto",
    out: str | Path | None = None,
    resume: bool = False,
    watch: Watch = None,
    say: Say = lambda _: None,
    workers: Workers | None = None,
    processes: int = 1,
    command: str = "",
) -> Audit:
    """Audit a log: its health, a probability for every interaction, and whether denoising helps.

    `data`: what `accord.load` takes. `seeds`: runs of each learned model that denoising is tested with. With `out` the
    audit folder is written; `resume` continues where an interrupted audit stopped. `workers`: where models are trained;
    if not given, in that many `processes` of this machine, each with one thread. A script that uses several
    processes starts with `if __name__ == "__main__":`, as each of them imports it.
    `command`: what repeats it, for its summary.

    >>> log = accord.simulate(users=60, items=40, interactions=700, liked=0.4).dataset
    >>> result = accord.audit(log, seeds=1)
    >>> sorted(result.summary)[:4]
    ['accord', 'command', 'data', 'detection']
    """
    if not isinstance(seeds, int) or seeds < 1:
        raise InputError(Argument("seeds", seeds), ": give at least 1.")
    # steps on a CPU are small: on a busy machine, threads that wait for each other make them many times slower
    threads = one_thread() if (workers or Here()).device(device).type == "cpu" else nullcontext()
    times = [time.perf_counter()]
    log = open_log(
        data, columns=columns, split=split, ratios=ratios, clean=clean, seed=split_seed, items=items, labels=labels,
        events=events,
    )  # fmt: skip
    if np.bincount(log.users).max() < 2:
        raise InputError(
            f"{log.data.name}: no user has two interactions, so none can be judged by what else its user did; check ",
            ColumnArgument("user"), ".",
        )  # fmt: skip
    times.append(time.perf_counter())
    label_figures = labelling.summary(log.data)
    for note in (*log.data.notes, *labelling.described(label_figures)):
        say(Note("note: ", note))
    workers = workers or (Processes(processes) if processes > 1 and len(log) >= LARGE else Here())
    with _work_folder(out, resume) as work, threads:
        findings = health(log)
        times.append(time.perf_counter())
        judged = judge(log)
        detected = None if log.truth is None else detection(log, judged, log.truth)
        users, rated_items = (side_table(log, judged, side) for side in ("user", "item"))
        noise = noise_summary(log, judged, users, rated_items)
        if log.label is not None:
            say(f"note: {judged.why}")
        times.append(time.perf_counter())
        how = {"seeds": seeds, "device": device, "watch": watch, "workers": workers}
        tested = verdict(log, work, say=lambda text: say(f"verdict, {text}"), **how)
        times.append(time.perf_counter())
        seconds = dict(zip(("read", "health", "noise", "verdict"), np.diff(times), strict=True))
        summary = {
            "accord": __version__,
            "kind": "audit",
            "command": command,
            "data": described(log) | ({"labels": label_figures} if label_figures else {}),
            "health": findings,
            "noise": noise,
            "detection": detected,
            "verdict": tested,
            "seconds": {name: round(took, 2) for name, took in {**seconds, "all": times[-1] - times[0]}.items()},
        }
        result = Audit(
            log, interactions_table(log, judged), users, rated_items, as_json(summary),
            label_table(log, judged),
        )  # fmt: skip
        if out is not None:
            result.save(out)
    return result


@contextmanager
def _work_folder(out: str | Path | None, resume: bool) -> Iterator[Path]:
    """A folder for finished steps until the audit is complete: inside the audit folder, if there is one."""
    if out is None:
        with tempfile.TemporaryDirectory(prefix="accord-audit-") as name:
            yield Path(name)
        return
    work = Path(out) / WORK
    with only_writer(Path(out)):
        if not resume:
            shutil.rmtree(work, ignore_errors=True)
        work.mkdir(parents=True, exist_ok=True)
        try:
            yield work
        finally:
            if work.exists() and not any(work.iterdir()):  # no step was finished
                work.rmdir()


@dataclass(frozen=True)
class Audit:
    """The result of an audit: its tables, and a summary whose keys docs/files.md describes.

    >>> result = accord.audit(accord.simulate(users=60, items=40, interactions=700, liked=0.4).dataset, seeds=1)
    >>> result.interactions.column_names[:3]
    ['user', 'item', 'p_real']
    """

    log: Log
    interactions: pa.Table
    users: pa.Table
    items: pa.Table
    summary: dict[str, Any]
    to_label: pa.Table  # what to label next, then what is labelled: a file for `labels` once it is filled in

    def __repr__(self) -> str:
        data, noise = self.summary["data"], self.summary["noise"] or {}
        rate = f"; noise rate {noise['rate']:.0%} ({noise['low']:.0%} to {noise['high']:.0%})" if noise else ""
        return f"Audit({data['name']}: {data['interactions']:,} interactions{rate})"

    def save(self, folder: str | Path) -> Path:
        """Write the audit folder. `summary.json` is written last: a folder without it is not finished."""
        folder = Path(folder)
        (folder / "summary.json").unlink(missing_ok=True)
        for name in TABLES:
            with replacing(folder / f"{name}.parquet") as path:
                pq.write_table(getattr(self, name), path)
        write_table(folder / "to_label.csv", self.to_label)
        write_page(folder / "report.html", self.summary, self.log)
        write_json(folder / "summary.json", self.summary)
        shutil.rmtree(folder / WORK, ignore_errors=True)
        return folder

    def write_clean(self, path: str | Path, drop_below: float = 0.5) -> Cleaned:
        """Write the log without the interactions whose p_real is below `drop_below`."""
        return write_clean(Path(path), self.log, self.interactions, drop_below)


def is_unfinished(folder: Path) -> bool:
    """Whether an audit was begun here and not finished; the finished one that it replaces may still exist."""
    return (folder / WORK).exists()


@dataclass(frozen=True)
class Cleaned:
    rows: int  # written
    dropped: int
    users_lost: int  # users without any row left


def check_target(path: Path, drop_below: float) -> None:
    """Raise InputError where the clean log could not be written, before the audit begins."""
    if path.suffix not in SUFFIXES:
        raise InputError(Argument("write_clean", path), f": its name must end in {', '.join(SUFFIXES)}.")
    if not 0 < drop_below <= 1:
        raise InputError(Argument("drop_below", drop_below), ": give a probability above 0 and up to 1.")


def write_clean(path: Path, log: Log, judged: pa.Table, drop_below: float = 0.5) -> Cleaned:
    """Write the rows of the log whose p_real is at least `drop_below`, with all their columns. `judged`: the audit's
    table of interactions."""
    check_target(path, drop_below)
    keep = _p_real_of_rows(log, judged) >= drop_below
    if not keep.any():
        raise InputError(Argument("drop_below", drop_below), " leaves no interactions; give a smaller one.")
    users = log.data.users.rows(log.raw.users)
    lost = len(np.setdiff1d(users, users[keep]))
    write_table(path, log.columns.filter(pa.array(keep)))
    return Cleaned(int(keep.sum()), int((~keep).sum()), lost)


def _p_real_of_rows(log: Log, judged: pa.Table) -> Floats:
    """p_real of every row of the log, repeated pairs too."""
    if missing := {"user", "item", "p_real"} - {*judged.column_names}:
        raise InputError(f"the audit's interactions.parquet has no column '{min(missing)}'; audit this log first.")
    keys = pairs(log.data, Interactions(judged.select(["user", "item"])))
    place = IdMap(pa.array(keys)).rows(pairs(log.data, log.raw))
    if (place < 0).any():
        raise InputError("the audit is of another log: it lacks some interactions of this one; audit this log first.")
    p_real: Floats = judged.column("p_real").to_numpy()[place]
    return p_real


def write_table(path: Path, table: pa.Table) -> None:
    with replacing(path) as temporary:
        delimiter = SUFFIXES[path.suffix]
        if delimiter is None:
            pq.write_table(table, temporary)
            return
        nested = [field.name for field in table.schema if pa.types.is_nested(field.type)]
        if nested:
            raise InputError(
                f"{path}: column '{nested[0]}' is nested, which a text file cannot hold; write a .parquet file."
            )
        write_csv(table, temporary, delimiter)
