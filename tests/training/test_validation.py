"""What a training is stopped by: the validation, ranked or as a loss."""

from __future__ import annotations

import pytest
import torch

from accord.evaluation.evaluate import Relevant, evaluate
from accord.evaluation.ranking import Ranker
from accord.protocol import CORRECTED
from helpers import CPU, one_run, small_data, train_small


def validation_ndcg(method, runs):
    """NDCG@20 on the validation of the weights that a method holds: one a run."""
    data = small_data()
    relevant, train = Relevant.of_validation(data, CORRECTED), data.csr(data.train)
    target = method.target
    ranker = Ranker.of(target, target.score_all, runs, relevant.seen, train, CORRECTED, CPU)
    return evaluate(ranker, relevant, [20]).per_user["ndcg@20"].mean(1).tolist()


@pytest.mark.parametrize(("model", "method"), [("gmf", "normal"), ("lightgcn", "normal"), ("gmf", "deca")])
def test_early_stopping_gives_back_the_best_weights_of_each_run(model, method):
    seeds = (3, 5, 8, 13)
    trained, states = train_small(model, method, seeds, epochs=40, train__patience=2, train__lr=0.03)
    state = states[-1]
    assert validation_ndcg(trained, len(seeds)) == pytest.approx(state.best, abs=1e-12)
    assert len(set(state.stopped_at)) > 1, "each run stops by itself"
    for run, stopped in enumerate(state.stopped_at):
        values = [entry["valid"][run] for entry in state.history][: stopped or None]
        assert max(values) == pytest.approx(state.best[run], abs=1e-6)
        if stopped:
            assert max(values[-2:]) <= max(values[:-2]), "two checks without a new best"
            assert stopped <= len(state.history)
            later = [entry["valid"][run] for entry in state.history][stopped:]
            assert set(later) <= {values[-1]}, "no check of a stopped run"


def test_a_run_that_stops_first_is_as_it_is_alone():
    seeds = (3, 5, 8, 13)
    stack, states = train_small("gmf", "normal", seeds, epochs=40, train__patience=2, train__lr=0.03)
    first = min(range(4), key=lambda run: states[0].stopped_at[run] or 99)
    alone, its = train_small("gmf", "normal", (seeds[first],), epochs=40, train__patience=2, train__lr=0.03)
    assert 0 < its[0].stopped_at[0] == states[0].stopped_at[first] < states[0].epoch
    for name, tensor in one_run(stack.state_dict(), first, 4).items():
        torch.testing.assert_close(tensor, one_run(alone.state_dict(), 0, 1)[name], rtol=1e-3, atol=1e-4)
