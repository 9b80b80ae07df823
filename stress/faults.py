"""Faults of the environment, one by one: disk full, read-only folder, vanished input, a clock that goes backwards, two
processes on one folder. Each ends in one sentence, and nothing that was there before is lost.

    python stress/faults.py

The disk is a small tmpfs, which only root can mount; what cannot be tried is reported.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import killing
from killing import clicks
from record import Found, Table, stamp, table_as_text

SMALL = ["--epochs", "3", "--device", "cpu", "--k", "5", "--set", "train.checkpoint_seconds=0"]


@dataclass
class End:
    """How a command ended."""

    code: int
    said: str

    @property
    def sentence(self) -> str:
        """The last line of what it said, which is the error if there was one."""
        lines = [line for line in self.said.splitlines() if line.startswith("accord: ")]
        return lines[-1].removeprefix("accord: ") if lines else ""


class Skipped(Exception):
    """What cannot be tried here, and why."""


def accord(*words: str | Path, folder: Path, user: int | None = None, before: Callable[[], None] = lambda: None) -> End:
    """A command as a user types it, in a process of its own. `before` is called there first."""
    log = folder / "said"
    log.unlink(missing_ok=True)

    def work() -> None:
        os.chdir(folder)
        before()
        killing.accord(*words)()

    code = killing.life(work, None, log)
    assert code is not None
    return End(code, log.read_text())


@contextlib.contextmanager
def full_disk(place: Path, megabytes: int) -> Iterator[Path]:
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(place)]
    done = subprocess.run(mount, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Skipped(f"a tmpfs cannot be mounted here ({done.stderr.strip()})")
    try:
        yield place
    finally:
        subprocess.run(["umount", str(place)], check=True)


def train(data: Path, out: Path, *words: str) -> list[str | Path]:
    return ["train", data, "--method", "normal", *SMALL, "--out", out, *words]


def is_whole(folder: Path) -> bool:
    """Whether a run folder loads and recommends."""
    import accord as library

    try:
        return bool(library.Recommender.load(folder).recommend(k=3).num_rows)
    except library.InputError:
        return False


# --- the faults: each gives what was kept, and how the command ended


def fill(disk: Path, but: int) -> Path:
    """Leave so many bytes of a disk."""
    free = os.statvfs(disk)
    (disk / "filler").write_bytes(b"x" * (free.f_bavail * free.f_frsize - but))
    return disk / "filler"


def disk_full(root: Path) -> tuple[End, str]:
    data = clicks(root)
    with full_disk(root / "disk", 8) as disk:
        filler = fill(disk, but=100_000)
        end = accord(*train(data, disk / "run", "--set", "model.dim=64"), folder=root)
        assert end.code == 2, end.said
        assert "disk is full" in end.said
        assert not list((disk / "run").glob(".*")), "temporary files are left on a full disk"
        filler.unlink()
        left = [] if not list((disk / "run").glob("checkpoint-*")) else ["--resume"]
        again = accord(*train(data, disk / "run", *left, "--set", "model.dim=64"), folder=root)
        assert again.code == 0, again.said
        assert is_whole(disk / "run")
    return end, "with free space, the same command continues to its end"


def disk_full_over_a_finished_run(root: Path) -> tuple[End, str]:
    """A run that is replaced while the disk is full: the old one is gone only when the new one is there."""
    data = clicks(root)
    with full_disk(root / "disk", 8) as disk:
        assert accord(*train(data, disk / "run"), folder=root).code == 0
        fill(disk, but=8_192)
        end = accord(*train(data, disk / "run", "--overwrite"), folder=root)
        assert end.code == 2, end.said
        assert "disk is full" in end.said
        kept = is_whole(disk / "run")
    assert kept, "the finished run is lost"
    return end, "the finished run is still there and whole"


def read_only(root: Path) -> tuple[End, str]:
    data = clicks(root)
    with full_disk(root / "disk", 8) as disk:
        assert accord(*train(data, disk / "run"), folder=root).code == 0
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        end = accord(*train(data, disk / "run", "--overwrite"), folder=root)
        other = accord(*train(data, disk / "other"), folder=root)
        assert end.code == other.code == 2, end.said
        assert is_whole(disk / "run")
    return end, "the run that was there is untouched"


def vanished_input(root: Path) -> tuple[End, str]:
    data = clicks(root)
    assert accord(*train(data, root / "run"), folder=root).code == 0
    data.unlink()
    end = accord(*train(data, root / "run", "--overwrite"), folder=root)
    assert end.code == 2, end.said
    assert is_whole(root / "run")
    return end, "the run that was there is untouched"


def vanished_while_trained(root: Path) -> tuple[End, str]:
    """The file goes as soon as it is read: training does not need it any more."""
    data = clicks(root)

    def vanish() -> None:
        from accord.cli import train as command

        load = command.load_data

        def vanishing(*arguments: Any) -> Any:
            made = load(*arguments)
            data.unlink()
            return made

        command.load_data = vanishing

    end = accord(*train(data, root / "run"), folder=root, before=vanish)
    assert end.code == 0, end.said
    assert not data.exists()
    assert is_whole(root / "run")
    return end, "the run is finished and complete"


def go_backwards() -> None:
    real, looks = time.time, iter(range(10**9))
    time.time = lambda: real() - 3600.0 * next(looks)
    time.time_ns = lambda: int(time.time() * 1e9)


def clock_backwards(root: Path) -> tuple[End, str]:
    data = clicks(root)
    assert accord(*train(data, root / "usual"), folder=root).code == 0
    end = accord(*train(data, root / "run"), folder=root, before=go_backwards)
    assert end.code == 0, end.said
    one, other = ((root / name / "model.safetensors").read_bytes() for name in ("usual", "run"))
    assert one == other, "the weights depend on the clock"
    return end, "the same weights, bit for bit"


def two_processes(root: Path) -> tuple[End, str]:
    """Both are started at once on one folder: one writes, the other is refused."""
    data = clicks(root)
    words = train(data, root / "run", "--overwrite", "--set", "train.early_stop=false")
    words[words.index("3")] = "60"
    first = multiprocessing.get_context("fork").Process(target=killing.accord(*words))
    first.start()
    while not list(root.glob("run/checkpoint-*")) and first.is_alive():
        time.sleep(0.01)
    assert first.pid is not None
    os.kill(first.pid, signal.SIGSTOP)  # it holds the folder for as long as is needed
    end = accord(*train(data, root / "run", "--overwrite"), folder=root)
    os.kill(first.pid, signal.SIGCONT)
    first.join()
    assert end.code == 2, end.said
    assert "another process" in end.said
    assert first.exitcode == 0
    assert is_whole(root / "run")
    return end, "the first continues to its end, and its run is complete"


FAULTS: dict[str, Callable[[Path], tuple[End, str]]] = {
    "the disk is full while training": disk_full,
    "the disk is full while a finished run is replaced": disk_full_over_a_finished_run,
    "the folder cannot be written to": read_only,
    "the input is gone": vanished_input,
    "the input goes while it is trained on": vanished_while_trained,
    "the clock goes back an hour at every look": clock_backwards,
    "two processes on one folder": two_processes,
}


def main() -> int:
    table = Table("Faults", ["fault", "exit", "message", "what is kept"])
    bad = 0
    killing.warm()
    for name, fault in FAULTS.items():
        with tempfile.TemporaryDirectory(prefix="accord-fault-") as folder:
            root = Path(folder)
            try:
                end, kept = fault(root)
                row = [name, end.code, end.sentence.replace(str(root) + "/", ""), kept]
                bad += "Traceback" in end.said
            except Skipped as reason:
                row = [name, "", "", f"not tried: {reason}"]
            except AssertionError as error:
                row, bad = [name, "", "", f"**{str(error)[:300]}**"], bad + 1
        table.rows.append(row)
        print(*row, sep=" | ", flush=True)
    how = ["`python stress/faults.py`: each in a process of its own, on a log of a few thousand interactions."]
    Found("Faults of the environment", how, [table], made=stamp(killing.SEED)).write("faults")
    print(table_as_text(table))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
