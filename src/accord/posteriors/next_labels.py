"""Which interactions to label next: where a label would tell most, no two of one user or item."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Rows = npt.NDArray[np.integer[Any]]


def uncertainty(p_real: Floats, used: bool) -> Floats:
    """What to ask for first, [n]: the most where labels are behind p_real (`used`) and leave most open whether an
    interaction is real. As long as they teach nothing, any at random: a sample that looks like the log teaches soonest,
    and one of doubtful cases hides that there is something to learn."""
    return p_real * (1 - p_real) if used else np.random.default_rng(0).random(len(p_real))


def next_labels(unsure: Floats, users: Rows, items: Rows, number: int) -> Rows:
    """The places of so many interactions, the most uncertain first, of users and items that all differ; where these
    run out, of any. `unsure` [n]: NaN for what must not be chosen, as it has a label."""
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
