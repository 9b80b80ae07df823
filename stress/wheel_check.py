"""The wheel in an empty environment, as a user gets it: `python stress/wheel_check.py [PYTHON ...]`, after `make dist`.

For each Python, this one if none is named: a new environment, `pip install` of the wheel in dist/ with constraints.txt
and without extras, and then the demo, a training, its recommendations and its report in an empty folder. No other file
of the repository is in reach.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent
LOG = "user,item\n" + "".join(f"u{n % 50},i{(n + n // 50 * 7) % 40}\n" for n in range(400))
COMMANDS = {  # and what each leaves
    "demo --seeds 1": "runs/demo/report.html",
    "train clicks.csv --model ease --out runs/clicks": "runs/clicks/metrics.json",
    "recommend runs/clicks --all --out lists.csv": "lists.csv",
    "report runs/clicks --output page.html": "page.html",
}


class Trouble(Exception):
    """What went wrong, in a sentence."""


def try_out(python: str, wheel: Path, place: Path) -> None:
    """Install the wheel for one Python in an empty folder, and run every command there."""
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    _run([python, "-m", "venv", str(place / "venv")], place, environment)
    pip = [str(place / "venv" / "bin" / "pip"), "install", "--quiet", "--no-compile", "--disable-pip-version-check"]
    _run([*pip, "--constraint", str(ROOT / "constraints.txt"), str(wheel)], place, environment)
    work = place / "work"
    work.mkdir()
    (work / "clicks.csv").write_text(LOG)
    for command, left in COMMANDS.items():
        _run([str(place / "venv" / "bin" / "accord"), *command.split()], work, environment)
        if not (work / left).is_file():
            raise Trouble(f"`accord {command}` left no {left}.")


def _run(words: list[str], folder: Path, environment: dict[str, str]) -> None:
    began = time.perf_counter()
    done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Trouble(f"{' '.join(words)} ended with {done.returncode}:\n{(done.stdout + done.stderr)[-2000:]}")
    print(f"  {time.perf_counter() - began:5.1f} s  {' '.join([Path(words[0]).name, *words[1:]])}", flush=True)


def main(pythons: list[str]) -> int:
    wheels = sorted((ROOT / "dist").glob("*.whl"))
    if len(wheels) != 1:
        print(f"dist/ has {len(wheels)} wheels, and one is needed; empty it and run `make dist`.", file=sys.stderr)
        return 2
    for python in pythons or [sys.executable]:
        print(f"{wheels[0].name} with {python}", flush=True)
        with tempfile.TemporaryDirectory() as name:
            try:
                try_out(python, wheels[0], Path(name))
            except (Trouble, OSError) as error:
                print(f"  wrong: {error}", file=sys.stderr)
                return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
