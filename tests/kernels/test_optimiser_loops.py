"""The loops of the optimisers by hand, as the Python that they are."""

from __future__ import annotations

import numpy as np
import pytest

from accord.kernels import optimiser_loops


def floats(*rows):
    return np.array(rows, dtype=np.float32)


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
        optimiser_loops.move(weight, spread, last, rows, base + 1, *more, thread, 2)
        assert last[1] == base + thread
    assert (weight[1, 0], spread[1, 0]) == pytest.approx(expected[0], rel=1e-4)
    assert gradient[1, 0] == 0, "used up"
    for thread in (0, 1):
        optimiser_loops.fade(weight, spread, last, rows, base + 21, *how, thread, 2)
        assert last[1] == (base + 21 if thread else base + 1)
    assert (weight[1, 0], spread[1, 0]) == pytest.approx(expected[20], rel=1e-4, abs=3e-5)
    optimiser_loops.fade(weight, spread, last, rows, base + 31, *how, 0, 1)
    assert (weight[1, 0], spread[1, 0]) == pytest.approx(expected[30], rel=1e-4, abs=3e-5)
    optimiser_loops.move(weight, spread, last, rows, base + 32, *more, 0, 1)
    assert (weight[1, 0], spread[1, 0]) == pytest.approx(expected[31], rel=1e-4, abs=3e-5)
    assert (weight[0, 0], spread[0, 0], last[0]) == (9, 9, 0), "the other row is not touched"


@pytest.mark.parametrize(("decay", "left"), [(0.0, 2.0), (1e-8, 2 * np.exp(-0.5)), (1.0, 0.0)])
def test_a_row_that_never_had_a_gradient_decays_as_fast_as_any_can(decay, left):
    weight, spread, last = floats([2]), floats([0]), np.zeros(1, np.int32)
    sums, roots = np.arange(6, dtype=np.float64), np.ones(6)
    optimiser_loops.fade(weight, spread, last, np.array([0]), 5, 0.1 * decay, 0, sums, roots, 1e-8, 0, 1)
    assert weight[0, 0] == pytest.approx(left, rel=1e-5, abs=1e-6)


def test_every_loop_is_compiled():
    public = {
        name
        for name, value in vars(optimiser_loops).items()
        if callable(value) and value.__module__ == optimiser_loops.__name__
    }
    assert {loop.__name__ for loop in optimiser_loops.ALL} == public
