"""How accurate the runs are: sections of their report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from accord.evaluation.significance import Comparison
from accord.report import charts
from accord.report.page import Chart, Fact, Level, Section
from accord.report.runs import EASE, MOST_SECONDS, Entry, Interval, Runs
from accord.report.tables import Cell, Table, p_text, signed

MATTERS = 0.02  # a smaller relative difference is called slight, even if it is significant


def summary(runs: Runs, section: Section) -> None:
    """The best metrics and the runs that reach them; for a single run, their intervals."""
    if runs.testable:
        best = runs.best(runs.runs)
        other = runs.best([one for one in runs.entries if one is not best])
        means = (best.metrics[runs.ndcg].mean, other.metrics[runs.ndcg].mean)
        verdict(section, runs.ndcg, (best.name, other.name), means, runs.test(other, [best])[best.name])
    several = len(runs.runs) > 1
    if several:
        section.note("The best of the runs:")
    facts = []
    for metric in (runs.recall, runs.ndcg):
        best = max(runs.runs, key=lambda one: one.metrics[metric].mean)
        note = best.name if several else f"95%: {best.metrics[metric].ends}"
        facts.append(Fact(metric, f"{best.metrics[metric].mean:.4f}", note))
    widest = max(runs.runs, key=lambda one: one.coverage)
    note = widest.name if several else f"of all items, in lists of {runs.k}"
    facts.append(Fact("items recommended", f"{widest.coverage:.0%}", note))
    details = [one.recommender.metrics for one in runs.runs]
    seconds, number = sum(one["seconds"]["train"] for one in details), sum(len(one["runs"]) for one in details)
    devices = ", ".join(sorted({one["device"] for one in details}))
    facts.append(Fact("training", f"{seconds:,.1f} s", f"{number} run{'s' if number > 1 else ''} on {devices}"))
    section.facts(facts)


def before_updates(one: Entry, section: Section) -> None:
    """The metrics of an updated run, which has learned its test since."""
    updates = one.recommender.updates
    new, times = sum(each["interactions"] for each in updates), len(updates)
    section.callout(
        f"After its evaluation this run was updated {'once' if times == 1 else f'{times} times'}, with {new:,} "
        f"interactions: all metrics on this page are from before, of a model trained on {updates[0]['train']:,}. "
        "The recommendations are current."
    )
    rows = tuple(one.recommender.metrics["mean"].items())
    section.table(Table("Before the update", ("metric", "mean"), rows, ("Mean over the users of the test.",)))


def verdict(
    section: Section, metric: str, names: tuple[str, str], means: tuple[float, float], test: Comparison
) -> None:
    """Say in one sentence whether the first is better than the second; green only if the difference matters."""
    level: Level = "info" if test.low <= 0 <= test.high else "good" if test.difference > 0 else "warning"
    words = {"info": "does not differ significantly from", "good": "is better than", "warning": "is worse than"}[level]
    if level != "info" and abs(test.difference) < MATTERS * means[1]:
        level, words = "info", words.replace("is", "is slightly")
    section.callout(
        f"{names[0]} {words} {names[1]} by {metric}: {means[0]:.4f} against {means[1]:.4f}, a difference of "
        f"{signed(test.difference)} (95% interval {signed(test.low)} to {signed(test.high)}).",
        level,
    )


def metrics(runs: Runs, section: Section) -> None:
    if len(runs.entries) > 1:
        means = {metric: {one.name: one.metrics[metric] for one in runs.entries} for metric in (runs.recall, runs.ndcg)}
        section.charts([dots(metric, by_run, runs.grey) for metric, by_run in means.items()])
    section.table(_means(runs))


def dots(metric: str, means: Mapping[str, Interval], grey: Sequence[str] = ()) -> Chart:
    rows = [{"run": name, **vars(interval)} for name, interval in means.items()]
    ordered = sorted(means.items(), key=lambda pair: -pair[1].mean)
    order = "; ".join(f"{name} {interval.mean:.4f}" for name, interval in ordered)
    chart = charts.dots(rows, metric, list(means), grey)
    return Chart(f"{metric}, with 95% intervals", chart, f"Best first: {order}.", height=30 + 34 * len(rows))


def _means(runs: Runs) -> Table:
    """Recall and NDCG, with a paired test of NDCG against the first run, or of a single run against a baseline."""
    columns: dict[str, Sequence[Cell]] = {"run": runs.names}
    notes, marked = ["Mean over the users of the test and the seeds."], set()
    for metric in (f"{name}@{k}" for k in runs.ks for name in ("recall", "ndcg")):
        means = [one.metrics[metric].mean for one in runs.entries]
        marked.add((means.index(max(means)), len(columns)))
        columns[metric] = means
    if any(one.spread for one in runs.entries):
        columns["± over seeds"] = [one.spread.get(runs.ndcg) for one in runs.entries]
        notes[0] += f" ±: standard deviation of {runs.ndcg} over the seeds."
    if len(runs.entries) > 1:
        notes[0] += " The best of each column is marked."
    else:
        marked.clear()
    models = {one.recommender.run.config.model for one in runs.entries}
    if len(runs.runs) == 1 and EASE[0] not in models:
        stand_in = f"{EASE[1]} stands for it" if EASE[1] in models else "it is left out"
        notes.append(f"Dense EASE takes too much memory or more than {MOST_SECONDS} seconds on this data: {stand_in}.")
    if runs.testable:
        against = runs.runs[0] if len(runs.runs) > 1 else runs.best(runs.baselines)
        tests = runs.test(against, [one for one in runs.entries if one is not against])
        texts = {
            name: (signed(test.difference), f"{signed(test.low)} to {signed(test.high)}", p_text(test.p_holm))
            for name, test in tests.items()
        }
        for place, title in enumerate((f"{runs.ndcg} against {against.name}", "95% interval", "p (Holm)")):
            columns[title] = [texts[name][place] if name in texts else None for name in runs.names]
        notes.append(
            "Paired by user. The interval is over users and seeds; p is that of a sign-flip test on the differences of "
            "the users, corrected for the number of rows (Holm)."
        )
    return replace(Table.of("Recall and NDCG", columns, *notes), marked=frozenset(marked))
