"""What the paper's overall table shows when it is run again."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np

from accord.comparing.compare import Cell
from accord_lab.charts import display_name
from accord_lab.findings import rules
from accord_lab.findings.raw import (
    Floats,
    Raw,
    bullets,
    fig,
    fig_sd,
    listed,
    named,
    paragraph,
    said,
    share,
)
from accord_lab.paper import METHODS, MODELS
from accord_lab.paper_tables.accuracy_tables import (
    RELEASED,
    Reference,
    is_close,
    measured,
    published_overall,
)
from accord_lab.paper_tables.experiment import KS, spread

OTHERS = tuple(method for method in METHODS if method not in RELEASED)  # no code was released for them


def metrics(dataset: str) -> list[str]:
    return [f"{kind}@{k}" for kind in ("recall", "ndcg") for k in KS[dataset]]


def _counts(raw: Raw, dataset: str, methods: tuple[str, ...]) -> tuple[int, int, int]:
    """How many values land on the paper's or the released code's, how many on the paper's alone, of how many."""
    either = alone = known = 0
    run = set(raw.cells(dataset))
    for model in MODELS:
        for method in methods:
            for metric in metrics(dataset):
                cell = Cell(model, method)
                paper = published_overall(dataset, cell, metric)
                if paper is None or cell not in run:
                    continue
                ours = raw.mean(dataset, cell, metric)
                known += 1
                either += is_close(ours, (paper, measured(dataset, cell, metric)))
                alone += is_close(ours, (paper,))
    return either, alone, known


def counted(raw: Raw, methods: tuple[str, ...]) -> str:
    """`48 of 48 values on Modcloth (45 of the paper's alone)`, for every dataset."""
    found = {dataset: _counts(raw, dataset, methods) for dataset in raw.datasets}
    both = methods == RELEASED
    return listed(
        [
            f"{either} of {known} values on {display_name(dataset)}"
            + (f" ({alone} of the paper's alone)" if both else "")
            for dataset, (either, alone, known) in found.items()
        ]
    )


def _landed(raw: Raw, methods: tuple[str, ...]) -> tuple[int, int]:
    counts = [_counts(raw, dataset, methods) for dataset in raw.datasets]
    return sum(either for either, _, _ in counts), sum(known for _, _, known in counts)


def _not_run(raw: Raw, methods: tuple[str, ...]) -> str:
    """` (not run yet: CDAE with DeCA(p) on Adressa)`; nothing where all were."""
    cells = [
        f"{named(cell)} on {display_name(dataset)}"
        for dataset in raw.datasets
        for cell in (Cell(model, method) for model in MODELS for method in methods)
        if cell not in raw.cells(dataset)
    ]
    return f" (not run yet: {listed(cells)})" if cells else ""


def _triples(values: Floats, references: tuple[Reference | None, ...]) -> str:
    """How often three of the seeds, as many as the paper has, would have landed."""
    means = [float(np.mean(three)) for three in itertools.combinations(values, 3)]
    return share(sum(is_close(mean, references) for mean in means) / len(means))


def _misses(raw: Raw, methods: tuple[str, ...]) -> list[str]:
    """Each value that lands on neither reference, with both."""
    found = []
    for dataset in raw.datasets:
        for cell in raw.cells(dataset):
            for metric in metrics(dataset) if cell.method in methods else ():
                references = published_overall(dataset, cell, metric), measured(dataset, cell, metric)
                values = raw.values(dataset, cell, metric)
                if references[0] is not None and not is_close(float(values.mean()), references):
                    epochs = sorted({line["epochs"] for line in raw.of(dataset, cell)})
                    ended = f"; runs ended after {epochs[0]} to {epochs[-1]} epochs" if len(epochs) > 1 else ""
                    lands = f" (three of these seeds land in {_triples(values, references)} of all choices{ended})"
                    where = f" on {display_name(dataset)}" if len(raw.datasets) > 1 else ""
                    found.append(
                        f"{metric} of {named(cell)}{where}, {fig_sd(values)} against {_both(*references)}{lands}"
                    )
    return found


def _both(paper: Reference | None, released: Reference | None) -> str:
    shown = [
        f"{who} {fig(ref[0], digits)}" + (f" ± {fig(ref[1], digits)}" if ref[1] else "")
        for who, ref, digits in (("the paper's", paper, 3), ("the released code's", released, 4))
        if ref is not None
    ]
    return " and ".join(shown)


