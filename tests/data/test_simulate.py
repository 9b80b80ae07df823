from __future__ import annotations

import hashlib

import numpy as np
import numpy.typing as npt
import pytest

from accord.data.simulate import Simulation, simulate
from accord.errors import InputError


@pytest.fixture(scope="module")
def demo() -> Simulation:
    return simulate()


def test_sizes_and_noise(demo: Simulation) -> None:
    data = demo.dataset
    assert data.test_noisy is not None
    assert (len(data.users), len(data.items)) == (1000, 600)
    assert len(data.train) + len(data.valid) + len(data.test_noisy) == 40_000
    assert 0.25 < 1 - demo.is_real.mean() < 0.30
    assert data.users.ids[0].as_py() == "u0001"
    assert data.items.ids[599].as_py() == "i0600"


def test_labels_are_the_preference(demo: Simulation) -> None:
    data = demo.dataset
    users, items = data.users.rows(data.train.users), data.items.rows(data.train.items)
    assert (demo.preference[users, items] == demo.is_real).all()
    users, items = data.users.rows(data.test.users), data.items.rows(data.test.items)
    assert demo.preference[users, items].all()
    assert data.valid_clean is not None
    assert 0 < len(data.valid_clean) < len(data.valid)
    # noisy negatives: most of what is liked was never seen
    assert demo.preference.sum() > 3 * demo.is_real.sum()


def test_the_same_seed_gives_the_same_data(demo: Simulation) -> None:
    train = demo.dataset.train.table
    text = "\n".join(
        f"{user} {item} {value:g}" for user, item, value in zip(*map(list, train.to_pydict().values()), strict=True)
    )
    # pinned, so that a change of numpy's streams or of ours does not pass unseen
    assert (
        hashlib.sha256(text.encode()).hexdigest() == "65169b5fb687f597780383e4b9c73211cdb4ee90ef32411283c3a03327a60ec1"
    )
    small, again, other = (simulate(80, 60, 1000, seed=seed) for seed in (1, 1, 2))
    assert small.dataset.train.table.equals(again.dataset.train.table)
    assert (small.preference == again.preference).all()
    assert not small.dataset.train.table.equals(other.dataset.train.table)


def test_there_is_structure_to_learn_beyond_popularity(demo: Simulation) -> None:
    data = demo.dataset
    train, held_out = data.csr(data.train), data.csr(data.test)
    seen = np.zeros((1000, 600))
    seen[train.users, train.items] = 1
    inverse = np.linalg.inv(seen.T @ seen + 300 * np.eye(600))
    ease = seen @ (np.eye(600) - inverse / np.diag(inverse))

    def recall(scores: npt.NDArray[np.float64]) -> float:
        top = np.argsort(-np.where(seen > 0, -np.inf, scores), axis=1)[:, :20]
        hits = (held_out.items[:, None] == top[held_out.users]).any(axis=1)
        return float(hits.mean())

    popularity = np.tile(seen.sum(axis=0), (1000, 1))
    assert recall(ease) > 1.5 * recall(popularity)
    # popularity alone must not give the noise away
    real, noise = (popularity[0][train_items] for train_items in _by_label(demo))
    order = np.searchsorted(np.sort(noise), real, side="left") + np.searchsorted(np.sort(noise), real, side="right")
    assert 0.5 < order.mean() / 2 / len(noise) < 0.7


def _by_label(demo: Simulation) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    items = demo.dataset.items.rows(demo.dataset.train.items)
    return items[demo.is_real], items[~demo.is_real]


def test_impossible_wishes() -> None:
    with pytest.raises(InputError, match="too many for 10 users and 10 items"):
        simulate(10, 10, 1000)
    with pytest.raises(InputError, match="at least two users"):
        simulate(1, 10, 5)
