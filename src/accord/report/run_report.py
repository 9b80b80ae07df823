"""The report of one or several runs: how good they are, for whom, what they recommend, and how they were trained."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from accord.recommender.recommender import Recommender
from accord.report.accuracy import figures, in_short, users
from accord.report.measure import Runs, Subject
from accord.report.members import members
from accord.report.page import Fact, Page, Section
from accord.report.recommendations import recommended
from accord.report.tables import Table
from accord.report.training import learning, probabilities
from accord.training.run import preset_rules

PARTS = ("users", "items", "train", "valid", "test")


def write_report(path: Path, runs: Sequence[tuple[str, Recommender]]) -> Path:
    """One HTML file about runs, each given with its folder.

    The others are tested against the first; one alone against popularity or EASE, whichever is better.
    """
    return _page(Runs(runs)).write(path)


def _page(runs: Runs) -> Page:
    first = runs.runs[0]
    data = first.recommender.metrics["dataset"]
    what = first.name if len(runs.runs) == 1 else f"{len(runs.runs)} runs"
    page = Page(f"{what} on {data['name'] if runs.comparable else 'different data'}", _lead(runs, data))
    in_short(runs, page.section("In short"))
    figures(runs, page.section("Figures"))
    if any(one.recommender.metrics.get("members") for one in runs.runs):
        members(runs, page.section("Who votes"))
    if any(one.beliefs is not None for one in runs.runs):
        probabilities(runs, page.section("Which interactions are real"))
    recommended(runs, page.section("What is recommended"))
    users(runs, page.section("For whom", folded=True))
    if any(one.recommender.history for one in runs.runs):
        learning(runs, page.section("Training", folded=True))
    _data_and_settings(runs, page.section("Data and settings", folded=True))
    _how_to_repeat(runs, page.section("How to repeat it", folded=True))
    return page


def _lead(runs: Runs, data: Mapping[str, Any]) -> str:
    if not runs.comparable:
        return ", ".join(f"{one.name} on {one.recommender.metrics['dataset']['name']}" for one in runs.runs) + "."
    tested = len(runs.runs[0].evaluation.users)
    return (
        f"{data['users']:,} users, {data['items']:,} items, {data['train']:,} training interactions; "
        f"evaluated on {data['test']:,} held-out pairs of {tested:,} users."
    )


def _data_and_settings(runs: Runs, section: Section) -> None:
    if runs.comparable:
        data = runs.runs[0].recommender.metrics["dataset"]
        section.facts([Fact(part, f"{data[part]:,}") for part in PARTS])
    about = [_about(one, not runs.comparable) for one in runs.runs]
    section.table(Table("Runs", tuple(about[0]), tuple(tuple(own.values()) for own in about)))
    for note in dict.fromkeys(note for one in runs.runs for note in one.recommender.metrics["dataset"]["notes"]):
        section.note(note)
    if any("before_validation" in one.recommender.metrics for one in runs.runs):
        section.note("The figures are those of a fit on train and validation together, which came before the test.")
    if any("refit" in one.recommender.metrics for one in runs.runs):
        section.note("What is recommended comes from a fit on the whole log; the figures are those of before.")
    configs = {one.name: _flat(one.recommender.run.config.model_dump(mode="json")) for one in runs.runs}
    keys = dict.fromkeys(key for own in configs.values() for key in own)
    every = tuple((key, *(own.get(key, "") for own in configs.values())) for key in keys)
    differing = tuple(row for row in every if len(set(row[1:])) > 1 and row[0] not in ("model", "method", "seeds"))
    if differing:
        section.table(Table("Settings that differ", ("setting", *configs), differing))
    section.table(Table("All settings", ("setting", *configs), every), "All settings")


def _about(one: Subject, own_data: bool) -> dict[str, str]:
    metrics = one.recommender.metrics
    data, entries = metrics["dataset"], metrics["runs"]
    counts = {part: f"{data[part]:,}" for part in PARTS}
    return {
        "what": one.name,
        **({"data": data["name"], **counts} if own_data else {}),
        "protocol": metrics["protocol"]["name"],
        "seeds": ", ".join(str(entry["seed"]) for entry in entries),
        "epochs": ", ".join(str(entry["epochs"]) for entry in entries),
        "training": f"{metrics['seconds']['train']:,.1f} s on {metrics['device']}",
        "accord": metrics["accord"],
        "run folder": str(one.folder),
    }


def _flat(config: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """A config as `section.name` and text."""
    found: dict[str, str] = {}
    for key, value in config.items():
        if isinstance(value, dict):
            found |= _flat(value, f"{prefix}{key}.")
        else:
            found[f"{prefix}{key}"] = value if isinstance(value, str) else json.dumps(value)
    return found


def _how_to_repeat(runs: Runs, section: Section) -> None:
    for one in runs.runs:
        if len(runs.runs) > 1:
            section.heading(one.name)
        section.code(one.recommender.metrics.get("command") or _in_python(one.recommender))
    section.text("To make this page again from the run folders:")
    section.code(shlex.join(["accord", "report", *(str(one.folder) for one in runs.runs)]))


def _in_python(recommender: Recommender) -> str:
    """The call that trains the same run, where no command did; the data is the caller's."""
    config = recommender.run.config
    preset = preset_rules(config.protocol.name, recommender.run.rule_kinds)
    sections = {
        "model": config.model_options,
        "method": config.method_options,
        "train": config.train.model_dump(exclude_defaults=True),
        "protocol": {key: value for key, value in config.protocol.model_dump().items() if value != preset.get(key)},
    }
    asked = {
        "model": config.model,
        "method": config.method,
        "protocol": config.protocol.name,
        "seeds": list(config.seeds),
        "options": {f"{name}.{key}": value for name, own in sections.items() for key, value in own.items()},
        "ks": list(config.ks),
    }
    given = (f"{name}={value!r}" for name, value in asked.items() if value not in ({}, None))
    return f"accord.fit(data, {', '.join(given)})"
