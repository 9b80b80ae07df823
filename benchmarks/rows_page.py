"""What docs/performance.md says of large tables on a GPU: gpu-rows.jsonl, which `gpu_rows.py` prints."""

from __future__ import annotations

import json

import numpy as np
from figures import HERE, Results, table

FORMS = {"adam": "Adam", "all rows": "decoupled, all rows", "by rows": "decoupled, row by row"}
LOGS = {"adressa": "Adressa", "electronics-shape": "Electronics' shape"}


def measured() -> tuple[Results, list[Results]]:
    """What it was measured on, and the epochs."""
    on, *lines = (json.loads(line) for line in (HERE / "gpu-rows.jsonl").read_text(encoding="utf-8").splitlines())
    return on, lines


def by_log(lines: list[Results]) -> dict[str, dict[str, Results]]:
    logs: dict[str, dict[str, Results]] = {}
    for line in lines:
        logs.setdefault(line["log"], {})[line["form"]] = line
    return logs


def rows_table() -> str:
    cells = []
    for log, forms in by_log(measured()[1]).items():
        one = forms["by rows"]
        shape = [f"{one[name]:,}" for name in ("interactions", "users", "items")]
        steps = [f"{1e3 * forms[form]['step']:.3f}" for form in FORMS]
        epochs = [f"{forms[form]['epoch']:.3g}" for form in FORMS]
        memory = f"{one['gigabytes']:.2f} GB" if one["tables_by_rows"] else "as before"
        cells.append([LOGS.get(log, "generated"), *shape, " / ".join(steps), " / ".join(epochs), memory])
    head = ["", "interactions", "users", "items", "ms a step", "s an epoch", "memory, row by row"]
    return table(head, cells)


def slope(form: str) -> float:
    """Of the seconds of an epoch against interactions, both as logarithms, on the generated logs."""
    lines = [line for line in measured()[1] if line["form"] == form and line["log"] not in LOGS]
    sizes, cost = (np.log([line[name] for line in lines]) for name in ("interactions", "epoch"))
    return float(np.polyfit(sizes, cost, 1)[0])


def sentence() -> str:
    largest = list(by_log(measured()[1]).values())[-1]
    took = {form: largest[form]["epoch"] for form in FORMS}
    return (
        f"With {largest['adam']['interactions'] / 1e6:.1f} million interactions an epoch takes {took['by rows']:.1f} s"
        f" row by row, {took['all rows']:.0f} s with all rows and {took['adam']:.0f} s with Adam. Over the generated"
        f" logs the slope of the cost on log-log axes is {slope('by rows'):.2f}, {slope('all rows'):.2f} and"
        f" {slope('adam'):.2f}."
    )
