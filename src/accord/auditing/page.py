"""The page of an audit, written from its summary and the titles of its items."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from accord.auditing.interaction_log import Log
from accord.auditing.verdict import DENOISERS, SIMPLE
from accord.report import charts
from accord.report.page import Chart, Fact, Finding, Level, Page, Section
from accord.report.tables import Table, p_text

HOW = (
    "Every interaction was scored by models that leave it out: where does its item rank among items that its user "
    "never touched? An interaction that says nothing about its user falls anywhere among them, a real preference ranks "
    "high. So the lowest ranks hold nothing but noise, and show how much noise there is at every rank."
)
TWO_SENSES = (
    "p_real asks whether an interaction could as well have been with any other item; values ask whether it was liked. "
    "An item that was chosen and then disliked is not noise in the first sense; for the second, give labels."
)
LEVELS: dict[str, Level] = {"serious": "bad", "notice": "warning"}
SHOWN = 10  # rows of a table
USEFUL = 0.7  # an AUC below this tells too little about a single interaction to be called a success

Summary = Mapping[str, Any]


def write_page(path: Path, summary: Summary, log: Log) -> Path:
    """Write the page of a summary; `log` gives the titles of items and counts of interactions."""
    data, detection = summary["data"], summary["detection"]
    lead = (
        f"{data['interactions']:,} interactions of {data['users']:,} users with {data['items']:,} items "
        f"({data['density']:.2%} of all pairs)."
    )
    page = Page(f"Audit of {data['name']}", lead)
    _short(page.section("In short"), summary)
    _health(page.section("Health of the log", "What stands out in the log itself."), summary["health"])
    lead = "Which interactions say nothing about their user. p_real is the probability that an interaction is real."
    _noise(page.section("Noise", lead), summary, log)
    if detection is not None:
        by_labels = "The labels that were given; the p_real of each comes from the other labels."
        lead = by_labels if detection.get("by") == "labels" else "Against the values, which no model was given."
        _detection(page.section("Is the audit right?", lead), detection)
    if summary["verdict"] is not None:
        lead = "Trained on a part of the log, tested on the rest."
        _verdict(page.section("Does denoising help?", lead), summary["verdict"])
    _how(page.section("How this was computed", folded=True), summary)
    return page.write(path)


def _short(section: Section, summary: Summary) -> None:
    noise, verdict = summary["noise"], summary["verdict"]
    sentence = "There is too little data to test on, so whether denoising helps is not known."
    section.callout(verdict["sentence"] if verdict else sentence, _worth(verdict) if verdict else "info")
    serious = [one for one in summary["health"]["findings"] if one["level"] == "serious"]
    facts = [
        Fact("probably noise", f"{noise['rate']:.1%}", f"{noise['low']:.1%} to {noise['high']:.1%}"),
        Fact("more probably noise than not", f"{noise['suspects']:,}", "interactions with p_real below 0.5"),
        Fact("serious findings", str(len(serious)), "in the log itself"),
    ]
    if summary["detection"]:
        first, popular = summary["detection"]["scores"][:2]
        note = f"{first['auc_low']:.3f} to {first['auc_high']:.3f}; popularity alone {popular['auc']:.3f}"
        facts.append(Fact("noise detection (AUC)", f"{first['auc']:.3f}", note))
    section.facts(facts)


def _worth(verdict: Summary) -> Level:
    """Denoising is a success where it helps and nothing simpler, and not the default, does better."""
    best = max(verdict["rows"], key=lambda row: row["mean"])["name"]
    return "good" if verdict["helps"] and best in DENOISERS else "info"


def _health(section: Section, health: Summary) -> None:
    findings = [
        Finding(LEVELS[one["level"]], one["title"], one["examples"], one["advice"])
        for one in health["findings"]
        if one["level"] in LEVELS
    ]
    section.findings(findings or [Finding("good", "Nothing stands out")])
    if fine := [one["title"] for one in health["findings"] if one["level"] not in LEVELS]:
        section.note(f"Also checked, and fine: {'; '.join(fine)}.")


def _noise(section: Section, summary: Summary, log: Log) -> None:
    noise, total = summary["noise"], summary["data"]["interactions"]
    if labels := noise.get("labels"):
        section.callout(labels["why"], "good" if labels["used"] and labels["auc"] >= USEFUL else "info")
    if noise["by_popularity_basis"]:
        section.note(
            f"{noise['by_popularity_basis']:,} of {total:,} interactions are the only ones of their user or item: only "
            "popularity says something about these (basis: popularity)."
        )
    text = f"{noise['suspects'] / total:.1%} of the interactions are more probably noise than not."
    section.chart(Chart("How sure the audit is", charts.histogram(noise["histogram"]), text))
    items = [row["item"] for name in ("noisiest", "noisiest_items") for row in noise[name]]
    titles = {item: title for item, title in zip(items, log.titles(items), strict=True) if title}
    section.table(_examples(noise["noisiest"], log, titles), "Most probably noise")
    for side in ("user", "item"):
        title = f"{side.capitalize()}s with most noise"
        section.table(_noisiest(title, noise[f"noisiest_{side}s"], side, titles if side == "item" else {}), title)


def _rate(row: Summary) -> str:
    return f"{row['noise_rate']:.1%}"


def _rates(row: Summary) -> str:
    return f"{row['low']:.1%} to {row['high']:.1%}"


def _examples(rows: Sequence[Summary], log: Log, titles: Mapping[Any, str]) -> Table:
    """Interactions, with the number of interactions of their user and of their item."""
    rows = rows[:SHOWN]
    counts = [
        np.bincount(numbers, minlength=len(ids))[ids.rows([row[name] for row in rows])]
        for name, numbers, ids in (("user", log.users, log.data.users), ("item", log.items, log.data.items))
    ]
    columns: dict[str, list[str]] = {name: [str(row[name]) for row in rows] for name in ("user", "item")}
    if titles:
        columns["title"] = [titles.get(row["item"], "") for row in rows]
    if any(row["value"] is not None for row in rows):
        columns["value"] = ["" if row["value"] is None else f"{row['value']:g}" for row in rows]
    columns |= {f"of the {name}": [f"{n:,}" for n in each] for name, each in zip(("user", "item"), counts, strict=True)}
    columns["p_real"] = [f"{row['p_real']:.3f}" for row in rows]
    columns["interval"] = [f"{row['low']:.2f} to {row['high']:.2f}" for row in rows]
    return Table.of("Most probably noise, with the number of interactions of the user and of the item", columns)


def _noisiest(title: str, rows: Sequence[Summary], side: str, titles: Mapping[Any, str]) -> Table:
    rows = rows[:SHOWN]
    columns: dict[str, list[str]] = {side: [str(row[side]) for row in rows]}
    if titles:
        columns["title"] = [titles.get(row[side], "") for row in rows]
    columns |= {"interactions": [f"{row['interactions']:,}" for row in rows]}
    columns |= {"noise": [_rate(row) for row in rows], "interval": [_rates(row) for row in rows]}
    return Table.of(title, columns, "Only those with at least five interactions.")


def _detection(section: Section, detection: Summary) -> None:
    gain, by_labels = detection["gain"], detection.get("by") == "labels"
    auc, popular = (row["auc"] for row in detection["scores"][:2])
    better = "worse than popularity" if gain["high"] < 0 else "no better than popularity"
    level: Level = "warning"
    if gain["low"] > 0:
        level = "good" if auc >= USEFUL else "info"
        better = "better than popularity" + ("" if auc >= USEFUL else ", but detects little")
    section.callout(
        f"By {'the labels' if by_labels else 'the values of the log'} ({detection['real']} is real, "
        f"{detection['noise']} is noise) the audit is {better}: AUC {auc:.3f} against {popular:.3f}, where 0.5 is "
        f"chance, a difference of {gain['difference']:+.3f} ({gain['low']:+.3f} to {gain['high']:+.3f}).",
        level,
    )
    if not by_labels:
        section.note(TWO_SENSES)
    columns = {
        "by": [row["name"] for row in detection["scores"]],
        "AUC": [f"{row['auc']:.3f}" for row in detection["scores"]],
        "interval": [f"{row['auc_low']:.3f} to {row['auc_high']:.3f}" for row in detection["scores"]],
    }
    note = (
        f"{detection['interactions']:,} labelled interactions, {detection['noise_rate']:.1%} of them noise. AUC: how "
        "often a real one has a higher p_real than a noisy one, with 95% intervals by bootstrap over users. Expected "
        f"calibration error of p_real {detection['calibration']['ece']:.3f}, Brier score "
        f"{detection['calibration']['brier']:.3f}."
    )
    section.table(Table.of("Telling noise apart", columns, note), "Telling noise apart")


def _verdict(section: Section, verdict: Summary) -> None:
    rows = verdict["rows"]
    against = {row["name"]: row for row in verdict["against_normal"]}
    tests = [against.get(row["name"]) for row in rows]
    columns = {
        "what": [row["name"] for row in rows],
        "NDCG@20": [f"{row['mean']:.4f}" for row in rows],
        "recall@20": [f"{row['recall']:.4f}" for row in rows],
        "against plain training": ["" if test is None else f"{test['difference']:+.4f}" for test in tests],
        "95% interval": ["" if test is None else f"{test['low']:+.4f} to {test['high']:+.4f}" for test in tests],
        "p (Holm)": ["" if test is None else p_text(test["p_holm"]) for test in tests],
    }
    rule = f" that meet {verdict['test']['rule']}" if verdict["test"]["rule"] else ""
    note = (
        f"{verdict['test']['interactions']:,} held-out interactions{rule} of {verdict['test']['users']:,} users; "
        f"{verdict['seeds']} seeds; default settings, none tuned; paired by user and seed."
    )
    best = max(rows, key=lambda row: row["mean"])
    text = f"Best is {best['name']} with {best['mean']:.4f} ({best['low']:.4f} to {best['high']:.4f})."
    points = [{"run": row["name"], **{key: row[key] for key in ("mean", "low", "high")}} for row in rows]
    drawn = charts.dots(points, "NDCG@20", columns["what"], list(SIMPLE))
    section.charts([Chart("NDCG@20 with 95% intervals", drawn, text, height=170)])
    table = Table.of("NDCG@20 and recall@20 on held-out interactions", columns, note)
    section.table(table, "Figures, and how each differs from plain training")


def _how(section: Section, summary: Summary) -> None:
    if summary["command"]:
        section.code(summary["command"])
    families = ", ".join(summary["noise"]["families"])
    section.text(
        HOW,
        f"p_real is the mean over every two of the models ({families}), and its interval is Student's interval of that "
        "mean: how far they agree.",
    )
    for note in summary["data"]["notes"]:
        section.note(note)
    section.note(
        f"It took {summary['seconds']['all']:.0f} seconds. Next to this page, interactions.parquet has every "
        "interaction, and to_label.csv what to label next: fill in its last column and give it as --labels."
    )
