"""Cross-fitting: every interaction is judged by models that were trained without it."""

from __future__ import annotations

import numpy as np
import pytest

from accord.auditing import crossfit
from accord.auditing.crossfit import cross_fit
from accord.auditing.interaction_log import open_log
from accord.data.folds import Fold
from accord.errors import InputError
from accord.training import stack
from helpers import CPU, dataset, small_data


def test_no_model_judges_what_it_was_trained_on(monkeypatch):
    log = open_log(small_data())
    judged = []

    def spy(data, run, device, watch=None):
        held, trained, valid = (set(data.csr(part).keys.tolist()) for part in (data.test, data.train, data.valid))
        assert not held & trained
        assert not held & valid
        judged.append((run.config.model, run.config.method, frozenset(held)))
        return original(data, run, device, watch=watch)

    original = stack.train_stack
    monkeypatch.setattr(stack, "train_stack", spy)
    monkeypatch.setattr(crossfit, "EPOCHS", 1)
    opinion = cross_fit(log, seeds=2, folds=2, device=CPU)
    everything = set(log.csr().keys.tolist())
    for kind in {(model, method) for model, method, _ in judged}:
        parts = [held for model, method, held in judged if (model, method) == kind]
        assert set().union(*parts) == everything
    assert len({(run["model"], run["method"]) for run in opinion.runs}) >= 3
    assert opinion.p_real.shape == (len(opinion.runs), len(log))
    assert np.isfinite(opinion.p_real[:, opinion.known]).all()


def test_finished_parts_are_kept(monkeypatch, tmp_path):
    log = open_log(small_data())
    monkeypatch.setattr(crossfit, "EPOCHS", 1)
    first = cross_fit(log, seeds=1, folds=2, device=CPU, work=tmp_path)
    monkeypatch.setattr(stack, "train_stack", lambda *_args, **_more: pytest.fail("trained again"))
    again = cross_fit(log, seeds=1, folds=2, device=CPU, work=tmp_path)
    assert np.array_equal(first.p_real, again.p_real, equal_nan=True)


def test_somebody_must_have_two_interactions():
    data = dataset(4, 4, [(0, 0), (1, 1)], [(2, 2)], [(3, 3)])
    with pytest.raises(InputError, match="no user has two interactions"):
        cross_fit(open_log(data), device=CPU)


def test_who_is_only_in_the_validation_is_not_known(monkeypatch):
    """A model learns nothing of such a user, so its interactions are judged by popularity and not by models."""
    log = open_log(small_data())
    held = np.arange(len(log)) % 2 == 0
    somebody = log.users[held][0]
    assert (~held & (log.users == somebody)).any()
    valid = ~held & (log.users == somebody)  # all that is left of one user
    monkeypatch.setattr(crossfit, "cut", lambda *_: iter([Fold(held, valid), Fold(~held, np.zeros_like(held))]))
    monkeypatch.setattr(crossfit, "JUDGES", (("popularity", "normal"),))
    opinion = cross_fit(log, seeds=1, folds=2, device=CPU)
    assert not opinion.known[held & (log.users == somebody)].any()
    assert opinion.known[held & (log.users != somebody)].any()
