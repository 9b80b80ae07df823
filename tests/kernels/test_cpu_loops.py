"""The loops by hand, as the Python that they are: what numba makes of them is the subject of test_cpu."""

from __future__ import annotations

import numpy as np
import pytest

from accord.kernels import cpu_loops


def floats(*rows):
    return np.array(rows, dtype=np.float32)


A, B = floats([1, 2], [3, 4], [5, 6]), floats([1, 0], [0, 10])
A_IDS, B_IDS = np.array([2, 0, 2]), np.array([1, 0, 0])


@pytest.mark.parametrize(("weight", "expected"), [([], [60, 1, 5]), ([2, 0.5], [30, 2, 10])])
def test_dot_products(weight, expected):
    out = np.zeros(3, np.float32)
    cpu_loops.dot(A, B, A_IDS, B_IDS, np.array(weight, np.float32), out)
    assert out.tolist() == expected


def test_slopes_of_dot_products_are_added():
    da, db, dw = np.ones_like(A), np.zeros_like(B), np.zeros(2, np.float32)
    cpu_loops.dot_slopes(A, B, A_IDS, B_IDS, floats(2, 0.5), floats(1, 10, 100), da, db, dw)
    assert da.tolist() == [[1 + 10 * 2, 1], [1, 1], [1 + 100 * 2, 1 + 0.5 * 10]]
    assert db.tolist() == [[10 * 2 * 1 + 100 * 2 * 5, 10 * 0.5 * 2 + 100 * 0.5 * 6], [2 * 5, 0.5 * 6]]
    assert dw.tolist() == [10 * 1 + 100 * 5, 1 * 6 * 10]
    without = np.zeros_like(A)
    cpu_loops.dot_slopes(A, B, A_IDS, B_IDS, floats(), floats(1, 10, 100), without, db, dw)
    assert without.tolist() == [[10, 0], [0, 0], [100, 10]]


def test_standardised_scores_are_added():
    scores = np.array([[[1, 3, -1, 1], [5, 5, 5, 5]], [[0, 0, 0, 4], [np.nan, 1, 2, 3]]], np.float32)
    out = np.full((2, 4), 10, np.float32)
    cpu_loops.add_standardised(scores, scores.view(np.int32), out, 0.5, 0, 2)
    first = np.array([0, 2, -2, 0]) / np.sqrt(2) + np.array([-1, -1, -1, 3]) / np.sqrt(3)
    assert out[0].tolist() == pytest.approx((10 + first / 2).tolist())
    assert out[1].tolist() == [10] * 4, "nothing where all are equal, or one is not a number"


def test_the_best_items_by_score_then_priority_without_the_seen():
    scores = floats([3, 1, 3, 2, np.nan, 3], [0, 0, 0, 0, 0, 9])
    best, items = np.zeros((2, 3), np.float32), np.zeros((2, 3), np.int64)
    ptr, seen = np.array([0, 1, 1]), np.array([5], dtype=np.int32)
    cpu_loops.best_items(scores, ptr, seen, np.array([0, 1]), np.array([5, 4, 3, 2, 1, 0]), best, items)
    assert items.tolist() == [[2, 0, 3], [5, 4, 3]]
    assert best.tolist() == [[3, 3, 2], [9, 0, 0]]
    nothing = floats([-np.inf, np.nan, -np.inf, 1, np.nan, -np.inf])
    cpu_loops.best_items(nothing, ptr, seen, np.array([1]), np.array([5, 4, 3, 2, 1, 0]), best[:1], items[:1])
    assert items[0].tolist() == [3, 5, 4], "NaN counts as -inf, in the order of priority"


def test_every_loop_is_compiled():
    public = {
        name for name, value in vars(cpu_loops).items() if callable(value) and value.__module__ == cpu_loops.__name__
    }
    assert {loop.__name__ for loop in cpu_loops.ALL} == public


def decoupled(decay, gradients, lr=0.1, beta2=0.999, eps=1e-8, weight=2.0, spread=0.0, step=0):
    """A weight of 2 under the decoupled form, in float64: the weight and spread after each step."""
    found = []
    for number, gradient in enumerate(gradients, step + 1):
        spread = beta2 * spread + (1 - beta2) * gradient**2
        divisor = max(np.sqrt(spread / (1 - beta2**number)), eps)
        weight = weight * np.exp(-lr * decay / divisor) - lr * gradient / divisor
        found.append((weight, spread))
    return found


