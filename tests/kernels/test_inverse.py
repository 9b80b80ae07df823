"""The inverse by sweeps against numpy's."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from accord.kernels import inverse


def positive(size, seed=0):
    x = np.random.default_rng(seed).normal(size=(size, size))
    return x @ x.T + np.eye(size)


@pytest.mark.parametrize("size", [1, 7, 8, 9, 50])
def test_it_is_minus_the_inverse_below_the_diagonal(monkeypatch, size):
    monkeypatch.setattr(inverse, "BLOCK", 8)
    matrix = positive(size)
    found = matrix.copy()
    found[np.triu_indices(size, 1)] = np.nan  # not read
    inverse.sweep(found)
    np.testing.assert_allclose(np.tril(found), np.tril(-np.linalg.inv(matrix)), atol=1e-9)


def test_float32_is_close(monkeypatch):
    monkeypatch.setattr(inverse, "BLOCK", 8)
    matrix = positive(50) + 50 * np.eye(50)
    found = matrix.astype(np.float32)
    inverse.sweep(found)
    np.testing.assert_allclose(np.tril(found), np.tril(-np.linalg.inv(matrix)), atol=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_any_number_of_threads_gives_the_same_bits(monkeypatch, dtype):
    monkeypatch.setattr(inverse, "BLOCK", 16)
    made = []
    for threads in (1, 2, 3):
        torch.set_num_threads(threads)
        matrix = positive(100).astype(dtype)
        inverse.sweep(matrix)
        assert torch.get_num_threads() == threads
        made.append(np.tril(matrix).tobytes())
    torch.set_num_threads(1)
    assert len(set(made)) == 1


def test_threads_share_the_rows(monkeypatch):
    """As many as torch has, though torch itself has one while it goes on."""
    asked, shared = [], inverse.cpu.in_threads

    def counting(work, calls, threads=None):
        asked.append(threads or torch.get_num_threads())
        shared(work, calls, threads)

    monkeypatch.setattr(inverse, "BLOCK", 16)
    monkeypatch.setattr(inverse.cpu, "in_threads", counting)
    torch.set_num_threads(3)
    inverse.sweep(positive(100))
    torch.set_num_threads(1)
    assert set(asked) == {3}


def test_it_says_how_far_it_is(monkeypatch):
    monkeypatch.setattr(inverse, "BLOCK", 5)
    told = []
    inverse.sweep(positive(12), told.append)
    assert told == pytest.approx([1 / 3, 2 / 3, 1])


def test_a_matrix_that_is_not_positive_definite(monkeypatch):
    monkeypatch.setattr(inverse, "BLOCK", 2)
    with pytest.raises(np.linalg.LinAlgError):
        inverse.sweep(np.diag([1.0, 2, 3, -4]))
