"""`accord.audit`: read the log, check its health, judge every interaction, measure, test, and write the results."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import torch

from accord.auditing.crossfit import cross_fit
from accord.auditing.detection import detection
from accord.auditing.health import health
from accord.auditing.interaction_log import PARTS, Log, open_log
from accord.auditing.judgement import interactions_table, judge, learn, side_table, to_label
from accord.auditing.noise_summary import noise_summary
from accord.auditing.result import WORK, Audit
from accord.auditing.verdict import verdict
from accord.comparing.executor import Here, Processes, Workers
from accord.data.columns import Columns
from accord.data.labels import described
from accord.data.labels import summary as label_summary
from accord.errors import InputError
from accord.io.files import only_writer, read_json, write_json
from accord.io.noted import noted
from accord.training.trainer import Progress
from accord.version import __version__

LARGE = 20_000  # interactions from which on it is worth starting processes
BEGAN = "began.json"  # when the audit began that is not finished, and what it had taken before


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
    folds: int = 5,
    seeds: int = 2,
    device: str = "auto",
    out: str | Path | None = None,
    resume: bool = False,
    watch: Callable[[Progress], None] | None = None,
    say: Callable[[str], None] = lambda _: None,
    workers: Workers | None = None,
    processes: int = 1,
) -> Audit:
    """Audit a log: its health, a probability for every interaction, and whether denoising helps.

    `data`: what `accord.load` takes. `folds`: how many folds of the log are held out in turn; `seeds`: runs of each
    model that judges them. With `out` the audit folder is written; `resume` continues where an interrupted audit
    stopped. `workers`: where models are trained; if not given, in so many processes of this machine, of which each has
    one thread. A script that asks for several starts with `if __name__ == "__main__":`, as others import it.

    >>> log = accord.simulate(users=60, items=40, interactions=700, liked=0.4).dataset
    >>> found = accord.audit(log, folds=2, seeds=1)
    >>> sorted(found.summary)[:4]
    ['accord', 'command', 'data', 'detection']
    """
    if not isinstance(folds, int) or not isinstance(seeds, int) or folds < 2 or seeds < 1:
        raise InputError(f"folds is {folds} and seeds is {seeds}; give at least 2 folds and 1 seed.")
    on = (workers or Here()).device(device)
    clock = _Clock()
    log = open_log(
        data, columns=columns, split=split, ratios=ratios, clean=clean, seed=split_seed, items=items,
        said={"labels": labels, "events": events},
    )  # fmt: skip
    clock.lap("read")
    said = label_summary(log.data)
    for note in (*log.data.notes, *described(said)):
        say(f"note: {note}")
    with _work_folder(out, resume) as work, _one_thread(on), _where(workers, processes, len(log)) as workers:
        clock.go_on(work)
        found = health(log)
        clock.lap("health")
        opinion = cross_fit(log, seeds=seeds, folds=folds, device=on, work=work, watch=watch, say=say, workers=workers)
        learned = learn(log)
        judged = judge(log, opinion, learned)
        detected, calibrated = (None, None) if log.labels is None else detection(judged, log.labels)
        users, rated_items = side_table(judged, "user"), side_table(judged, "item")
        noise = noise_summary(judged, users, rated_items)
        if learned is not None:
            noise |= {"labels": {"used": learned.used, "why": learned.why, **learned.figures}}
            say(f"note: {learned.why}")
        clock.lap("noise")
        tested = verdict(
            log, device=device, work=work, watch=watch, say=lambda text: say(f"verdict, {text}"), workers=workers
        )
        clock.lap("verdict")
        summary: dict[str, Any] = {
            "accord": __version__,
            "kind": "audit",
            "command": noted("command", ""),
            "data": _described(log),
        }
        summary["data"] |= {"labels": said} if said else {}
        summary |= {"health": found, "noise": noise, "detection": detected, "verdict": tested}
        made = Audit(
            log, interactions_table(judged, calibrated), users, rated_items,
            _plain(summary | {"seconds": clock.seconds()}), to_label(judged),
        )  # fmt: skip
        if out is not None:
            made.save(out)
    return made


def _where(given: Workers | None, processes: int, interactions: int) -> AbstractContextManager[Workers]:
    if given is None and processes > 1 and interactions >= LARGE:
        return Processes(processes)
    return nullcontext(given or Here())


@contextmanager
def _work_folder(out: str | Path | None, resume: bool) -> Iterator[Path]:
    """Where finished steps are kept until the audit is finished: in the audit folder, if there is one."""
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
            if [path.name for path in work.glob("*")] == [BEGAN]:  # a folder without a finished step is not left behind
                shutil.rmtree(work)


@contextmanager
def _one_thread(device: torch.device) -> Iterator[None]:
    """Steps on a CPU are small: on a busy machine, threads that wait for each other make them many times slower."""
    before = torch.get_num_threads()
    if device.type == "cpu":
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


class _Clock:
    def __init__(self) -> None:
        self.began = self.last = time.perf_counter()
        self.before = 0.0  # seconds that an audit took before it was interrupted
        self.laps: dict[str, float] = {}

    def go_on(self, work: Path) -> None:
        """Add what an interrupted audit took, up to the last step that it finished, and note that this one began."""
        file = work / BEGAN
        if file.exists():
            noted, last = read_json(file), max(path.stat().st_mtime for path in work.glob("*"))
            self.before = noted["seconds"] + max(0.0, last - noted["began"])
        write_json(file, {"began": time.time() - (time.perf_counter() - self.began), "seconds": self.before})

    def lap(self, name: str) -> None:
        now = time.perf_counter()
        self.laps[name], self.last = now - self.last, now

    def seconds(self) -> dict[str, float]:
        laps = self.laps | ({"before": self.before} if self.before else {})
        laps |= {"all": self.before + time.perf_counter() - self.began}
        return {name: round(value, 2) for name, value in laps.items()}


def _described(log: Log) -> dict[str, Any]:
    users, items = len(np.unique(log.users)), len(np.unique(log.items))
    return {
        "name": log.data.name,
        "users": users,
        "items": items,
        "interactions": len(log),
        "rows": len(log.raw),
        "parts": {name: int(np.sum(log.part == number)) for number, name in enumerate(PARTS)},
        "density": len(log) / (users * items),
        "value": log.value_name(),
        "time": log.time_name(),
        "notes": list(log.data.notes),
    }


def _plain(value: Any) -> Any:
    """A value that JSON can hold: no numpy numbers, no tuples, null for numbers that are not finite."""
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and not np.isfinite(value) else value
