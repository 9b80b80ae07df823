"""What other libraries reach: the table of docs/compare.md and the sentence of the README, from the raw results."""

from __future__ import annotations

import json
from typing import Any

from documents import ROOT

LIBRARIES = ("implicit", "RecTools", "LightFM")


def raw(name: str) -> list[dict[str, Any]]:
    lines = (ROOT / "benchmarks" / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def test_the_table_is_that_of_the_raw_results() -> None:
    peers: dict[str, dict[str, dict[str, Any]]] = {}
    for line in raw("peers"):
        peers.setdefault(line["log"], {})[line["library"]] = line
    auto = {line["log"]: line["test"]["ndcg@20"] for line in raw("auto")}
    table, gains = ["| NDCG@20 | `auto` | " + " | ".join(LIBRARIES) + " |", "|---|---|---|---|---|"], []
    for log, found in peers.items():
        if found.keys() == {*LIBRARIES}:
            figures = [auto[log], *(found[library]["test"] for library in LIBRARIES)]
            models = ["", *(f" ({found[library]['options']['model']})" for library in LIBRARIES)]
            cells = (
                f"**{f:.4f}**{m}" if f == max(figures) else f"{f:.4f}{m}" for f, m in zip(figures, models, strict=True)
            )
            table.append(f"| {log} | " + " | ".join(cells) + " |")
            gains.append(100 * (auto[log] / max(figures[1:]) - 1))
    assert "\n".join(table) in (ROOT / "docs" / "compare.md").read_text(encoding="utf-8"), "\n".join(table)
    said = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    assert f"[{min(gains):.0f} to {max(gains):.0f}% above](docs/compare.md#other-libraries) implicit" in said
