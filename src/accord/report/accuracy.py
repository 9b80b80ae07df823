"""How good the runs are and for whom: the first sections of a run's report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from accord.consensus.families import plan_search
from accord.evaluation.significance import Comparison
from accord.models.auto import Auto
from accord.models.base import Shape
from accord.report import charts, measure
from accord.report.measure import Interval, Runs, Subject
from accord.report.page import Chart, Fact, Level, Section
from accord.report.tables import Cell, Table

MATTERS = 0.02  # of a figure: a smaller difference is none that anyone would notice, however sure it is


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
        popular = measure.found_by_popularity(runs.runs[0])
        note = max(aucs)[1] if several else "0.5 is chance" + (f", popularity {popular['auc']:.3f}" if popular else "")
        facts.append(Fact("noise found (AUC)", f"{max(aucs)[0]:.3f}", note))
    widest = max(runs.runs, key=lambda one: one.recommended.coverage)
    note = widest.name if several else f"of all, in lists of {runs.k}"
    facts.append(Fact("items recommended", f"{widest.recommended.coverage:.0%}", note))
    seconds = sum(one.recommender.metrics["seconds"]["train"] for one in runs.runs)
    number = sum(len(one.recommender.metrics["runs"]) for one in runs.runs)
    devices = ", ".join(sorted({one.recommender.metrics["device"] for one in runs.runs}))
    facts.append(Fact("training", f"{seconds:,.1f} s", f"{number} run{'s' if number > 1 else ''} on {devices}"))
    section.facts(facts)
    if not several and not runs.runs[0].is_auto:
        section.note(_by_default(runs.runs[0]))


def _verdict(runs: Runs, section: Section) -> None:
    """How the best run compares with the best of the others."""
    best = max(runs.runs, key=lambda one: one.figures[runs.ndcg].mean)
    other = max((one for one in runs.subjects if one is not best), key=lambda one: one.figures[runs.ndcg].mean)
    means = (best.figures[runs.ndcg].mean, other.figures[runs.ndcg].mean)
    verdict(section, runs.ndcg, (best.name, other.name), means, runs.test(other, [best])[best.name])


def verdict(
    section: Section, metric: str, names: tuple[str, str], means: tuple[float, float], found: Comparison
) -> None:
    """One sentence on whether the first is better than the second, in the colour of what that is worth."""
    level: Level = "info" if found.low <= 0 <= found.high else "good" if found.difference > 0 else "warning"
    word = {"info": "cannot be told apart from", "good": "is better than", "warning": "is worse than"}[level]
    if level != "info" and abs(found.difference) < MATTERS * means[1]:
        level, word = "info", word.replace("is", "is hardly")
    section.callout(
        f"{names[0]} {word} {names[1]} by {metric}: {means[0]:.4f} against {means[1]:.4f}, a difference of "
        f"{_signed(found.difference)} (95% interval {_signed(found.low)} to {_signed(found.high)}).",
        level,
    )


def _by_default(one: Subject) -> str:
    """What `auto` would try on the log of a run that it did not make."""
    log, budget = one.recommender.train, Auto.Config.model_validate({}).budget
    search = plan_search(Shape.of(log), budget, has_times=one.recommender.trained_on.has_time)
    tried = ", ".join(family.name for family in search.families)
    return (
        f"auto, the default of accord train, would try {tried} on this log, in about {search.seconds:,.0f} seconds on "
        "two ordinary cores, and let the best of them vote. What it reaches is not known before it is trained: train "
        "without --model, and give both run folders to accord report."
    )


def figures(runs: Runs, section: Section) -> None:
    if runs.comparable and len(runs.subjects) > 1:
        section.charts([_dots(runs, metric) for metric in (runs.recall, runs.ndcg)])
    section.table(_means(runs))
    every = tuple(
        (metric, *(_with_spread(one, metric) for one in runs.subjects)) for metric in runs.runs[0].evaluation.per_user
    )
    note = "Mean over users and seeds (95% interval), ± standard deviation over the seeds."
    section.table(
        Table("Every metric at every K", ("metric", *runs.names), every, (note,)), "Every metric, with intervals"
    )


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
    """Recall and NDCG, and beside them the paired test of NDCG against the first run; for a single run, against the
    best of what is beside it."""
    metrics = [f"{name}@{k}" for k in runs.shown for name in ("recall", "ndcg")]
    columns = ["what", *metrics]
    rows: list[list[Cell]] = [[one.name, *(one.figures[metric].mean for metric in metrics)] for one in runs.subjects]
    notes = ["Mean over the test's users and the seeds."]
    if any(one.spread for one in runs.subjects):
        columns.append("± over seeds")
        rows = [[*row, one.spread.get(runs.ndcg)] for row, one in zip(rows, runs.subjects, strict=True)]
        notes[0] += f" ±: standard deviation of {runs.ndcg} over the seeds."
    marked = set()
    if runs.comparable and len(rows) > 1:
        notes[0] += " The best of each column is marked."
        for column, metric in enumerate(metrics, 1):
            means = [one.figures[metric].mean for one in runs.subjects]
            marked.add((means.index(max(means)), column))
    if runs.testable:
        against = _baseline(runs)
        columns += [f"{runs.ndcg} against {against.name}", "95% interval", "p (Holm)"]
        tests = runs.test(against, [one for one in runs.subjects if one is not against])
        rows = [[*row, *_tested(tests.get(one.name))] for row, one in zip(rows, runs.subjects, strict=True)]
        notes.append(
            "Paired by user: the interval holds for other users and seeds; p of a sign-flip test on the users' "
            "differences, corrected for the number of rows (Holm)."
        )
    return Table("The figures", tuple(columns), tuple(map(tuple, rows)), tuple(notes), frozenset(marked))


def _baseline(runs: Runs) -> Subject:
    if len(runs.runs) > 1:
        return runs.runs[0]
    return max((one for one in runs.subjects if not one.is_run), key=lambda one: one.figures[runs.ndcg].mean)


def _tested(test: Comparison | None) -> tuple[Cell, Cell, Cell]:
    if test is None:
        return None, None, None
    p = "< 0.0001" if test.p_holm < 1e-4 else f"{test.p_holm:.4f}"
    return _signed(test.difference), f"{_signed(test.low)} to {_signed(test.high)}", p


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
