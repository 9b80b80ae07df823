"""Noise injected into real data, with labels that say so."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from accord.data.interactions import IdMap, Interactions
from accord.data.simulate import BoolArray, draw_pairs
from accord.errors import InputError, unknown

KINDS = ("uniform", "popularity", "user")


def inject(
    interactions: Interactions, kind: str, rate: float, seed: int = 0, avoid: Sequence[Interactions] = ()
) -> tuple[Interactions, BoolArray]:
    """Add noise until it is `rate` of the result; returns it and, for each of its rows, whether it was there before.

    Items are drawn uniformly, or by `popularity`; users by their activity, so each has about the same share of noise,
    or (`user`) by activity and a propensity that differs between users (Beta). Never an existing pair, nor one of
    `avoid` (a dataset's valid and test, say); value and time are those of random existing rows.

    >>> import accord, accord_lab.injection
    >>> train = accord.simulate(users=100, items=50, interactions=1_000).dataset.train
    >>> noisier, was_there = accord_lab.injection.inject(train, "uniform", rate=0.5)
    >>> len(noisier), int(was_there.sum())
    (1600, 800)
    """
    if kind not in KINDS:
        raise unknown("noise kind", kind, KINDS)
    if not 0 <= rate < 1:
        raise InputError(f"noise rate {rate:g} must be at least 0 and below 1.")
    rows = Interactions(interactions.table.combine_chunks())
    rng = np.random.Generator(np.random.PCG64(seed))
    users, items = IdMap.of(rows.users), IdMap.of(rows.items)
    user, item = users.rows(rows.users), items.rows(rows.items)
    count = round(len(rows) * rate / (1 - rate))

    activity = np.bincount(user, minlength=len(users)).astype(np.float64)
    if kind == "user":
        propensity = np.minimum(rng.beta(0.7, 2.0, size=len(users)), 0.95)
        activity *= propensity / (1 - propensity)
    popularity = np.bincount(item, minlength=len(items)).astype(np.float64)
    blocked = [user * len(items) + item]
    for part in avoid:
        other_user, other_item = users.rows(part.users), items.rows(part.items)
        present = (other_user >= 0) & (other_item >= 0)
        blocked.append(other_user[present] * len(items) + other_item[present])
    taken = np.unique(np.concatenate(blocked))
    if count > len(users) * len(items) - len(taken):
        raise InputError(f"noise rate {rate:g} needs {count} free pairs, and there are fewer; ask for a lower rate.")
    keys = draw_pairs(taken, activity, popularity if kind == "popularity" else np.ones(len(items)), count, rng)

    canonical = np.lexsort((item, user))  # so that the order of the rows does not matter
    like = rows.take(canonical[rng.integers(len(rows), size=count)]).table
    noise = like.set_column(0, like.field(0), users.take(keys // len(items)).cast(like.field(0).type))
    noise = noise.set_column(1, like.field(1), items.take(keys % len(items)).cast(like.field(1).type))
    is_real = np.repeat([True, False], [len(rows), count])
    return Interactions(pa.concat_tables([rows.table, noise])), is_real
