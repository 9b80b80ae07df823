"""Whether the files on the disk are complete, and equal to those that an undisturbed process wrote."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any


def weights_of(folder: Path) -> str:
    from accord.io.tensors import read_tensors

    tensors, _ = read_tensors(folder / "model.safetensors")
    made = hashlib.sha256()
    for name in sorted(tensors):
        made.update(name.encode() + tensors[name].numpy().tobytes())
    return made.hexdigest()


def run_is_right(reference: Path, folder: Path) -> bool:
    """Whether a run folder loads; if it does, it must equal the reference bit for bit."""
    import accord as library

    try:
        loaded = library.Recommender.load(folder)
    except library.InputError:
        return False
    assert weights_of(folder) == weights_of(reference), f"{folder.name} loads, but its weights are others"
    assert loaded.metrics["mean"] == json.loads((reference / "metrics.json").read_text())["mean"], "other metrics"
    losses = [[entry["loss"], entry.get("valid")] for entry in loaded.history]
    other = [json.loads(line) for line in (reference / "log.jsonl").read_text().splitlines()]
    assert losses == [[entry["loss"], entry.get("valid")] for entry in other], "another history"
    return True


def lines_of(folder: Path, name: str) -> dict[str, Any]:
    from accord.comparing.results import Results

    return {key: line | {"seconds": 0} for key, line in Results(folder, name).by_key().items()}


def results_are_right(reference: Path, folder: Path, name: str, last: str) -> bool:
    """Whether all results are there; all that are must equal the reference. `last`: a file written from them."""
    found, expected = lines_of(folder, name), lines_of(reference, name)
    for key, line in found.items():
        assert line == expected[key], f"{name}.jsonl has another result for {line['model']} + {line['method']}"
    if set(found) != set(expected) or not (folder / last).exists():
        return False
    assert list(found) == list(expected), "the lines are in another order"
    assert (folder / last).read_text() == (reference / last).read_text(), f"{last} differs"
    return True


def audit_is_right(reference: Path, folder: Path) -> bool:
    import pyarrow.parquet as pq

    summary = folder / "summary.json"
    if not summary.exists():
        return False
    found, expected = (json.loads((one / "summary.json").read_text()) for one in (folder, reference))
    for part in ("health", "noise", "detection", "verdict"):
        assert found[part] == expected[part], f"the summary has another {part}"
    for name in ("interactions", "users", "items"):
        one, other = (pq.read_table(place / f"{name}.parquet") for place in (folder, reference))
        assert one.equals(other), f"{name}.parquet differs"
    return not (folder / "unfinished").exists()
