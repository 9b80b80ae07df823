"""Deliberate bugs, and whether the tests notice them: `make mutants`. Each is put into a copy of the source.

python stress/mutants.py            every one
python stress/mutants.py tuning     those whose name has this in it
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
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


MUTANTS = (
    Mutant(
        "tuning by the test",
        "../accord_lab/comparing/tuning.py",
        'result["valid_ndcg@20"] for',
        'result["metrics"]["ndcg@20"] for',
        "lab/comparing/test_tuning.py",
    ),
    Mutant(
        "a copy instead of a rename",
        "io/files.py",
        "temporary.replace(path)",
        "shutil.copyfile(temporary, path)",
        "io/test_files.py",
    ),
    Mutant("no sync of a file", "io/files.py", "        sync(temporary)\n", "", "io/test_files.py"),
    Mutant("no sync of a name", "io/files.py", "        sync(path.parent)\n", "", "io/test_files.py"),
    Mutant("no sync between the files of a run", "io/files.py", "        sync(folder)\n", "", "io/test_files.py"),
    Mutant(
        "a fingerprint of the training part",
        "comparing/compare.py",
        "(self.data.train, self.data.valid, self.data.test)",
        "(self.data.train,)",
        "comparing/test_compare.py",
    ),
    Mutant(
        "a bootstrap of one draw more",
        "evaluation/significance.py",
        "max(1, size - 1)",
        "size",
        "evaluation/test_significance.py",
    ),
    Mutant(
        "an interval of one opinion",
        "posteriors/estimate.py",
        " / np.sqrt(len(opinions))",
        "",
        "posteriors/test_estimate.py",
    ),
    Mutant(
        "ties are the lowest",
        "posteriors/features.py",
        "rng.random(len(scores)) * (up_to - below)",
        "0 * (up_to - below)",
        "posteriors/test_features.py",
    ),
    Mutant("nothing left to train on", "data/split.py", "counts - 1 - test", "counts - test", "data/test_split.py"),
    Mutant(
        "as good is better",
        "training/trainer.py",
        "values[run] > state.best[run]:",
        "values[run] >= state.best[run]:",
        "training/test_stopping.py",
    ),
    Mutant(
        "no manifest",
        "recommender/run_folder.py",
        "if not (folder / MANIFEST).exists():",
        "if True:",
        "recommender/test_run_folder.py",
    ),
    Mutant(
        "the network, offline", "data/download.py", "    if is_offline():\n", "    if False:\n", "data/test_download.py"
    ),
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
