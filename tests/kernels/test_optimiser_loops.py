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


@pytest.mark.parametrize("keep", [1.0, 0.97, 0.0])
def test_a_row_of_the_decoupled_form_fades_at_once(keep):
    weight, spread, missed, ahead = floats([9], [2]), floats([9], [0]), np.zeros(1, np.int64), floats(0)
    marks, rows, gradient = np.array([[0, 0], [0, 1]], np.int32), np.array([1]), floats([-0.5])
    settings = keep, missed, ahead, 0.1, 0.999, 1e-8, gradient
    optimiser_loops.move(weight, spread, marks, rows, 1, *settings)
    moved, wide = keep * 2 + 0.1, 0.001 * 0.25
    assert (weight[1, 0], spread[1, 0]) == pytest.approx((moved, wide), rel=1e-4)
    assert gradient[0, 0] == 0, "used up"
    with np.errstate(divide="ignore"):  # log(0)
        for _ in range(2):  # the second time there is nothing to do
            optimiser_loops.fade(weight, spread, marks, rows, 21, keep, 0.999)
            assert weight[1, 0] == pytest.approx(keep**20 * moved, rel=1e-4)
            assert spread[1, 0] == pytest.approx(0.999**20 * wide, rel=1e-4)
            assert marks.tolist() == [[0, 0], [21, 0]]
        optimiser_loops.fade_weight(weight, marks, rows, 31, keep, missed, ahead)
    assert (missed[0], marks[1, 0]) == (10, 31)
    assert spread[1, 0] == pytest.approx(0.999**20 * wide, rel=1e-4), "not yet"
    before = float(weight[1, 0])
    assert before == pytest.approx(keep**30 * moved, rel=1e-4)
    optimiser_loops.move(weight, spread, marks, rows, 32, *settings)
    assert spread[1, 0] == pytest.approx(0.999**31 * wide, rel=1e-4)
    assert weight[1, 0] == pytest.approx(keep * before, rel=1e-4), "there was no gradient"
    assert (weight[0, 0], spread[0, 0]) == (9, 9), "the other row is not touched"


def test_every_loop_is_compiled():
    public = {
        name
        for name, value in vars(optimiser_loops).items()
        if callable(value) and value.__module__ == optimiser_loops.__name__
    }
    assert {loop.__name__ for loop in optimiser_loops.ALL} == public
