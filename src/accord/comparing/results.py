"""Raw results as they finish: one JSON line per run, and a Parquet file with the metrics of every user."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from accord.data.csr import Floats
from accord.errors import InputError
from accord.io.files import file_inside, replacing
from accord.io.parquet import read_table

IDENTITY = ("dataset", "data", "model", "method", "seed", "protocol", "settings")

PerUser = Mapping[str, Floats]  # each metric as [runs, users]


def run_key(result: Mapping[str, Any]) -> str:
    """Identifies a run: two results with the same key are of the same run."""
    identity = json.dumps({name: result[name] for name in IDENTITY}, sort_keys=True)
    return hashlib.sha256(identity.encode()).hexdigest()[:16]


class Results:
    """`NAME.jsonl` and `NAME.per_user.parquet` in a folder. Lines are only added, all runs of a batch at a time."""

    def __init__(self, folder: Path, name: str = "results") -> None:
        self.folder, self.name, self.file = folder, name, folder / f"{name}.jsonl"
        self.per_user_file, self.parts = folder / f"{name}.per_user.parquet", folder / f"{name}.per_user"

    def read(self) -> list[dict[str, Any]]:
        """Every finished run. A last line that was cut short does not count, and is removed."""
        if not self.file.exists():
            return []
        try:
            lines = file_inside(self.file).read_text(encoding="utf-8").splitlines(keepends=True)
        except UnicodeDecodeError as error:
            raise InputError(f"{self.file} is damaged ({error}); remove it and start again.") from None
        if lines and not lines[-1].endswith("\n"):
            lines.pop()
            _write_text(self.file, lines)
        results = []
        for number, line in enumerate(lines, 1):
            try:
                results.append(json.loads(line))
                run_key(results[-1])
            except (ValueError, RecursionError, LookupError, TypeError):
                raise InputError(f"{self.file}, line {number}, is damaged; remove that line and start again.") from None
        return results

    def by_key(self) -> dict[str, dict[str, Any]]:
        return {run_key(result): result for result in self.read()}

    def add(self, results: Sequence[dict[str, Any]], per_user: PerUser) -> None:
        """Add finished runs; `per_user` is in the order of the users of the test, and may be empty."""
        keys = [run_key(result) for result in results]
        if per_user:
            table = pa.table({"run": keys, **{name: list(values) for name, values in per_user.items()}})
            _write(table, self.parts / f"{keys[0]}.parquet")
        before = [self.file.read_text()] if self.file.exists() else []
        _write_text(self.file, [*before, *(json.dumps(result) + "\n" for result in results)])

    def arrange(self, keys: Sequence[str]) -> None:
        """Put these runs into this order; other runs stay where they are."""
        place = {key: number for number, key in enumerate(keys)}
        lines = self.read()
        chosen = [number for number, line in enumerate(lines) if run_key(line) in place]
        ordered = sorted((lines[number] for number in chosen), key=lambda line: place[run_key(line)])
        arranged = dict(enumerate(lines)) | dict(zip(chosen, ordered, strict=True))
        if [*arranged.values()] != lines:
            keep_lines(self.file, [*arranged.values()])

    def per_user(self, metric: str) -> dict[str, Floats]:
        """A metric of every user, by the key of the run."""
        users = {}
        for path in self._per_user_files():
            table = read_table(path)
            for key, values in zip(table.column("run").to_pylist(), table.column(metric), strict=True):
                users[key] = np.asarray(values.values)
        return users

    def merge_per_user(self) -> None:
        if not self.parts.exists():
            return
        tables = [read_table(path) for path in self._per_user_files()]
        last = {key: number for number, key in enumerate(key for t in tables for key in t.column("run").to_pylist())}
        _write(pa.concat_tables(tables).take(pa.array(sorted(last.values()))), self.per_user_file)
        shutil.rmtree(self.parts)

    def _per_user_files(self) -> list[Path]:
        merged = [self.per_user_file] if self.per_user_file.exists() else []
        return [*merged, *sorted(self.parts.glob("*.parquet"))]


def _write(table: pa.Table, path: Path) -> None:
    with replacing(path) as temporary:
        pq.write_table(table, temporary, compression="zstd")  # few values differ, so a dictionary is small


def read_lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def keep_lines(file: Path, lines: Sequence[Mapping[str, Any]]) -> None:
    _write_text(file, [json.dumps(line) + "\n" for line in lines])


def _write_text(file: Path, lines: Sequence[str]) -> None:
    with replacing(file) as temporary:  # a kill leaves all lines or none
        temporary.write_text("".join(lines))
