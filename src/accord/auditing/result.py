"""The result of an audit: its tables, its summary, and the folder they are written to."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from accord.auditing.clean_log import Cleaned, write_clean, write_table
from accord.auditing.interaction_log import Log
from accord.auditing.page import write_page
from accord.io.files import replacing, write_json
from accord.io.notebook import as_html

WORK = "unfinished"  # folder inside the audit folder: the finished steps of an interrupted audit
TABLES = ("interactions", "users", "items")


@dataclass(frozen=True)
class Audit:
    """The result of an audit: its tables, and a summary whose keys docs/files.md describes.

    >>> result = accord.audit(accord.simulate(users=60, items=40, interactions=700, liked=0.4).dataset, seeds=1)
    >>> result.interactions.column_names[:3]
    ['user', 'item', 'p_real']
    """

    log: Log
    interactions: pa.Table
    users: pa.Table
    items: pa.Table
    summary: dict[str, Any]
    to_label: pa.Table  # what to label next, then what is labelled: a file for `labels` once it is filled in

    def __repr__(self) -> str:
        data, noise = self.summary["data"], self.summary["noise"] or {}
        rate = f"; noise rate {noise['rate']:.0%} ({noise['low']:.0%} to {noise['high']:.0%})" if noise else ""
        return f"Audit({data['name']}: {data['interactions']:,} interactions{rate})"

    def _repr_html_(self) -> str:
        findings = [(one["level"], one["title"], one["advice"]) for one in self.summary["health"]["findings"]]
        verdict = self.summary["verdict"] or {}
        return as_html(repr(self), findings, ("", "finding", "advice"), verdict.get("sentence", ""))

    def save(self, folder: str | Path) -> Path:
        """Write the audit folder. `summary.json` is written last: a folder without it is not finished."""
        folder = Path(folder)
        (folder / "summary.json").unlink(missing_ok=True)
        for name in TABLES:
            with replacing(folder / f"{name}.parquet") as path:
                pq.write_table(getattr(self, name), path)
        write_table(folder / "to_label.csv", self.to_label)
        write_page(folder / "report.html", self.summary, self.log)
        write_json(folder / "summary.json", self.summary)
        shutil.rmtree(folder / WORK, ignore_errors=True)
        return folder

    def write_clean(self, path: str | Path, drop_below: float = 0.5, weights: bool = False) -> Cleaned:
        """Write the log without the interactions whose p_real is below `drop_below`, or all with p_real as weight."""
        return write_clean(Path(path), self.log, self.interactions, drop_below, weights)


def is_unfinished(folder: Path) -> bool:
    """Whether an audit was begun here and not finished; the finished one that it replaces may still exist."""
    return (folder / WORK).exists()
