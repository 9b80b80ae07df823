"""How good the runs are and for whom: the first sections of a run's report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from accord.evaluation.significance import Comparison
from accord.report import charts, measure
from accord.report.measure import Interval, Runs, Subject
from accord.report.page import Chart, Fact, Level, Section
from accord.report.tables import Cell, Table

PAIRED = (
    "Paired by user: sign-flip test on the users' differences, p corrected for the number of rows (Holm); the interval "
    "holds for other users and seeds. The last column is the share of users for whom it is better minus the share for "
    "whom it is worse."
)


def in_short(runs: Runs, section: Section) -> None:
    """The best figures and the runs that have them; for a single run, their intervals."""
    if not runs.comparable:
        section.callout("The runs have different data or tests, so their figures cannot be compared.", "warning")
        return
    if runs.testable:
        _verdict(runs, section)
    several = len(runs.runs) > 1
    if several:
        section.note("The best of the runs:")
    facts = []
    for metric in (runs.recall, runs.ndcg):
        best = max(runs.runs, key=lambda one: one.figures[metric].mean)
        note = best.name if several else f"95%: {_between(best.figures[metric])}"
        facts.append(Fact(metric, f"{best.figures[metric].mean:.4f}", note))
    aucs = [(one.found_noise["auc"], one.name) for one in runs.runs if one.found_noise is not None]
    if aucs:
        facts.append(Fact("noise found (AUC)", f"{max(aucs)[0]:.3f}", max(aucs)[1] if several else "0.5 is chance"))
    widest = max(runs.runs, key=lambda one: one.recommended.coverage)
    note = widest.name if several else f"of all, in lists of {runs.k}"
    facts.append(Fact("items recommended", f"{widest.recommended.coverage:.0%}", note))
    seconds = sum(one.recommender.metrics["seconds"]["train"] for one in runs.runs)
    number = sum(len(one.recommender.metrics["runs"]) for one in runs.runs)
    devices = ", ".join(sorted({one.recommender.metrics["device"] for one in runs.runs}))
    facts.append(Fact("training", f"{seconds:,.1f} s", f"{number} run{'s' if number > 1 else ''} on {devices}"))
    section.facts(facts)


def _verdict(runs: Runs, section: Section) -> None:
    """How the best run compares with the best of the others."""
    best = max(runs.runs, key=lambda one: one.figures[runs.ndcg].mean)
    other = max((one for one in runs.subjects if one is not best), key=lambda one: one.figures[runs.ndcg].mean)
    means = (best.figures[runs.ndcg].mean, other.figures[runs.ndcg].mean)
    verdict(section, runs.ndcg, (best.name, other.name), means, runs.test(other, [best])[best.name])


def verdict(
    section: Section, metric: str, names: tuple[str, str], means: tuple[float, float], found: Comparison
) -> None:
    """One sentence on whether the first is better than the second."""
    level: Level = "info" if found.low <= 0 <= found.high else "good" if found.difference > 0 else "warning"
    word = {"info": "cannot be told apart from", "good": "is better than", "warning": "is worse than"}[level]
    section.callout(
        f"{names[0]} {word} {names[1]} by {metric}: {means[0]:.4f} against {means[1]:.4f}, a difference of "
        f"{_signed(found.difference)} (95% interval {_signed(found.low)} to {_signed(found.high)}).",
        level,
    )


def figures(runs: Runs, section: Section) -> None:
    if runs.comparable:
        section.charts([_dots(runs, metric) for metric in (runs.recall, runs.ndcg)])
    section.table(_means(runs))
    if runs.testable:
        section.table(_tests(runs))
    every = tuple(
        (metric, *(_with_spread(one, metric) for one in runs.subjects)) for metric in runs.runs[0].evaluation.per_user
    )
    note = "Mean over users and seeds (95% interval), ± standard deviation over the seeds."
    section.table(Table("Every metric at every K", ("metric", *runs.names), every, (note,)), "Every metric")


def _dots(runs: Runs, metric: str) -> Chart:
    return dots(metric, {one.name: one.figures[metric] for one in runs.subjects}, runs.beside[:1])


def dots(metric: str, found: Mapping[str, Interval], beside: Sequence[str] = ()) -> Chart:
    """A metric of each row with its interval."""
    rows = [{"run": name, **vars(figure)} for name, figure in found.items()]
    ordered = sorted(found.items(), key=lambda pair: -pair[1].mean)
    summary = "; ".join(f"{name} {figure.mean:.4f}" for name, figure in ordered)
    chart = charts.dots(rows, metric, list(found), beside)
    return Chart(f"{metric}, with 95% intervals", chart, f"From the best down: {summary}.", height=30 + 34 * len(rows))


def _means(runs: Runs) -> Table:
    several = any(one.spread for one in runs.subjects)
    columns = ["what", runs.recall, "95% interval", runs.ndcg, "95% interval"]
    columns += [f"± over seeds ({runs.ndcg})"] if several else []
    rows: list[tuple[Cell, ...]] = []
    for one in runs.subjects:
        row: list[Cell] = [one.name]
        for metric in (runs.recall, runs.ndcg):
            row += [one.figures[metric].mean, _between(one.figures[metric])]
        rows.append((*row, one.spread.get(runs.ndcg)) if several else tuple(row))
    notes = ["Mean over the test's users and the seeds; the interval is where it would be for other users and seeds."]
    marked = set()
    if runs.comparable:
        notes.append("The best of each column is marked.")
        for column, metric in ((1, runs.recall), (3, runs.ndcg)):
            means = [one.figures[metric].mean for one in runs.subjects]
            marked.add((means.index(max(means)), column))
    return Table("The figures", tuple(columns), tuple(rows), tuple(notes), frozenset(marked))


def _tests(runs: Runs) -> Table:
    """Against the first run; a single run against the best of what is beside it."""
    others = [one for one in runs.subjects if not one.is_run]
    alone = len(runs.runs) == 1
    baseline = max(others, key=lambda one: one.figures[runs.ndcg].mean) if alone else runs.runs[0]
    tests = runs.test(baseline, [one for one in runs.subjects if one is not baseline])
    rows = tuple(
        (
            name,
            _signed(test.difference),
            f"{_signed(test.low)} to {_signed(test.high)}",
            "< 0.0001" if test.p_holm < 1e-4 else f"{test.p_holm:.4f}",
            _signed(test.better, ".1%"),
        )
        for name, test in tests.items()
    )
    columns = ("what", "difference", "95% interval", "p (Holm)", "users better − worse")
    return Table(f"{runs.ndcg} against {baseline.name}", columns, rows, (PAIRED,))


def users(runs: Runs, section: Section) -> None:
    section.text("Users by how many interactions they have in training; those with none are cold.")
    if not runs.comparable:
        for one in runs.subjects:
            section.table(_by_history(f"{runs.ndcg} by history: {one.name}", [one], _of_groups(runs, [one])))
        return
    found = _of_groups(runs, runs.subjects)
    rows = [
        {"group": group, "run": name, **vars(figure)}
        for group, _, figures in found
        for name, figure in zip(runs.names, figures, strict=True)
    ]
    chart = charts.groups(rows, runs.ndcg, [group for group, *_ in found], runs.names, runs.beside[:1])
    means = [f"{figures[0].mean:.4f} for users with {group} interactions" for group, _, figures in found]
    summary = f"{runs.names[0]}: {', '.join(means)}."
    table = _by_history(f"{runs.ndcg} by history", runs.subjects, found)
    section.chart(Chart(f"{runs.ndcg} by history, with 95% intervals", chart, summary, table))


Groups = list[tuple[str, int, list[Interval]]]  # name of a group, its users, and the figure of each run


def _of_groups(runs: Runs, subjects: Sequence[Subject]) -> Groups:
    return [
        (name, int(keep.sum()), [measure.intervals(one.evaluation, keep, [runs.ndcg])[runs.ndcg] for one in subjects])
        for name, keep in measure.user_groups(subjects[0])
    ]


def _by_history(title: str, subjects: Sequence[Subject], found: Groups) -> Table:
    rows = tuple((group, f"{number:,}", *map(str, figures)) for group, number, figures in found)
    return Table(title, ("interactions in training", "users", *(one.name for one in subjects)), rows)


def _between(figure: Interval) -> str:
    return f"{figure.low:.4f} to {figure.high:.4f}"


def _signed(number: float, form: str = ".4f") -> str:
    """With + or a minus sign, which is longer than a hyphen."""
    return f"{number:+{form}}".replace("-", "−")


def _with_spread(one: Subject, metric: str) -> str:
    return str(one.figures[metric]) + (f" ± {one.spread[metric]:.4f}" if one.spread else "")
