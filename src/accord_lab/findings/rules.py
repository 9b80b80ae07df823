"""What was tried where the paper does not say what it ran, and on how many of its values each way lands."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from accord.comparing.compare import Cell
from accord.comparing.results import read_lines
from accord.methods.normal import WBPRRules
from accord.protocol import preset_values
from accord_lab.findings.raw import listed, said
from accord_lab.paper_tables.accuracy_tables import is_close, published_overall

Tried = dict[tuple[str, str], list[dict[str, float]]]  # metrics of each seed, by dataset and model


def tried(folder: Path, method: str) -> dict[tuple[tuple[str, Any], ...], Tried]:
    """Every rule that a method was tried with."""
    found: dict[tuple[tuple[str, Any], ...], Tried] = {}
    for line in read_lines(folder / "rules.jsonl"):
        if line["method"] == method:
            own = found.setdefault(tuple(line["rule"].items()), {})
            own.setdefault((line["dataset"], line["model"]), []).append(line["metrics"])
    return found


def landings(method: str, cells: Tried, among: set[tuple[str, str]] | None = None) -> tuple[int, int]:
    """How many values are the paper's, within 5% or two standard deviations, and of how many."""
    landed = known = 0
    for (dataset, model), seeds in cells.items():
        for metric in seeds[0] if among is None or (dataset, model) in among else ():
            paper = published_overall(dataset, Cell(model, method), metric)
            known += paper is not None
            landed += paper is not None and is_close(float(np.mean([own[metric] for own in seeds])), (paper,))
    return landed, known


def wbpr(folder: Path) -> tuple[str, ...]:
    """How the rule of WBPR was chosen."""
    ways = {dict(rule)["wbpr_added"]: cells for rule, cells in tried(folder, "wbpr").items()}
    chosen = preset_values(WBPRRules, "published")["wbpr_added"]
    best = ways.pop(chosen)
    landed, known = landings("wbpr", best)
    told, holds = [], []
    for value in sorted(ways, reverse=True):
        own, of = landings("wbpr", ways[value])
        same, _ = landings("wbpr", best, set(ways[value]))
        told.append(f"{value:.2g} on {own} of {of} ({chosen:g} on {same})")
        holds.append(same >= own)
    return (
        "**How WBPR draws its negatives** the paper does not say. Here it draws items in proportion to the share of",
        f"users who took them, plus {chosen:g} ([`wbpr_added`](../protocol.md#every-field)), which lands on",
        f"{landed} of the {known} values of the cells that it was tried with.",
        said("No other constant that was tried lands more often where it was tried:", all(holds)),
        f"{listed(told)}. It was chosen by that, as a reproduction of published values may be.",
    )


def tce(folder: Path, own: Tried) -> tuple[str, ...]:
    """What other schedules of T-CE give, `own` being the runs with that of its own paper."""
    ways = tried(folder, "tce")
    cells = set.intersection(*(set(way) for way in ways.values()))
    known = landings("tce", own, cells)
    found = sorted(landings("tce", way, cells)[0] for way in ways.values())
    rules = [dict(way) for way in ways]
    drops, ramps, parts = (sorted({one[name] for one in rules if name in one}) for name in ("drop", "ramp", "share"))
    ends = f"{_either(f'{n:,}' for n in ramps)} steps, or after {_either(f'{part:.0%}' for part in parts)}"
    return (
        f"{len(ways)} other schedules of T-CE, which drop {_either(f'{drop:g}' for drop in drops)} of a batch after",
        f"{ends} of the training, land on {found[0]} to {found[-1]} of the {known[1]} values of the cells",
        said(f"that they were tried with, and that of its own paper on {known[0]}: it stays.", known[0] >= found[-1]),
    )


def ensemble(folder: Path) -> tuple[str, ...]:
    """What the mean of something else gives."""
    ways = {dict(rule)["average"]: cells for rule, cells in tried(folder, "ensemble").items()}
    known = {what: landings("ensemble", cells) for what, cells in ways.items()}
    own, of = known.pop("probability")
    others = listed([f"that of their {what}s lands on {landed}" for what, (landed, _) in known.items()])
    return (
        f"**What Ensemble averages** the paper does not say either. The mean probability of two runs lands on {own} of",
        said(f"{of} values, {others}: it stays.", own >= max(landed for landed, _ in known.values())),
    )


def _either(texts: Iterable[str]) -> str:
    return " or ".join(texts)