def where(folder: Path) -> str:
    """On the copies of the overall table: more seeds, and a CPU."""
    more, cpu = Raw(folder / "seeds-12/published", "overall"), Raw(folder / "cpu/published", "overall")
    seeds = len({line["seed"] for line in more.lines if line["method"] != "none"})
    learned = [line for line in cpu.lines if line["method"] != "none"]
    either, known = _landed(cpu, RELEASED)
    minutes = sum(line["seconds"] for line in cpu.lines) / 60
    return bullets(
        [
            (
                "[Overall comparison](published/overall.md): MovieLens-100k, Modcloth and Adressa.",
                "[Raw](published/overall.jsonl). The same with",
                f"[{'twelve' if seeds == 12 else seeds} seeds](seeds-12/published/overall.md), on",
                f"{listed([display_name(one) for one in more.datasets])}{_not_run(more, tuple(METHODS))}; and all of",
                "MovieLens-100k again on",
                f"[two CPU cores](cpu/published/overall.md){_not_run(cpu, tuple(METHODS))}, where the {len(learned)}",
                f"runs take {minutes:.1f}",
                "minutes and",
                f"{either} of {known} values agree.",
            )
        ]
    )


def overall(folder: Path) -> str:
    raw, more = Raw(folder / "published", "overall"), Raw(folder / "seeds-12/published", "overall")
    gmf_deca = Cell("gmf", "deca")
    few, many = (one.values("ml-100k", gmf_deca) for one in (raw, more))
    paper_sd = (published_overall("ml-100k", gmf_deca, "recall@20") or (0.0, 0.0))[1]
    either, known = _landed(more, RELEASED)
    misses = _misses(more, RELEASED)
    return bullets(
        [
            (
                "**Normal, DeCA and DeCA(p)**, for which code was released, mostly agree with the paper: within 5%",
                "or two",
                f"standard deviations of the paper's or the released code's values are {counted(raw, RELEASED)}.",
            ),
            (
                "**Few seeds leave much to chance.** On MovieLens, recall@20 of GMF with DeCA has a standard",
                "deviation of",
                f"{fig(spread(few))} between {len(few)} seeds and of {fig(spread(many))} between {len(many)}, and",
                "between",
                f"the paper's seeds one of {fig(paper_sd, 3)}. Over [{len(many)} seeds](seeds-12/published/overall.md)",
                f"{either} of {known} values agree{_not_run(more, RELEASED)}. What still differs: {'; '.join(misses)}.",
            ),
            _lightgcn_on_adressa(raw),
            _others(raw, more, len(many)),
            rules.wbpr(folder / "published"),
            (*_tce(raw), *rules.tce(folder / "published", _runs(raw, "tce"))),
            rules.ensemble(folder / "published"),
            _needs_no_denoising(raw),
        ]
    )


def _lightgcn_on_adressa(raw: Raw) -> tuple[str, ...]:
    normal, deca = Cell("lightgcn", "normal"), Cell("lightgcn", "deca")
    against = [
        f"{metric} {fig(raw.mean('adressa', normal, metric))} against {fig(ref[0], 3)}"
        for metric in metrics("adressa")
        if (ref := published_overall("adressa", normal, metric)) is not None
    ]
    ours = raw.mean("adressa", deca)
    paper, released = (look("adressa", deca, "recall@20") for look in (published_overall, measured))
    assert paper is not None
    assert released is not None
    return (
        f"**LightGCN on Adressa**: Normal against the paper's: {'; '.join(against)}.",
        said(
            f"DeCA agrees with the released code (recall@20 {fig(ours)} against its {fig(released[0])}), and both "
            "are far "
            f"below the paper's {fig(paper[0], 3)}: what the paper ran there was not what was released.",
            is_close(ours, (released,)),
            max(ours, released[0]) < 0.8 * paper[0],
        ),
    )


