"""The report of one or several runs."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from accord.recommender.recommender import Recommender
from accord.report.accuracy import before_updates, metrics, summary
from accord.report.page import Fact, Page, Section
from accord.report.runs import Entry, Runs
from accord.report.sections import members, new_items, recommendations
from accord.report.tables import Cell, Table

PARTS = ("users", "items", "train", "valid", "test")


def write_report(path: Path, runs: Sequence[tuple[str, Recommender]]) -> Path:
    """Write one HTML file about runs, each given with its folder.
    The others are tested against the first; a single run against popularity or EASE, whichever is better."""
    return _page(Runs(runs)).write(path)


def _page(runs: Runs) -> Page:
    first = runs.runs[0]
    data = first.recommender.metrics["dataset"]
    name = first.name if len(runs.runs) == 1 else f"{len(runs.runs)} runs"
    lead = f"{data['users']:,} users, {data['items']:,} items, {data['train']:,} training interactions; "
    if runs.updated:
        lead += "evaluated before it was updated."
    else:
        lead += f"evaluated on {data['test']:,} held-out pairs of {len(first.evaluation.users):,} users."
    page = Page(f"{name} on {data['name']}", lead)
    if runs.updated:
        before_updates(first, page.section("Metrics before the update"))
    else:
        summary(runs, page.section("Summary"))
        metrics(runs, page.section("Metrics"))
    if any(one.recommender.metrics.get("members") for one in runs.runs):
        members(runs, page.section("Members and votes"))
    recommendations(runs, page.section("Recommendations"))
    if any("new_items" in one.recommender.metrics for one in runs.runs):
        new_items(runs, page.section("New items"))
    _data_and_settings(runs, page.section("Data and settings", folded=True))
    _how_to_reproduce(runs, page.section("How to reproduce", folded=True))
    return page


def _data_and_settings(runs: Runs, section: Section) -> None:
    details = [one.recommender.metrics for one in runs.runs]
    section.facts([Fact(part, f"{details[0]['dataset'][part]:,}") for part in PARTS])
    rows = [_about(one) for one in runs.runs]
    section.table(Table("Runs", tuple(rows[0]), tuple(tuple(row.values()) for row in rows)))
    for note in dict.fromkeys(note for one in details for note in one["dataset"]["notes"]):
        section.note(note)
    if any("before_validation" in one for one in details):
        section.note("The metrics are those of a model fitted on train and validation, which precede the test in time.")
    for one in details:
        if "by_user" in one:
            mean = ", ".join(f"{name} {one['by_user']['mean'][name]:.4f}" for name in (runs.recall, runs.ndcg))
            section.note(f"Tested on the last interactions of each user, as in many publications: {mean}.")
    if any("refit" in one for one in details):
        section.note("The final model was refitted on all interactions; the metrics are from held-out data.")
    configs = {one.name: _flat(one.recommender.run.config.model_dump(mode="json")) for one in runs.runs}
    keys = dict.fromkeys(key for config in configs.values() for key in config)
    every = tuple((key, *(config.get(key, "") for config in configs.values())) for key in keys)
    differing = tuple(row for row in every if len(set(row[1:])) > 1 and row[0] not in ("model", "method", "seeds"))
    if differing:
        section.table(Table("Settings that differ", ("setting", *configs), differing))
    section.table(Table("All settings", ("setting", *configs), every), "All settings")


def _about(one: Entry) -> dict[str, Cell]:
    metrics = one.recommender.metrics
    entries = metrics["runs"]
    return {
        "run": one.name,
        "protocol": metrics["protocol"]["name"],
        "seeds": ", ".join(str(entry["seed"]) for entry in entries),
        "epochs": ", ".join(str(entry["epochs"]) for entry in entries),
        "training": f"{metrics['seconds']['train']:,.1f} s on {metrics['device']}",
        "accord": metrics["accord"],
        "run folder": one.folder,
    }


def _flat(config: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """A config as `section.name` and text."""
    flat: dict[str, str] = {}
    for key, value in config.items():
        if isinstance(value, dict):
            flat |= _flat(value, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = value if isinstance(value, str) else json.dumps(value)
    return flat


def _how_to_reproduce(runs: Runs, section: Section) -> None:
    for one in runs.runs:
        if len(runs.runs) > 1:
            section.heading(one.name)
        recipe = ["accord", "train", "DATA", "--recipe", str(one.folder)]  # where it was trained in Python
        section.code(one.recommender.metrics.get("command") or shlex.join(recipe))
    section.text("To write this page again from the run folders:")
    section.code(shlex.join(["accord", "report", *(str(one.folder) for one in runs.runs)]))
