"""Steps towards the solution of least squares: compiled, plain, and solved by numpy."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from accord.kernels import cpu, least_squares
from accord.kernels.least_squares import SparseRows

RNG = np.random.default_rng(0)
X = RNG.integers(1, 5, (40, 30)) / 2 * (RNG.random((40, 30)) < 0.3)
X[7] = 0  # a row without anything
VECTORS, START = RNG.standard_normal((30, 6)), RNG.standard_normal((40, 6))
SPECTRUM, PENALTY = RNG.uniform(1, 20, 6), RNG.uniform(0.5, 2, 40)


def found(steps, start=START, threads=1):
    rows = SparseRows(sp.csr_matrix(X, dtype=np.float32), torch.device("cpu"))
    vectors, spectrum, penalty, own = (
        torch.tensor(part, dtype=torch.float32) for part in (VECTORS, SPECTRUM, PENALTY, start)
    )
    return rows.conjugate_gradient_steps(vectors, spectrum, penalty, own, steps, threads).double().numpy()


def best():
    """Row by row."""
    made = np.zeros((40, 6))
    for row, counts in enumerate(X):
        left = np.diag(SPECTRUM + PENALTY[row]) + (VECTORS * counts[:, None]).T @ VECTORS
        made[row] = np.linalg.solve(left, counts @ VECTORS)
    return made


def losses(w):
    """What the steps make smaller, of each row."""
    return (X * (w @ VECTORS.T - 1) ** 2).sum(1) + ((SPECTRUM + PENALTY[:, None]) * w**2).sum(1)


@pytest.fixture(params=["compiled", "plain"])
def _each_way(request, monkeypatch):
    if request.param == "plain":
        monkeypatch.setattr(cpu, "_compiled", lambda: None)
        monkeypatch.setattr(least_squares, "NUMBERS_AT_ONCE", 100)


@pytest.mark.usefixtures("_each_way")
def test_as_many_steps_as_unknowns_solve_it():
    np.testing.assert_allclose(found(6), best(), atol=1e-5)
    np.testing.assert_allclose(found(50), best(), atol=1e-5)  # and no step leads away from there
    assert not found(1)[7].any()


@pytest.mark.usefixtures("_each_way")
def test_every_step_comes_closer():
    least, before = losses(best()), losses(np.where(X.any(1)[:, None], START, 0))
    for steps in range(1, 6):
        after = losses(found(steps))
        assert (after <= before + 1e-5).all()
        assert after.sum() - least.sum() < 0.5 * (before.sum() - least.sum())
        before = after


@pytest.mark.usefixtures("_each_way")
def test_what_is_solved_stays():
    np.testing.assert_allclose(found(3, best()), best(), atol=1e-5)
    assert not found(3, np.zeros((40, 6)))[7].any()


def test_compiled_and_plain_take_the_same_steps_and_threads_change_nothing(monkeypatch):
    compiled = found(2)
    assert np.array_equal(found(2, threads=3), compiled)
    monkeypatch.setattr(cpu, "_compiled", lambda: None)
    np.testing.assert_allclose(found(2), compiled, atol=1e-5)


@pytest.mark.usefixtures("_each_way")
def test_vectors_so_small_that_products_vanish_stay_numbers(monkeypatch):
    """As of users with one item each at the start of iALS on a large log: what is left to go after two steps has a
    square that is no number, and the third step was infinite."""
    monkeypatch.setattr(least_squares, "NUMBERS_AT_ONCE", 2**20)
    rng, count = np.random.default_rng(0), 2_000
    columns = rng.integers(0, 50, count)
    x = sp.csr_matrix((np.ones(count, np.float32), (np.arange(count), columns)), shape=(count, 50))
    rows, penalty, spectrum = SparseRows(x, torch.device("cpu")), torch.full((count,), 19.8), torch.linspace(0, 1, 16)
    for size in range(-12, -3):
        vectors, own = (torch.tensor(rng.standard_normal((n, 16)) * 10.0**size).float() for n in (50, count))
        made, expected = (
            rows.conjugate_gradient_steps(vectors, spectrum, penalty, own.clone(), 3, 1),
            vectors[columns] / 19.8,
        )
        assert made.isfinite().all()
        torch.testing.assert_close(made, expected, atol=0.1 * 10.0**size, rtol=0)
