"""When a training checks itself, and when it stops."""

from __future__ import annotations

import pytest
import torch

from accord.training.trainer import Stopping
from ramp import scripted, steps_of


def test_the_second_rise_over_the_value_before_stops():
    nan = float("nan")
    method, trainer = scripted(
        [
            # a rise; then below the value before though above the best, which is no rise; then the second rise
            [1.0, 0.5, 0.7, 0.6, 0.65, nan, nan, nan, nan, nan, nan, nan],
            [12.0, 11.0, 10.0, 9.0, 8.0, 7.0, 6.0, 5.0, 4.0, 3.0, 2.0, 1.0],  # never
            [1.0, 2.0, 3.0, nan, nan, nan, nan, nan, nan, nan, nan, nan],  # at once
            [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 2.0, 1.0, 1.0, 1.0, 3.0],  # equal is no rise; the last check stops
        ],
        "loss-rise",
        patience=2,
    )
    state = trainer.train()
    assert state.stopped_at == [3, 0, 2, 6]
    assert steps_of(method) == [10, 24, 6, 24], "a stopped run keeps its last weights while the others go on"
    assert state.value == pytest.approx([0.65, 1.0, 3.0, 3.0])
    assert state.bad == [2, 0, 2, 2]


def test_training_ends_when_every_run_has_stopped():
    method, trainer = scripted([[1.0, 2.0, 3.0], [3.0, 4.0, 5.0]], "loss-rise", patience=2)
    state = trainer.train()
    assert (state.epoch, state.step) == (2, 6)
    assert steps_of(method) == [6, 6]


def test_the_best_weights_come_back_whatever_came_after():
    method, trainer = scripted(
        [
            [0.1, 0.3, 0.2, 0.3, 0.4, 0.3, 0.3, 0.3, 0.9, 0.9, 0.9, 0.9],  # 0.3 again is no new best; 0.4 is
            [0.5, 0.4, 0.4, 0.4, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9],  # stopped before the 0.9
            [0.1, 0.1, 0.2, 0.2, 0.3, 0.3, 0.4, 0.4, 0.5, 0.5, 0.6, 0.5],  # never stopped: best before the last
        ],
        "best-ndcg",
        patience=3,
    )
    state = trainer.train()
    assert state.best == pytest.approx([0.4, 0.5, 0.6])
    assert state.stopped_at == [4, 2, 0]
    assert steps_of(method) == [10, 2, 22]


def test_on_a_plateau_the_first_best_is_kept_and_patience_ends():
    """As good as before is no better: otherwise a run that learns nothing would train to its last epoch."""
    method, trainer = scripted([[0.5] * 12, [0.1, *[0.4] * 11]], "best-ndcg", patience=3)
    state = trainer.train()
    assert steps_of(method) == [2, 4]
    assert all(state.stopped_at)


@pytest.mark.parametrize(
    ("every", "offset", "due"),
    [(4, 4, [4, 8, 12]), (5, 6, [6, 11]), (1, 10, [10, 11, 12]), (100, 3, [3])],
)
def test_checks_are_due_from_the_offset_on(every, offset, due):
    stopping = Stopping("best-ndcg", lambda: torch.zeros(1), every, offset, patience=3)
    assert [step for step in range(1, 13) if stopping.due(step)] == due


def test_the_released_code_checks_after_501_steps_and_every_500():
    stopping = Stopping("loss-rise", lambda: torch.zeros(1), every=500, offset=501, patience=2)
    assert [step for step in range(1, 2000) if stopping.due(step)] == [501, 1001, 1501]
