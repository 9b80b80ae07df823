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
    """P(real | user, item, observed) of every interaction, under the caller's own ids.

    >>> found = accord.posterior(accord.simulate(users=100, items=50, interactions=1_000).dataset)
    >>> found.table.num_rows, found.used
    (800, False)
    """

    table: pa.Table  # user, item, p_real, low, high, label (null where unknown), weight
    estimate: Estimate
    notes: tuple[str, ...]

    @property
    def used(self) -> bool:
        """Whether labels are behind p_real."""
        return self.estimate.used


def posterior(
    log: Any,
    *,
    columns: Columns | None = None,
    labels: Any = None,
    events: str | None = None,
) -> Posterior:
    """The probability that each interaction of a log is a real preference, learned from the labels of some.

    `log`: what `accord.load` takes; of data that is already split, the training interactions. `labels`, `events`: as
    `accord.load` takes them. `low` and `high` hold the probability 19 times of 20. A labelled interaction's p_real is
    what the other labels say of it; its `weight` is its label, and p_real where there is none. Without labels, or where
    they teach nothing beyond chance, p_real follows from the log alone; `notes` says so.

    >>> log = accord.simulate(users=100, items=50, interactions=1_000).dataset
    >>> accord.posterior(log).table.column_names
    ['user', 'item', 'p_real', 'low', 'high', 'label', 'weight']
    """
    data = load_whole(log, columns=columns, labels=labels, events=events)
    train = data.csr(data.train, columns=("label",))
    found = estimate(train, train.columns.get("label"))
    table = pa.table(
        {
            "user": data.users.take(train.users),
            "item": data.items.take(train.items),
            "p_real": found.p_real,
            "low": found.low,
            "high": found.high,
            "label": pa.array(found.label, mask=np.isnan(found.label)),
            "weight": found.believed,
        }
    )
    return Posterior(table, found, (*data.notes, found.why))