def _others(raw: Raw, more: Raw, seeds: int) -> tuple[str, ...]:
    landed, known = _landed(raw, OTHERS)
    again, of = _landed(more, OTHERS)
    return (
        f"**WBPR, T-CE and Ensemble**, for which no code was released: {counted(raw, OTHERS)}, {landed} of {known}",
        f"in all: {_each(raw)}. Over {seeds} seeds {again} of {of} agree: {_each(more)}. Of the {of - again}",
        f"that do not, {_with_normal(more)} are values in which Normal of the same model differs from the paper's,",
        "too; the rest is what these methods do differently from the paper's of the same name.",
    )


def _with_normal(raw: Raw) -> int:
    """Of the values of methods without code that miss, those of which Normal's misses."""

    def misses(dataset: str, cell: Cell, metric: str) -> bool:
        return not is_close(raw.mean(dataset, cell, metric), (published_overall(dataset, cell, metric),))

    return sum(
        misses(dataset, cell, metric) and misses(dataset, Cell(cell.model, "normal"), metric)
        for dataset in raw.datasets
        for cell in raw.cells(dataset)
        if cell.method in OTHERS
        for metric in metrics(dataset)
    )


def _each(raw: Raw) -> str:
    """Of each method without code how many values agree."""
    each = []
    for method in OTHERS:
        own, of = _landed(raw, (method,))
        each.append(f"of {display_name(method)} {own} of {of}{_not_run(raw, (method,))}")
    return listed(each)


def _runs(raw: Raw, method: str) -> rules.Tried:
    """The metrics of a method that the paper has, of each seed."""
    return {
        (dataset, cell.model): [
            {name: line["metrics"][name] for name in metrics(dataset)} for line in raw.of(dataset, cell)
        ]
        for dataset in raw.datasets
        for cell in raw.cells(dataset)
        if cell.method == method
    }


def _tce(raw: Raw) -> tuple[str, ...]:
    far = [
        abs(raw.mean(dataset, Cell(model, "tce")) / raw.mean(dataset, Cell(model, "normal")) - 1)
        for dataset in raw.datasets
        for model in MODELS
    ]
    lightgcn = Cell("lightgcn", "tce")
    paper = published_overall("ml-100k", lightgcn, "recall@20")
    assert paper is not None
    return (
        f"**T-CE** is within {share(max(far), 1)} of Normal here in recall@20, since its schedule drops little in",
        "the few",
        f"thousand steps of these runs; the paper's LightGCN with T-CE on MovieLens ({fig(paper[0], 3)}, ours",
        said(
            f"{fig(raw.mean('ml-100k', lightgcn))}) must have dropped more.", raw.mean("ml-100k", lightgcn) > paper[0]
        ),
    )


def _needs_no_denoising(raw: Raw) -> tuple[str, ...]:
    told = []
    for dataset, model in (("ml-100k", "ease"), ("modcloth", "popularity")):
        rows = {cell: raw.mean(dataset, cell) for cell in raw.cells(dataset) if cell.method}
        best, solved = max(rows, key=rows.__getitem__), raw.mean(dataset, Cell(model, None))
        told.append(
            said(
                f"{display_name(model)} beats every row on {display_name(dataset)}, {fig(solved)} against "
                f"{fig(rows[best])} at best ({named(best)})",
                solved > rows[best],
            )
        )
    return (f"**Popularity and EASE** (l2 untuned) need no denoising. In recall@20, {listed(told)}.",)


def baselines(folder: Path) -> str:
    """Popularity and EASE against the best that the paper has, whatever the model and method."""
    raw = Raw(folder / "published", "overall")
    told = []
    for dataset in raw.datasets:
        best = {
            metric: max(
                paper[0]
                for model in MODELS
                for method in METHODS
                if (paper := published_overall(dataset, Cell(model, method), metric)) is not None
            )
            for metric in metrics(dataset)
        }
        ours = [
            f"{display_name(model)} has {', '.join(fig(raw.mean(dataset, Cell(model, None), one)) for one in best)}"
            for model in ("popularity", "ease")
        ]
        told.append(
            (
                f"{display_name(dataset)}: in {', '.join(best)} the best of any model and method in the paper are",
                f"{', '.join(fig(value, 3) for value in best.values())}; {' and '.join(ours)}.",
            )
        )
    after = (
        "EASE has its default penalty there. It gives users without history no scores, and item order decides; under"
    )
    return bullets(told) + "\n" + paragraph(after, "`corrected` they get the popular items.")


PARTS_OF_PAGE = {"where": where, "overall": overall}
