"""`accord.posterior`: a log in, the probability that each of its interactions is real out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from accord.data.columns import Columns
from accord.data.load import load_whole
from accord.posteriors.estimate import Estimate, estimate


@dataclass(frozen=True)
class Posterior:
    """P(real | user, item, observed) of every interaction, under the caller's ids.

    >>> result = accord.posterior(accord.simulate(users=100, items=50, interactions=1_000).dataset)
    >>> result.table.num_rows, result.used
    (800, False)
    """

    table: pa.Table  # user, item, p_real, low, high, label (null where unknown), weight
    estimate: Estimate
    notes: tuple[str, ...]

    @property
    def used(self) -> bool:
        """Whether p_real comes from the labels."""
        return self.estimate.used


def posterior(
    log: Any,
    *,
    columns: Columns | None = None,
    labels: Any = None,
    events: str | None = None,
) -> Posterior:
    """The probability that each interaction of a log is a real preference, by the labels of some or by the log alone.

    `log`: what `accord.load` takes; of data that is already split, the training interactions. `labels`, `events`: as
    `accord.load` takes them. `low` to `high` is a 95% interval. The p_real of a labelled interaction comes from the
    other labels; its `weight` is its label, and p_real where there is none. Without labels, or where they do not
    improve p_real beyond chance, it follows from the log alone; `notes` says so.

    >>> log = accord.simulate(users=100, items=50, interactions=1_000).dataset
    >>> accord.posterior(log).table.column_names
    ['user', 'item', 'p_real', 'low', 'high', 'label', 'weight']
    """
    data = load_whole(log, columns=columns, labels=labels, events=events)
    train = data.csr(data.train, columns=("label",))
    result = estimate(train, train.columns.get("label"))
    table = pa.table(
        {
            "user": data.users.take(train.users),
            "item": data.items.take(train.items),
            "p_real": result.p_real,
            "low": result.low,
            "high": result.high,
            "label": pa.array(result.label, mask=np.isnan(result.label)),
            "weight": result.believed,
        }
    )
    return Posterior(table, result, (*data.notes, result.why))
