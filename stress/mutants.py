"""The deliberate bugs of mutants.toml, and whether the tests notice them: `make mutants`. Each is put into a copy.

python stress/mutants.py            every one
python stress/mutants.py tuning     those whose name has this in it
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Mutant:
    """One line changed in one file, and the tests that a person would expect to notice."""

    name: str
    file: str
    old: str
    new: str
    tests: str


MUTANTS = tuple(
    Mutant(**one) for one in tomllib.loads((ROOT / "stress" / "mutants.toml").read_text(encoding="utf-8"))["mutant"]
)


def survives(mutant: Mutant, place: Path) -> bool:
    """Whether the tests pass although there is a bug."""
    source = place / "src"
    shutil.copytree(ROOT / "src", source, ignore=shutil.ignore_patterns("__pycache__"))
    path = source / "accord" / mutant.file
    text = path.read_text(encoding="utf-8")
    assert mutant.old in text, f"'{mutant.name}': {mutant.file} has no {mutant.old!r}"
    path.write_text(text.replace(mutant.old, mutant.new), encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", f"tests/{mutant.tests}"]
    environment = {**os.environ, "PYTHONPATH": str(source), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, check=False).returncode == 0


def main(wanted: str = "") -> int:
    alive = []
    for mutant in (one for one in MUTANTS if wanted in one.name):
        with tempfile.TemporaryDirectory() as place:
            if survives(mutant, Path(place)):
                alive.append(mutant.name)
        print(f"{'SURVIVED' if mutant.name in alive else 'noticed'}: {mutant.name}", flush=True)
    return len(alive)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:2]))
