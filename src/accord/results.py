"""Raw results as they finish: a JSON line a run, and beside it what every user got. All else is rendered from them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from accord.errors import InputError
from accord.files import read_table, replacing

IDENTITY = ("dataset", "data", "model", "method", "seed", "protocol", "settings")


def run_key(result: Mapping[str, Any]) -> str:
    """What a run is, in a few letters: two results with the same key are the same run."""
    said = json.dumps({name: result[name] for name in IDENTITY}, sort_keys=True)
    return hashlib.sha256(said.encode()).hexdigest()[:16]


class Results:
    """`NAME.jsonl` in a folder, with `per_user/` beside it. Lines are only added, a whole stack of runs at a time."""

    def __init__(self, folder: Path, name: str = "results") -> None:
        self.folder, self.file = folder, folder / f"{name}.jsonl"

    def read(self) -> list[dict[str, Any]]:
        """Every finished run. A last line that was cut short by a kill is not there yet, and is removed."""
        if not self.file.exists():
            return []
        lines = self.file.read_text().splitlines(keepends=True)
        if lines and not lines[-1].endswith("\n"):
            lines.pop()
            with replacing(self.file) as temporary:
                temporary.write_text("".join(lines))
        results = []
        for number, line in enumerate(lines, 1):
            try:
                results.append(json.loads(line))
            except json.JSONDecodeError:
                raise InputError(f"{self.file}, line {number}, is damaged; remove that line and start again.") from None
        return results

    def by_key(self) -> dict[str, dict[str, Any]]:
        return {run_key(result): result for result in self.read()}

    def add(self, results: Sequence[dict[str, Any]], per_user: Mapping[str, npt.NDArray[np.float64]]) -> None:
        """Add finished runs; `per_user` has each metric as [runs, users], in the order of the test's users."""
        keys = [run_key(result) for result in results]
        table = pa.table({"run": keys, **{name: list(values) for name, values in per_user.items()}})
        with replacing(self.folder / "per_user" / f"{keys[0]}.parquet") as path:
            pq.write_table(table, path)
        before = self.file.read_text() if self.file.exists() else ""
        with replacing(self.file) as temporary:  # a kill leaves all runs of the stack or none
            temporary.write_text(before + "".join(json.dumps(result) + "\n" for result in results))

    def per_user(self, metric: str) -> dict[str, npt.NDArray[np.float64]]:
        """What every user got of a metric, by run."""
        found = {}
        for path in sorted((self.folder / "per_user").glob("*.parquet")):
            table = read_table(path)
            for key, values in zip(table.column("run").to_pylist(), table.column(metric), strict=True):
                found[key] = np.asarray(values.values)
        return found
