"""Which interactions to label next: where a label would teach most, no two of one user or item."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Rows = npt.NDArray[np.integer[Any]]


def uncertainty(p_real: Floats, used: bool) -> Floats:
    """How urgent a label is, [n]: by how uncertain p_real is, where labels are `used` for it.

    As long as labels teach nothing it is random: a sample that looks like the log teaches soonest, and one of doubtful
    cases hides that there is something to learn."""
    return p_real * (1 - p_real) if used else np.random.default_rng(0).random(len(p_real))


def next_labels(unsure: Floats, users: Rows, items: Rows, number: int) -> Rows:
    """Positions of that `number` of interactions, the most uncertain first, of different users and items; where these
    run out, of any. `unsure` [n]: NaN for those that have a label already."""
    order = np.argsort(-unsure, kind="stable")
    order = order[~np.isnan(unsure[order])]
    seen: tuple[set[int], set[int]] = set(), set()
    chosen: list[int] = []
    for place in order.tolist():
        if len(chosen) == number:
            break
        user, item = int(users[place]), int(items[place])
        if user not in seen[0] and item not in seen[1]:
            seen[0].add(user)
            seen[1].add(item)
            chosen.append(place)
    rest = order[~np.isin(order, chosen)][: number - len(chosen)]
    return np.concatenate([np.array(chosen, dtype=np.int64), rest])
