"""Weights in other libraries: the examples run where these are installed, and the page is what its lines say."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import accord
from helpers import script

ROOT = Path(__file__).parents[2]
PYTHONS = (ROOT / ".elsewhere-venv" / "bin" / "python", Path(sys.executable))
FOLDER = ROOT / "docs" / "reproduction" / "elsewhere"


def elsewhere():
    return script(ROOT / "benchmarks" / "elsewhere.py", "elsewhere")


def has(python: Path, library: str) -> bool:
    code = f"import pandas, pyarrow, {library}"
    return python.exists() and subprocess.run([python, "-c", code], capture_output=True, check=False).returncode == 0


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    """What `accord weights` writes of a small log."""
    data = accord.simulate(users=120, items=80, interactions=2000, seed=1).dataset
    value = data.train.column("value").astype(float)
    label = pa.array(np.where(np.arange(len(value)) % 4 == 0, value, np.nan), from_pandas=True)
    found = accord.posterior(pa.table({"user": data.train.users, "item": data.train.items, "label": label}))
    file = tmp_path_factory.mktemp("weights") / "weights.parquet"
    pq.write_table(found.table, file)
    return file


@pytest.mark.parametrize("library", ["implicit", "rectools", "lightgbm"])
def test_examples_recommend_with_weights_and_without(library, weights):
    python = next((python for python in PYTHONS if has(python, library)), None)
    if python is None:
        pytest.skip(f"{library} is not installed; make .elsewhere-venv/.ready installs it")
    command = [python, "-W", "ignore", ROOT / "docs" / "examples" / f"weights_{library}.py", weights]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    without, with_them = done.stdout.splitlines()[-2:]
    log = pq.read_table(weights).to_pandas()
    mine = set(log.loc[log["user"] == log["user"].iloc[0], "item"].astype(str))
    for line, said in ((without, "without:"), (with_them, "with weights:")):
        assert line.startswith(said)
        items = line.removeprefix(said).split()
        assert len(items) == len(set(items)) == 5
        assert not mine & set(items), "nobody is shown what they have"


def test_ndcg_is_by_hand():
    made = pd.DataFrame({"user": [1, 1, 1, 2], "item": [10, 11, 12, 10]})
    relevant = pd.DataFrame({"user": [1, 1, 3], "item": [11, 13, 10]})
    found = elsewhere().ndcg(made, relevant)
    assert found.to_dict() == pytest.approx({1: (1 / np.log2(3)) / (1 + 1 / np.log2(3)), 3: 0.0})


def test_the_committed_page_is_what_its_raw_lines_say(tmp_path):
    for file in FOLDER.glob("*.jsonl"):
        (tmp_path / file.name).write_text(file.read_text())
    elsewhere().page(tmp_path)
    assert (tmp_path / "elsewhere.md").read_text() == (FOLDER / "elsewhere.md").read_text()


def test_what_the_docs_say_is_what_was_measured():
    lines = [json.loads(line) for line in (FOLDER / "elsewhere.jsonl").read_text().splitlines()]
    assert elsewhere().sentence(lines) in " ".join((ROOT / "docs" / "labels.md").read_text().split())
