"""Noise injected into real data: how much, where, and never where something is already."""

from __future__ import annotations

import numpy as np
import pytest

from accord.data.interactions import Dataset, Interactions
from accord.data.simulate import Simulation, simulate
from accord.data.split import pairs
from accord.errors import InputError
from accord_lab.injection import KINDS, inject


@pytest.fixture(scope="module")
def demo() -> Simulation:
    return simulate()


def keys_of(dataset: Dataset, part: Interactions) -> set[int]:
    return set(pairs(dataset, part).tolist())


@pytest.mark.parametrize("kind", KINDS)
def test_injected_noise(demo: Simulation, kind: str) -> None:
    data = demo.dataset
    noisy, is_real = inject(data.train, kind, 0.2, seed=3, avoid=[data.valid, data.test])
    assert (~is_real).mean() == pytest.approx(0.2, abs=1e-4)
    assert noisy.filter(is_real).table.equals(data.train.table)
    added = noisy.filter(~is_real)
    assert len(keys_of(data, added)) == len(added)
    for part in (data.train, data.valid, data.test):
        assert not keys_of(data, added) & keys_of(data, part)
    assert set(added.column("value")) == {0.0, 1.0}
    again, _ = inject(data.train, kind, 0.2, seed=3, avoid=[data.valid, data.test])
    assert again.table.equals(noisy.table)
    assert not inject(data.train, kind, 0.2, seed=4)[0].table.equals(noisy.table)


def test_kinds_of_noise_differ(demo: Simulation) -> None:
    data = demo.dataset
    popularity, activity = data.csr(data.train).popularity(), data.csr(data.train).counts
    told = {}
    for kind in KINDS:
        noisy, is_real = inject(data.train, kind, 0.3, seed=0)
        added = noisy.filter(~is_real)
        per_user = np.bincount(data.users.rows(added.users), minlength=1000) / activity
        told[kind] = (popularity[data.items.rows(added.items)].mean(), per_user.std())
    assert told["popularity"][0] > 1.2 * told["uniform"][0]
    assert told["user"][1] > 2 * told["uniform"][1]


def test_injection_is_free_of_row_order_and_keeps_types() -> None:
    rng = np.random.default_rng(0)
    keys = rng.permutation(30 * 40)[:300]
    data = Interactions.of(keys // 40, keys % 40, time=rng.integers(0, 99, 300))
    shuffled = data.take(rng.permutation(300))
    first, labels = inject(data, "popularity", 0.25, seed=1)
    second, _ = inject(shuffled, "popularity", 0.25, seed=1)
    assert first.filter(~labels).table.equals(second.filter(~labels).table)
    assert first.table.schema.equals(data.table.schema)
    nothing, labels = inject(data, "uniform", 0)
    assert labels.all()
    assert len(nothing) == 300


def test_bad_injections() -> None:
    data = Interactions.of([0, 0, 1], [0, 1, 0])
    with pytest.raises(InputError, match="unknown noise kind 'uniforms'; did you mean 'uniform'"):
        inject(data, "uniforms", 0.1)
    with pytest.raises(InputError, match="must be at least 0 and below 1"):
        inject(data, "uniform", 1.0)
    with pytest.raises(InputError, match="needs 3 free pairs"):
        inject(data, "uniform", 0.5)