@pytest.mark.parametrize("base", [0, 500])
@pytest.mark.parametrize("decay", [0.0, 0.05, 3.0, 1e9])
def test_a_row_of_the_decoupled_form_fades_at_once(decay, base):
    """Named twice, it is changed once, by the thread that has it."""
    weight, spread, gradient = floats([9], [2]), floats([9], [0]), floats([0], [-0.5])
    last, rows = np.array([0, base], np.int32), np.array([1, 1])
    since = np.arange(100, dtype=np.float64)
    roots = 0.999 ** (since / 2)
    sums = np.cumsum(np.append(0, (np.sqrt(1 - 0.999 ** (base + since)) / roots)[1:]))
    how, more = (0.1 * decay, base, sums, roots, 1e-8), (0.1 * decay, gradient, 0.1, 0.999, 1e-8)
    expected = decoupled(decay, [-0.5, *[0.0] * 31], step=base)
    for thread in (0, 1):
        cpu_loops.move(weight, spread, last, rows, base + 1, *more, thread, 2)
        assert last[1] == base + thread
    assert (weight[1, 0], spread[1, 0]) == pytest.approx(expected[0], rel=1e-4)
    assert gradient[1, 0] == 0, "used up"
    for thread in (0, 1):
        cpu_loops.fade(weight, spread, last, rows, base + 21, *how, thread, 2)
        assert last[1] == (base + 21 if thread else base + 1)
    assert (weight[1, 0], spread[1, 0]) == pytest.approx(expected[20], rel=1e-4, abs=3e-5)
    cpu_loops.fade(weight, spread, last, rows, base + 31, *how, 0, 1)
    assert (weight[1, 0], spread[1, 0]) == pytest.approx(expected[30], rel=1e-4, abs=3e-5)
    cpu_loops.move(weight, spread, last, rows, base + 32, *more, 0, 1)
    assert (weight[1, 0], spread[1, 0]) == pytest.approx(expected[31], rel=1e-4, abs=3e-5)
    assert (weight[0, 0], spread[0, 0], last[0]) == (9, 9, 0), "the other row is not touched"


@pytest.mark.parametrize(("decay", "left"), [(0.0, 2.0), (1e-8, 2 * np.exp(-0.5)), (1.0, 0.0)])
def test_a_row_that_never_had_a_gradient_decays_as_fast_as_any_can(decay, left):
    weight, spread, last = floats([2]), floats([0]), np.zeros(1, np.int32)
    sums, roots = np.arange(6, dtype=np.float64), np.ones(6)
    cpu_loops.fade(weight, spread, last, np.array([0]), 5, 0.1 * decay, 0, sums, roots, 1e-8, 0, 1)
    assert weight[0, 0] == pytest.approx(left, rel=1e-5, abs=1e-6)


def test_a_row_comes_closer_to_its_solution_and_an_empty_one_is_nothing():
    ptr, columns, counts = np.array([0, 0, 2]), np.array([1, 0], np.int32), floats(2, 1)
    vectors, spectrum, penalty = floats([1, 0], [0, 2]), floats(1, 2), floats(9, 1)
    left = np.diag([1 + 1 + 1, 2 + 1 + 2 * 2 * 2])
    found = floats([5, 5], [0, 0])
    cpu_loops.conjugate_gradient_rows(ptr, columns, counts, vectors, spectrum, penalty, 2, 0, found)
    assert found[0].tolist() == [0, 0]
    np.testing.assert_allclose(found[1], np.linalg.solve(left, [1, 4]), rtol=1e-6)
    once = floats([0, 0])
    cpu_loops.conjugate_gradient_rows(ptr, columns, counts, vectors, spectrum, penalty, 1, 1, once)
    right, first = np.array([1, 4]), np.array([1 / 2, 4 / 3])  # along what D alone would give
    np.testing.assert_allclose(once[0], first * (right @ first) / (first @ left @ first), rtol=1e-6)
