"""The loops of the optimisers by hand, as the Python that they are."""

from __future__ import annotations

import numpy as np
import pytest

from accord.kernels import optimiser_loops


def floats(*rows):
    return np.array(rows, dtype=np.float32)


def test_rows_are_enlisted_once():
    rows, places, number = np.zeros(8, np.int64), np.zeros(3, np.int64), np.zeros(1, np.int64)
    marks = np.zeros((8, 2), np.int32)
    for ids, expected in (([7, 2, 7], [0, 1, 0]), ([0, 2, 0], [2, 1, 2])):
        optimiser_loops.enlist(np.array(ids), marks, rows, places, number)
        assert places.tolist() == expected
    assert rows[: number[0]].tolist() == [7, 2, 0]
    assert marks[:, 1].tolist() == [3, 0, 2, 0, 0, 0, 0, 1]


def adam(decay, gradients, lr=0.1, beta1=0.9, beta2=0.999, eps=1e-8):
    """A weight of 2 under dense Adam, in float64: the weight, mean and spread after each step."""
    weight, mean, spread, found = 2.0, 0.0, 0.0, []
    for step, gradient in enumerate(gradients, 1):
        slope = gradient + decay * weight
        mean, spread = beta1 * mean + (1 - beta1) * slope, beta2 * spread + (1 - beta2) * slope**2
        weight -= lr / (1 - beta1**step) * mean / (np.sqrt(spread / (1 - beta2**step)) + eps)
        found.append((weight, mean, spread))
    return found


@pytest.mark.parametrize("decay", [0.0, 0.3])
def test_a_row_that_missed_steps_catches_up_with_dense_adam(decay):
    steps = np.arange(1, 100, dtype=np.float64)
    sizes = np.append(0, 0.1 / (1 - 0.9**steps)).astype(np.float32)
    roots = np.append(0, 1 / np.sqrt(1 - 0.999**steps)).astype(np.float32)
    weight, mean, spread = floats([9], [2]), floats([9], [0]), floats([9], [0])
    marks, rows, gradient = np.array([[0, 0], [0, 1]], np.int32), np.array([1]), floats([0.5])
    settings = decay, 0.9, 0.999, 1e-8, sizes, roots
    expected = adam(decay, [0.5, *[0.0] * 20])
    optimiser_loops.update(weight, mean, spread, marks, rows, 1, *settings, gradient)
    assert (weight[1, 0], mean[1, 0], spread[1, 0]) == pytest.approx(expected[0], rel=1e-5)
    assert gradient[0, 0] == 0, "used up"
    for _ in range(2):  # the second time there is nothing to do
        optimiser_loops.replay(weight, mean, spread, marks, rows, 21, *settings)
        assert (weight[1, 0], mean[1, 0], spread[1, 0]) == pytest.approx(expected[-1], rel=1e-5)
        assert marks.tolist() == [[0, 0], [21, 0]]
    assert (weight[0, 0], mean[0, 0], spread[0, 0]) == (9, 9, 9), "the other row is not touched"


def decoupled(decay, gradients, lr=0.1, beta2=0.999, eps=1e-8, weight=2.0, spread=0.0, step=0):
    """The same under the decoupled form: the weight and spread after each step."""
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
    weight, spread, missed, ahead = floats([9], [2]), floats([9], [0]), np.zeros(1, np.int64), floats(0)
    marks, rows, gradient = np.array([[0, 0], [base, 1]], np.int32), np.array([1]), floats([-0.5])
    since = np.arange(100, dtype=np.float64)
    roots = 0.999 ** (since / 2)
    sums = np.cumsum(np.append(0, (np.sqrt(1 - 0.999 ** (base + since)) / roots)[1:]))
    how, more = (base, 0.1 * decay, 1e-8, sums, roots), (missed, ahead, 0.1, 0.999, gradient)
    expected = decoupled(decay, [-0.5, *[0.0] * 31], step=base)
    optimiser_loops.move(weight, spread, marks, rows, base + 1, 0.1 * decay, 1e-8, *more)
    assert (weight[1, 0], spread[1, 0]) == pytest.approx(expected[0], rel=1e-4)
    assert gradient[0, 0] == 0, "used up"
    for _ in range(2):  # the second time there is nothing to do
        optimiser_loops.fade(weight, spread, marks, rows, base + 21, *how)
        assert (weight[1, 0], spread[1, 0]) == pytest.approx(expected[20], rel=1e-4, abs=3e-5)
        assert marks.tolist() == [[0, 0], [base + 21, 0]]
    optimiser_loops.fade_weight(weight, spread, marks, rows, base + 31, *how, missed, ahead)
    assert (missed[0], marks[1, 0]) == (10, base + 31)
    assert spread[1, 0] == pytest.approx(expected[20][1], rel=1e-4), "not yet"
    assert weight[1, 0] == pytest.approx(expected[30][0], rel=1e-4, abs=3e-5)
    optimiser_loops.move(weight, spread, marks, rows, base + 32, 0.1 * decay, 1e-8, *more)
    assert (weight[1, 0], spread[1, 0]) == pytest.approx(expected[31], rel=1e-4, abs=3e-5)
    assert (weight[0, 0], spread[0, 0]) == (9, 9), "the other row is not touched"


@pytest.mark.parametrize(("decay", "left"), [(0.0, 2.0), (1e-8, 2 * np.exp(-0.5)), (1.0, 0.0)])
def test_a_row_that_never_had_a_gradient_decays_as_fast_as_any_can(decay, left):
    weight, spread, marks = floats([2]), floats([0]), np.zeros((1, 2), np.int32)
    sums, roots = np.arange(6, dtype=np.float64), np.ones(6)
    optimiser_loops.fade(weight, spread, marks, np.array([0]), 5, 0, 0.1 * decay, 1e-8, sums, roots)
    assert weight[0, 0] == pytest.approx(left, rel=1e-5, abs=1e-6)


def test_every_loop_is_compiled():
    public = {
        name
        for name, value in vars(optimiser_loops).items()
        if callable(value) and value.__module__ == optimiser_loops.__name__
    }
    assert {loop.__name__ for loop in optimiser_loops.ALL} == public
