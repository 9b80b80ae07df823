"""Faults of the surroundings, one by one: disk full, read-only folder, vanished input, a clock that goes backwards, two
processes on one folder. Each ends in one sentence, and nothing that was there before is lost.

    python torture/faults.py

The disk is a tmpfs of two megabytes, which only root can mount; a folder cannot be made read-only for root, so that
it is tried as another user. What cannot be tried here is said.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from record import Found, Table, table_as_text

NOBODY = 65534
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


def accord(*words: str | Path, folder: Path, user: int | None = None, prelude: str = "") -> End:
    """A command as a user types it. `prelude`: Python that is run in its process before."""
    code = f"import sys\n{prelude}\nfrom accord.cli import main\nmain()"
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, words)],
        cwd=folder, user=user, capture_output=True, text=True, check=False,
        env=os.environ | {"OMP_NUM_THREADS": "1", "HOME": str(folder), "NUMBA_CACHE_DIR": str(folder / "numba")},
    )  # fmt: skip
    return End(done.returncode, done.stdout + done.stderr)


def clicks(folder: Path, interactions: int = 3_000) -> Path:
    code = (
        "import accord, pyarrow.csv as c, sys; d = accord.simulate(users=200, items=120, "
        "interactions=int(sys.argv[2]), seed=4).dataset; "
        "c.write_csv(d.train.table.select(['user', 'item']), sys.argv[1])"
    )
    path = folder / "clicks.csv"
    subprocess.run([sys.executable, "-c", code, str(path), str(interactions)], check=True)
    return path


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
    code = "import accord, sys; print(accord.Recommender.load(sys.argv[1]).recommend(k=3).num_rows)"
    done = subprocess.run([sys.executable, "-c", code, str(folder)], capture_output=True, text=True, check=False)
    return done.returncode == 0 and int(done.stdout) > 0


# --- the faults: each gives what was kept, and how the command ended


def disk_full(root: Path) -> tuple[End, str]:
    data = clicks(root)
    with full_disk(root / "disk", 1) as disk:
        (disk / "filler").write_bytes(b"x" * 900_000)
        end = accord(*train(data, disk / "run", "--set", "model.dim=64"), folder=root)
        assert end.code == 2, end.said
        assert "disk is full" in end.said
        assert not list((disk / "run").glob(".*")), "temporary files are left on a full disk"
        (disk / "filler").unlink()
        again = accord(*train(data, disk / "run", "--resume", "--set", "model.dim=64"), folder=root)
        assert again.code == 0, again.said
        assert is_whole(disk / "run")
    return end, "with room, the same command goes on to its end"


def disk_full_over_a_finished_run(root: Path) -> tuple[End, str]:
    """A run that is replaced while the disk is full: the old one is gone only when the new one is there."""
    data = clicks(root)
    with full_disk(root / "disk", 1) as disk:
        assert accord(*train(data, disk / "run"), folder=root).code == 0
        free = os.statvfs(disk)
        (disk / "filler").write_bytes(b"x" * (free.f_bavail * free.f_frsize - 8_192))
        end = accord(*train(data, disk / "run", "--overwrite"), folder=root)
        assert end.code == 2, end.said
        assert "disk is full" in end.said
        kept = is_whole(disk / "run")
    assert kept, "the finished run is lost"
    return end, "the finished run is still there and whole"


def read_only(root: Path) -> tuple[End, str]:
    if os.getuid() != 0:
        raise Skipped("needs root, to become another user")
    data = clicks(root)
    closed = root / "closed"
    closed.mkdir()
    root.chmod(0o755)
    for path in (closed, *closed.parents):
        if not os.access(path, os.X_OK):
            raise Skipped("another user cannot reach the folder")
    end = accord(*train(data, closed / "run"), folder=root, user=NOBODY)
    assert end.code == 2, end.said
    return end, "nothing was written"


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
    prelude = f"""
import pathlib, accord.data.read as read
load = read.load
def vanishing(*arguments, **options):
    made = load(*arguments, **options)
    pathlib.Path({str(data)!r}).unlink(missing_ok=True)
    return made
read.load = vanishing
"""
    end = accord(*train(data, root / "run"), folder=root, prelude=prelude)
    assert end.code == 0, end.said
    assert not data.exists()
    assert is_whole(root / "run")
    return end, "the run is finished and whole"


BACKWARDS = """
import time
real, called = time.time, [0]
def backwards():
    called[0] += 1
    return real() - 3600.0 * called[0]
time.time = backwards
time.time_ns = lambda: int(backwards() * 1e9)
"""


def clock_backwards(root: Path) -> tuple[End, str]:
    data = clicks(root)
    assert accord(*train(data, root / "usual"), folder=root).code == 0
    end = accord(*train(data, root / "run"), folder=root, prelude=BACKWARDS)
    assert end.code == 0, end.said
    one, other = ((root / name / "model.safetensors").read_bytes() for name in ("usual", "run"))
    assert one == other, "the weights depend on the clock"
    return end, "the same weights, bit for bit"


def two_processes(root: Path) -> tuple[End, str]:
    """Both are started at once on one folder: one writes, the other is told."""
    data = clicks(root)
    words = train(data, root / "run", "--overwrite", "--set", "train.early_stop=false")
    words[words.index("3")] = "60"
    command = [sys.executable, "-m", "accord", *map(str, words)]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    with subprocess.Popen(
        command, cwd=root, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as first:
        deadline = time.monotonic() + 300
        while not list(root.glob("run/checkpoint-*")) and time.monotonic() < deadline and first.poll() is None:
            time.sleep(0.01)
        end = End(0, "")
        with contextlib.suppress(InterruptedError):
            first.send_signal(19)  # SIGSTOP: it holds the folder for as long as is needed
            end = accord(*train(data, root / "run", "--overwrite"), folder=root)
            first.send_signal(18)  # SIGCONT
        said, _ = first.communicate()
    assert end.code == 2, end.said
    assert "another process" in end.said
    assert first.returncode == 0, said.decode()
    assert is_whole(root / "run")
    return end, "the first goes on to its end, and its run is whole"


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
    table = Table("Faults", ["fault", "exit", "what is said", "what is kept"])
    bad = 0
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
    how = ["`python torture/faults.py`: each in a process of its own, on a log of 3,000 interactions."]
    Found("Faults of the surroundings", how, [table]).write("faults")
    print(table_as_text(table))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
