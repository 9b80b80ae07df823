"""What injected noise shows: whether it is found, and what it costs."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from accord_lab.charts import display_name
from accord_lab.findings.raw import bullets, fig, listed, percent, said, span
from accord_lab.known_noise import BUILT_IN, CLEAN
from accord_lab.noise_injection import KIND_NAMES, Found, Where, read_runs
from accord_lab.paper_tables.experiment import spread

RowKey = tuple[str, str | None]
SHOWN = ("normal", "deca", "deca-p")  # of every model, in the sentence on costs


def _auc(one: Found, row: RowKey, where: Where) -> float:
    values = one.noise(row, where, "auc")
    assert values is not None
    return float(values.mean())


def _cost(one: Found, row: RowKey, where: Where) -> float:
    return float(one.loss(row, where).mean())


def injected(folder: Path) -> str:
    every = read_runs(folder / "corrected")
    kinds = [_finding(every["ml-100k"], "ml-100k", kind) for kind in ("uniform", "popularity", "user")]
    return bullets([*kinds, _modcloth(every["modcloth"]), _built_in(every["demo"]), *_costs(every)])


def _name(row: RowKey) -> str:
    return display_name(row[1] or row[0])


def _by_rate(one: Found, row: RowKey, kind: str) -> list[float]:
    return [_auc(one, row, where) for where in one.noises if where[0] == kind]


def _finding(one: Found, dataset: str, kind: str) -> tuple[str, ...]:
    """How well a kind of noise is found: by the best method of every model, by Normal, and by models without one."""
    values = {row: _by_rate(one, row, kind) for row in one.rows}
    shown = []
    for model in dict.fromkeys(model for model, method in one.rows if method):
        best = max((row for row in one.rows if row[0] == model), key=lambda row: sum(values[row]))
        normal = f"; Normal {span(values[model, 'normal'], 2)}" if best[1] != "normal" else ""
        shown.append(f"{display_name(model)} {span(values[best], 2)} ({_name(best)}{normal})")
    plain = sorted((row for row in one.rows if not row[1]), key=lambda row: -sum(values[row]))
    shown += [f"{_name(row)} {span(values[row], 2)}" for row in plain]
    rates = [rate for name, rate in one.noises if name == kind]
    return (
        f"**{KIND_NAMES[kind].capitalize()} noise** on {display_name(dataset)}, {min(rates):.0%} to {max(rates):.0%}",
        "of the pairs, is found with an AUC of (models with the method that is best there):",
        f"{', '.join(shown)}.",
    )


def _modcloth(one: Found) -> tuple[str, ...]:
    learned = [row for row in one.rows if row[1]]
    worst = min(_cost(one, row, where) for row in learned for where in one.noises)
    told = []
    for kind in ("uniform", "popularity", "user"):
        best = max(learned, key=lambda row: sum(_by_rate(one, row, kind)))
        popular = next(row for row in one.rows if row[0] == "popularity")
        told.append(
            f"{KIND_NAMES[kind]} {span(_by_rate(one, best, kind), 2)} ({_name(best)}; popularity "
            f"{span(_by_rate(one, popular, kind), 2)})"
        )
    return (
        f"**Modcloth**: the best learned method at each kind: {listed(told)}. No learned row loses more than",
        f"{abs(worst):.1%} of NDCG@20: where tuning drives the penalty of GMF high, its list is the popular items.",
    )


def _built_in(one: Found) -> tuple[str, ...]:
    (where,) = one.noises
    values = {row: _auc(one, row, where) for row in one.rows}
    order = sorted(values, key=values.__getitem__, reverse=True)
    normal, popular = values["gmf", "normal"], values["popularity", None]
    return (
        f"**Built-in data** ({where[1]:.0%} of noise of its own, by popularity and position):",
        f"{', '.join(f'{_name(row)} {fig(values[row], 3)}' for row in order)}.",
        said("Here plain training finds it far better than popularity.", normal > popular + 0.1),
    )


def _costs(every: dict[str, Found]) -> list[tuple[str, ...]]:
    one, built_in = every["ml-100k"], every["demo"]
    learned = [row for row in one.rows if row[1]]
    low = [where for where in one.noises if where[1] <= 0.2]
    over = [
        (row, where)
        for row in learned
        for where in low
        if abs(_cost(one, row, where)) > spread(one.ndcg(row, (CLEAN, 0.0))) / float(one.ndcg(row, (CLEAN, 0.0)).mean())
    ]
    high = max(rate for _, rate in one.noises)
    (where,) = [where for where in built_in.noises if where[0] == BUILT_IN]
    own = {row: _cost(built_in, row, where) for row in built_in.rows}
    others = [row for row in learned if row[1] != "normal"]
    less = [row for row in others if _mean_cost(one, row, high) > _mean_cost(one, (row[0], "normal"), high)]
    better = [row for row in less if _mean_ndcg(one, row, high) > _mean_ndcg(one, (row[0], "normal"), high)]
    models = dict.fromkeys(model for model, _ in learned)
    shown = [
        f"{display_name(model)} {', '.join(_name((model, m)) + ' ' + _span(one, (model, m), high) for m in SHOWN)}"
        for model in models
    ]
    shown += [f"{_name(row)} {_span(one, row, high)}" for row in one.rows if not row[1] and row[0] != "popularity"]
    return [
        (
            "**What it costs.** On MovieLens-100k, noise of up to 20% changes NDCG@20 by more than one standard",
            "deviation",
            f"between seeds in {len(over)} of {len(learned) * len(low)} cells. At {high:.0%}, over the kinds of noise:",
            f"{'; '.join(shown)}. Of the {len(others)} other rows {len(less)} lose less than Normal of their model on",
            f"average over the kinds, and {len(better)} of these also recommend better than it there:",
            f"{listed([f'{display_name(row[0])} with {_name(row)}' for row in better])}. On built-in data:",
            f"{', '.join(f'{_name(row)} {percent(cost)}' for row, cost in own.items())}.",
        )
    ]


def _span(one: Found, row: RowKey, rate: float) -> str:
    own = [_cost(one, row, where) for where in one.noises if where[1] == rate]
    return f"{percent(min(own))} to {percent(max(own))}"


def _mean_cost(one: Found, row: RowKey, rate: float) -> float:
    return float(np.mean([_cost(one, row, where) for where in one.noises if where[1] == rate]))


def _mean_ndcg(one: Found, row: RowKey, rate: float) -> float:
    return float(np.mean([one.ndcg(row, where).mean() for where in one.noises if where[1] == rate]))
