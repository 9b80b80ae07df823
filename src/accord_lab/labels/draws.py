"""Ways to draw some of the labels of a dataset."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np
import pyarrow as pa

from accord.data.interactions import Dataset, Interactions
from accord_lab.names import Floats

By = Literal["random", "users", "popular", "one-class", "few", "wrong"]
FIRST_DRAW = 1000  # the random seed of draw 0
POPULAR = 0.1  # share of the items that "popular" draws from
REAL = 0.9  # share of real ones among the labels of "one-class"
FEW = 20  # labels of "few"
WRONG = 0.1  # share of the labels of "wrong" that are flipped
DESCRIPTIONS: dict[str, str] = {
    "random": "{share:.0%}",
    "users": "{share:.0%} of users",
    "popular": "{share:.0%}, all of the most popular tenth of the items",
    "one-class": "{share:.0%}, nine of ten of them real",
    "few": "20 in all",
    "wrong": "{share:.0%}, one of ten of them wrong",
}


def drawn_labels(data: Dataset, share: float, by: By, draw: int) -> Floats:
    """The labels of a share of the labelled training interactions, drawn in one of the ways; NaN elsewhere."""
    label, rng = data.train.column("label").astype(np.float64), np.random.default_rng(FIRST_DRAW + draw)
    labelled = ~np.isnan(label)
    if by == "users":
        chosen = rng.permutation(len(data.users))[: max(1, round(share * len(data.users)))]
        return np.where(np.isin(data.rows(data.train)[0], chosen), label, np.nan)
    if by == "few":
        drawn = np.zeros(len(label), dtype=bool)
        drawn[rng.permutation(np.flatnonzero(labelled))[:FEW]] = True
        return np.where(drawn, label, np.nan)
    chance: Floats | float = share
    if by == "popular":
        items = data.rows(data.train)[1]
        counts = np.bincount(items, minlength=len(data.items))
        among = np.isin(items, np.argsort(-counts, kind="stable")[: max(1, round(POPULAR * len(counts)))])
        chance = np.where(among, share * labelled.sum() / max(1, (among & labelled).sum()), 0.0)
    elif by == "one-class":
        real, noise = labelled & (label > 0.5), labelled & (label <= 0.5)
        wanted = share * min(labelled.sum(), real.sum() / REAL)
        chance = np.where(real, REAL * wanted / real.sum(), (1 - REAL) * wanted / max(1, noise.sum()))
    drawn = rng.random(len(label)) < chance
    if by == "wrong":
        label = np.where(rng.random(len(label)) < WRONG, 1 - label, label)
    return np.where(drawn, label, np.nan)


def without_labels(data: Dataset) -> Dataset:
    valid_clean = None if data.valid_clean is None else data.valid_clean.without("label")
    parts = {name: getattr(data, name).without("label") for name in ("train", "valid")}
    return replace(data, **parts, valid_clean=valid_clean)


def with_train_labels(data: Dataset, label: Floats) -> Dataset:
    """The data with these labels of its training rows, NaN where there is none."""
    rows = data.train.without("label").rows.append_column("label", pa.array(label, from_pandas=True))
    return replace(data, train=Interactions(rows, (data.train.user_ids, data.train.item_ids)))
