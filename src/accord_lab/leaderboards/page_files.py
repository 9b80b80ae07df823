"""The files behind a page: NAME.jsonl holds the runs, NAME.json says which runs make up each row."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from accord.comparing.compare import Line
from accord.comparing.results import Results
from accord.errors import InputError
from accord.io.files import read_json


def read_entries(folder: Path, name: str) -> dict[str, Any]:
    """What NAME.json says of every dataset; empty where nothing was finished yet."""
    file = folder / f"{name}.json"
    return dict(read_json(file)) if file.exists() else {}


def read_page_files(folder: Path, name: str) -> tuple[dict[str, Any], dict[str, Line]]:
    """The entries of NAME.json by dataset, and the runs that they name by key."""
    entries, lines = read_entries(folder, name), Results(folder, name).by_key()
    if not entries:
        raise InputError(
            f"{folder}/{name}.json does not exist: nothing was finished in this folder; run without --render-only."
        )
    for dataset, entry in entries.items():
        if not _keys(entry) <= set(lines):
            raise InputError(f"{folder}/{name}.jsonl lacks runs of {dataset} that {name}.json names; run it again.")
    return entries, lines


def _keys(entry: Mapping[str, Any]) -> set[str]:
    rows = entry["rows"]
    per_row = rows.values() if isinstance(rows, dict) else [row["runs"] for row in rows]
    return {key for keys in per_row for key in keys} | ({entry["told"]} if entry.get("told") else set())
