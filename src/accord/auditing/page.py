"""The page of an audit, written from its summary and the titles of its items."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from accord.auditing import charts
from accord.auditing.interaction_log import Log
from accord.auditing.timestamps import format_time
from accord.auditing.verdict import DENOISERS
from accord.report.charts import dots
from accord.report.page import Chart, Fact, Finding, Level, Page, Section
from accord.report.tables import Table

HOW = (
    "Every interaction was judged by models trained without it: where does its item rank among all the items that its "
    "user never touched? An interaction that says nothing about its user falls anywhere among them, a real preference "
    "ranks high. So the lowest ranks hold nothing but noise, and show how much noise there is at every rank."
)
TWO_SENSES = (
    "p_real asks whether an interaction could as well have been with any other item; values ask whether it was liked. "
    "An item that was chosen and then disliked is not noise in the first sense. p_calibrated answers the second."
)
LEVELS: dict[str, Level] = {"serious": "bad", "notice": "warning"}
COUNTED = ", with the number of interactions of the user and of the item"
SHOWN = 10  # rows of a table
FIRST = 2  # charts of the noise that are not folded
TELLS = 0.7  # an AUC below this tells too little of a single interaction to be called a success


def write_page(path: Path, summary: Mapping[str, Any], log: Log) -> Path:
    """Write the page of a summary; `log` only gives the titles of the items that it shows."""
    data = summary["data"]
    lead = (
        f"{data['interactions']:,} interactions of {data['users']:,} users with {data['items']:,} items "
        f"({data['density']:.2%} of all pairs)."
    )
    page = Page(f"Audit of {data['name']}", lead)
    shown = [row["item"] for name in ("noisiest", "surest", "noisiest_items") for row in summary["noise"][name]]
    titles = {item: title for item, title in zip(shown, log.titles(shown), strict=True) if title}
    _short(page.section("In short"), summary)
    _health(
        page.section("Health of the log", "What stands out in the log itself, before any model."), summary["health"]
    )
    lead = "Which interactions say nothing about their user. p_real is the probability that an interaction is real."
    _noise(page.section("Noise", lead), summary, log, titles)
    if summary["detection"] is not None:
        lead = "What the values say, which no model was given."
        if summary["detection"].get("by") == "labels":
            lead = "What labels say of interactions; the p_real of each comes from the other labels."
        _detection(page.section("Is the audit right?", lead), summary)
    if summary["verdict"] is not None:
        _verdict(page.section("Does denoising help?", "Trained on a part of the log, tested on the rest."), summary)
    _made(page.section("How it was made", folded=True), summary)
    return page.write(path)


def _short(section: Section, summary: Mapping[str, Any]) -> None:
    noise, verdict = summary["noise"], summary["verdict"]
    sentence = "There is too little data to test on, so whether denoising helps is not known."
    section.callout(verdict["sentence"] if verdict else sentence, _worth(verdict) if verdict else "info")
    serious = [one for one in summary["health"]["findings"] if one["level"] == "serious"]
    facts = [
        Fact("probably noise", f"{noise['rate']:.1%}", f"{noise['low']:.1%} to {noise['high']:.1%} over the runs"),
        Fact("more probably noise than not", f"{noise['suspects']:,}", "interactions with p_real below 0.5"),
        Fact("serious findings", str(len(serious)), "in the log itself"),
    ]
    if summary["detection"]:
        first, popular = summary["detection"]["scores"][:2]
        note = f"{first['auc_low']:.3f} to {first['auc_high']:.3f}; popularity alone {popular['auc']:.3f}"
        facts.append(Fact("noise found (AUC)", f"{first['auc']:.3f}", note))
    section.facts(facts)


def _worth(verdict: Mapping[str, Any]) -> Level:
    """Denoising is a success where it helps and nothing simpler, and not the default, does better."""
    best = max(verdict["rows"], key=lambda row: row["mean"])["name"]
    return "good" if verdict["helps"] and best in DENOISERS else "info"


def _health(section: Section, health: Mapping[str, Any]) -> None:
    found, fine = (
        [one for one in health["findings"] if (one["level"] == "fine") == is_fine] for is_fine in (False, True)
    )
    section.findings(
        [Finding(LEVELS[one["level"]], one["title"], "", one["examples"], one["advice"]) for one in found]
        or [Finding("good", "Nothing stands out")]
    )
    if fine:
        section.note(f"Also checked, and fine: {'; '.join(one['title'] for one in fine)}.")
    curve = health["lorenz"]
    half = next(share for items, share in zip(curve["items"], curve["interactions"], strict=True) if items >= 0.5)
    drawn = [
        Chart(
            "Popularity (Lorenz curve)",
            charts.lorenz(curve),
            f"The less popular half of the items have {half:.1%} of the interactions; Gini {health['gini']:.2f}.",
        )
    ]
    line = health["time"]
    if line is not None:
        busiest = max(line["bins"], key=lambda one: one["interactions"])
        when = format_time(busiest["from"], _ends(line))
        drawn.append(
            Chart(
                "Interactions over time",
                charts.over_time(line),
                f"From {format_time(line['first'], _ends(line))} to {format_time(line['last'], _ends(line))}, "
                f"most of them around {when}.",
            )
        )
    section.charts(drawn, "How interactions are spread over items" + (" and time" if line else ""))


def _ends(line: Mapping[str, Any]) -> Any:
    return np.array([line["first"], line["last"]])


def _noise(section: Section, summary: Mapping[str, Any], log: Log, titles: Mapping[Any, str]) -> None:
    noise, total = summary["noise"], summary["data"]["interactions"]
    if noise.get("labels"):
        good = noise["labels"]["used"] and noise["labels"]["auc"] >= TELLS
        section.callout(noise["labels"]["why"], "good" if good else "info")
    if noise["by_popularity_basis"]:
        section.note(
            f"{noise['by_popularity_basis']:,} of {total:,} interactions are the only ones of their user or item: no "
            "model can judge these. They got the mean p_real of pairs with similarly popular items (basis: popularity)."
        )
    below = noise["suspects"] / total
    drawn = [
        Chart(
            "How sure the audit is",
            charts.histogram(noise["histogram"]),
            f"{below:.1%} of the interactions are more probably noise than not.",
        )
    ]
    for name, title, axis in (
        ("by_popularity", "Noise by popularity", "interactions of the item"),
        ("by_activity", "Noise by activity", "interactions of the user"),
        ("by_time", "Noise over time", ""),
    ):
        if len(noise[name] or ()) > 1:  # one dot is no chart
            drawn.append(Chart(title, charts.rates(noise[name], axis), _range(noise[name]), _rates(title, noise[name])))
    if noise["by_value"] and len(noise["by_value"]) > 1:
        rows, column = noise["by_value"], summary["data"]["value"]
        text = f"From {rows[0]['p_real']:.2f} at {rows[0]['label']} to {rows[-1]['p_real']:.2f} at {rows[-1]['label']}."
        drawn.append(Chart(f"p_real by {column}", charts.by_value(rows, column), text))
    section.charts(drawn[:FIRST])
    if drawn[FIRST:]:
        section.charts(drawn[FIRST:], "; ".join(one.title for one in drawn[FIRST:]))
    for title, key in (("Most probably noise", "noisiest"), ("Surest preferences", "surest")):
        section.table(_pairs(title + COUNTED, noise[key], log, titles), title)
    for name, own in (("user", {}), ("item", titles)):
        title = f"{name.capitalize()}s with most noise"
        section.table(_sides(title, noise[f"noisiest_{name}s"], name, own), title)


def _range(rows: Sequence[Mapping[str, Any]]) -> str:
    least, most = (pick(rows, key=lambda row: row["noise_rate"]) for pick in (min, max))
    return f"From {least['noise_rate']:.1%} ({least['label']}) to {most['noise_rate']:.1%} ({most['label']})."


def _rates(title: str, rows: Sequence[Mapping[str, Any]]) -> Table:
    cells = tuple(
        (row["label"], f"{row['interactions']:,}", f"{row['noise_rate']:.1%}", f"{row['low']:.1%} to {row['high']:.1%}")
        for row in rows
    )
    return Table(title, ("group", "interactions", "noise", "over the runs"), cells)


def _pairs(title: str, rows: Sequence[Mapping[str, Any]], log: Log, titles: Mapping[Any, str]) -> Table:
    """The first of the pairs, with how many interactions their user and their item have."""
    rows = rows[:SHOWN]
    with_value = any(row["value"] is not None for row in rows)
    counts = [
        np.bincount(own, minlength=len(ids))[ids.rows([row[name] for row in rows])]
        for name, own, ids in (("user", log.users, log.data.users), ("item", log.items, log.data.items))
    ]
    columns = ("user", "item", *(["title"] if titles else []), *(["value"] if with_value else []))
    cells = []
    for row, of_user, of_item in zip(rows, *counts, strict=True):
        value = [] if not with_value else ["" if row["value"] is None else f"{row['value']:g}"]
        name = [titles.get(row["item"], "")] if titles else []
        interval = f"{row['low']:.2f} to {row['high']:.2f}"
        own = (str(row["user"]), str(row["item"]), *name, *value, f"{of_user:,}", f"{of_item:,}")
        cells.append((*own, f"{row['p_real']:.3f}", interval))
    return Table(title, (*columns, "of the user", "of the item", "p_real", "interval"), tuple(cells))


def _sides(title: str, rows: Sequence[Mapping[str, Any]], name: str, titles: Mapping[Any, str]) -> Table:
    columns = (name, *(["title"] if titles else []), "interactions", "noise", "over the runs")
    cells = tuple(
        (
            str(row[name]),
            *([titles.get(row[name], "")] if titles else []),
            f"{row['interactions']:,}",
            f"{row['noise_rate']:.1%}",
            f"{row['low']:.1%} to {row['high']:.1%}",
        )
        for row in rows[:SHOWN]
    )
    return Table(title, columns, cells, ("Of those with at least five interactions.",))


def _detection(section: Section, summary: Mapping[str, Any]) -> None:
    found = summary["detection"]
    gain = found["gain"]
    auc, popular = (row["auc"] for row in found["scores"][:2])
    better = (
        "better than popularity" if gain["low"] > 0 else "worse" if gain["high"] < 0 else "no better than popularity"
    )
    level: Level = "warning"
    if gain["low"] > 0:
        level = "good" if auc >= TELLS else "info"
        better += "" if level == "good" else ", and still tells little"
    given = found.get("by") == "labels"
    source = "the labels" if given else "the log's own values"
    section.callout(
        f"By {source} ({found['real']} is real, {found['noise']} is noise) the audit is {better}: AUC {auc:.3f} "
        f"against {popular:.3f}, where 0.5 is chance, a difference of {gain['difference']:+.3f} ({gain['low']:+.3f} to "
        f"{gain['high']:+.3f}).",
        level,
    )
    rows = tuple(
        (
            row["name"],
            f"{row['auc']:.3f}",
            f"{row['auc_low']:.3f} to {row['auc_high']:.3f}",
            f"{row['average_precision']:.3f}",
            f"{row['average_precision_low']:.3f} to {row['average_precision_high']:.3f}",
        )
        for row in found["scores"]
    )
    notes = (
        f"{found['interactions']:,} interactions with such a value, {found['noise_rate']:.1%} of them noise. AUC: how "
        "often a real one has a higher p_real than a noisy one; average precision: of finding the noise. 95% intervals "
        "by bootstrap over users.",
    )
    if not given:
        section.note(TWO_SENSES)
    columns = ("by", "AUC", "interval", "average precision", "interval ")
    section.table(Table("Telling noise apart", columns, rows, notes), "Telling noise apart")
    before, after = found["reliability"]["before"], found["reliability"]["after"]
    drawn = Chart(
        "Reliability",
        charts.reliability(found["reliability"]),
        f"Expected calibration error {before['ece']:.3f} as it is and {after['ece']:.3f} recalibrated; Brier score "
        f"{before['brier']:.3f} and {after['brier']:.3f}. Recalibrated on other users' values only.",
    )
    section.charts([drawn], "Is a p_real of 0.8 right eight times in ten?")


def _verdict(section: Section, summary: Mapping[str, Any]) -> None:
    found = summary["verdict"]
    rule = f" that meet {found['test']['rule']}" if found["test"]["rule"] else ""
    names = [row["name"] for row in found["rows"]]
    rows = [{"run": row["name"], **{key: row[key] for key in ("mean", "low", "high")}} for row in found["rows"]]
    against = {row["name"]: row for row in found["against_normal"]}
    cells = []
    for row in found["rows"]:
        test = against.get(row["name"])
        paired = ("", "", "") if test is None else (
            f"{test['difference']:+.4f}", f"{test['low']:+.4f} to {test['high']:+.4f}", _p(test["p_holm"])
        )  # fmt: skip
        cells.append((row["name"], f"{row['mean']:.4f}", f"{row['recall']:.4f}", *paired))
    columns = ("what", "NDCG@20", "recall@20", "against plain training", "95% interval", "p (Holm)")
    notes = (
        f"{found['test']['interactions']:,} held-out interactions{rule} of {found['test']['users']:,} users; "
        f"{found['seeds']} seeds; default settings, none tuned; paired by user and seed.",
    )
    table = Table("NDCG@20 and recall@20 on held-out interactions", columns, tuple(cells), notes)
    best = max(found["rows"], key=lambda row: row["mean"])
    text = f"Best is {best['name']} with {best['mean']:.4f} ({best['low']:.4f} to {best['high']:.4f})."
    section.chart(
        Chart("NDCG@20 with 95% intervals", dots(rows, "NDCG@20", names, ["popularity", "ease"]), text, height=170)
    )
    section.table(table, "Figures, and how each differs from plain training")


def _p(value: float) -> str:
    return "< 0.0001" if value < 1e-4 else f"{value:.4f}"


def _made(section: Section, summary: Mapping[str, Any]) -> None:
    noise = summary["noise"]
    if summary["command"]:
        section.code(summary["command"])
    section.text(
        HOW, "p_real is the mean over the runs, and its interval is where that mean would lie with other runs."
    )
    runs = tuple(
        (run["model"], run["method"] or "", "" if run["seed"] is None else str(run["seed"])) for run in noise["runs"]
    )
    notes = (
        f"Each was trained {noise['folds']} times, without one part in {noise['folds']} of every user's interactions.",
    )
    section.table(Table("Runs that judged", ("model", "method", "seed"), runs, notes), "The runs that judged")
    for note in summary["data"]["notes"]:
        section.note(note)
    seconds = summary["seconds"]["all"]
    section.note(f"It took {seconds:.0f} seconds. Every interaction is in interactions.parquet beside this page.")
    section.note(
        "What to label next is in to_label.csv beside this page: fill in its last column, give it as --labels."
    )
