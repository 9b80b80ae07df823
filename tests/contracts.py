"""What every model and every method keeps. To hold a new one to it, add it to a list in `test_contracts.py`."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from torch import Tensor, nn

from accord.config import BaseConfig
from accord.consensus.training import train_run
from accord.data.interactions import Dataset, Interactions
from accord.data.sampling import Sampler, TrainingPairs
from accord.methods import find_method
from accord.methods.base import Method, cross_entropy
from accord.models import class_of, has_seeds
from accord.models.base import Model
from accord.nn.layers import Embedding, Linear
from accord.protocol import CORRECTED, PUBLISHED
from accord.random import generators
from accord.recommender.recommender import Recommender
from helpers import (
    CPU,
    assert_same_weights,
    make_method,
    make_model,
    one_run,
    plan_small,
    small_data_for,
    spread,
    stages_of,
    timed_csr,
    train_small,
    with_dim,
)

SEEDS = (3, 5, 8)


# --- somebody else's model and method


class TwoTower(nn.Module):
    """A plain torch module, with what makes the run dimension hard: dropout, a buffer that training moves."""

    def __init__(self, num_users: int, num_items: int, dim: int = 4) -> None:
        super().__init__()
        self.user = nn.Embedding(num_users, dim)
        self.item = nn.Embedding(num_items, dim)
        self.norm = nn.BatchNorm1d(dim)
        self.drop = nn.Dropout(0.3)
        self.out = nn.Linear(dim, 1)

    def forward(self, users: Tensor, items: Tensor) -> Tensor:
        return self.out(self.norm(self.drop(self.user(users) * self.item(items)))).squeeze(-1)


class Biased(Model):
    """A model of a caller's own, written with the run-stacked layers."""

    name = "biased"
    summary = "a linear layer on the item's vector and a bias of the user"

    class Config(BaseConfig):
        dim: int = 3

    def __init__(self, config: Any, setup: Any) -> None:
        super().__init__(config, setup)
        self.bias = Embedding(setup.runs, setup.num_users, 1, std=0.1)
        self.item = Embedding(setup.runs, setup.num_items, config.dim, std=0.1)
        self.out = Linear(setup.runs, config.dim, 1)

    def forward(self, users: Tensor, items: Tensor) -> Tensor:
        return (self.bias(users) + self.out(self.item(items))).squeeze(-1)

    def score_all(self, users: Tensor) -> Tensor:
        return self.bias.weight[:, users] + self.out(self.item.weight).mT


class Smoothed(Method):
    """A method of a caller's own: plain BCE, less sure of everything, with a second network to agree with."""

    name = "smoothed"
    summary = "cross-entropy and a second opinion"

    class Config(BaseConfig):
        weight: float = 0.5

    def __init__(self, configs: Any, build: Any, protocol: Any) -> None:
        super().__init__(configs, build, protocol)
        self.second = build("mf", purpose="second")

    def loss(self, batch: Any) -> Tensor:
        logits, other = (net(batch.users, batch.items) for net in (self.target, self.second))
        losses = cross_entropy(logits, batch) + cross_entropy(other, batch) + self.config.weight * (logits - other) ** 2
        return self.reduced(batch, losses)


# --- models


def every_pair(runs: int, train: Any) -> tuple[Tensor, Tensor]:
    """All pairs, the same for every run: [R, U * I] each."""
    users, items = torch.cartesian_prod(torch.arange(train.num_users), torch.arange(train.num_items)).T
    return users.expand(runs, -1), items.expand(runs, -1)


class ModelContract:
    """Parametrise a subclass over `model`: names, classes or factories."""

    train = timed_csr(20, 15, 0.3)

    def make(self, model: Any, seeds: Any = SEEDS, protocol: Any = CORRECTED) -> Model:
        options = {name.removeprefix("model."): value for name, value in with_dim(model).items()}
        return make_model(model, self.train, seeds, protocol, **options)

    @torch.inference_mode()
    def test_a_score_is_its_contributions_and_what_no_history_changes(self, model):
        made, items = self.make(model).eval(), torch.arange(15)
        rest = []
        for user in (2, 5):
            history = torch.from_numpy(self.train.items[self.train.ptr[user] : self.train.ptr[user + 1]]).long()
            added = made.contributions(history, items, user)
            if added is None:
                return
            assert added.shape[1:] == (len(history), 15)
            rest.append(made.score_all(torch.tensor([user]))[:, 0] - added.sum(1))
            if not made.in_order and model != "user-knn":  # of which a user is no neighbour of their own
                torch.testing.assert_close(made.contributions(history, items), added, rtol=1e-3, atol=1e-5)
            folded = made.scores_of(history) - made.contributions(history, items).sum(1)
            torch.testing.assert_close(folded, rest[-1], rtol=1e-3, atol=1e-4)
        torch.testing.assert_close(*rest, rtol=1e-3, atol=1e-4)

    def test_shapes(self, model):
        made = self.make(model).eval()
        users, items = torch.zeros(3, 7, dtype=torch.long), torch.arange(7).expand(3, -1)
        scores = made.score_all(torch.tensor([4, 0, 19, 4]))
        assert scores.shape == (3 if has_seeds(model) else 1, 4, 15)
        assert scores.dtype == torch.float32
        if not made.solved:
            assert made(users, items).shape == (3, 7)
        for name, tensor in [*made.named_parameters(), *made.named_buffers()]:
            if has_seeds(model) and name in made.state_dict():
                assert tensor.shape[0] == 3, f"{name} carries the run dimension"

    def test_score_all_agrees_with_forward(self, model):
        made = self.make(model)
        if made.solved:
            assert torch.equal(made.score_all(torch.tensor([3, 3]))[:, 0], made.score_all(torch.tensor([3]))[:, 0])
            return
        spread(made)
        made.eval()
        with torch.no_grad():
            pairs = made(*every_pair(3, self.train)).view(3, 20, 15)
            torch.testing.assert_close(made.score_all(torch.arange(20)), pairs, rtol=1e-4, atol=1e-5)
            chosen = torch.tensor([17, 2, 2])
            torch.testing.assert_close(made.score_all(chosen), pairs[:, chosen], rtol=1e-4, atol=1e-5)

    def test_gradients_reach_every_parameter(self, model):
        made = self.make(model)
        if made.solved:
            assert not list(made.parameters())
            return
        spread(made)
        made.train()
        (made(*every_pair(3, self.train)).sigmoid() ** 2).mean(1).sum().backward()
        for name, parameter in made.named_parameters():
            assert parameter.grad is not None, name
            assert (parameter.grad.flatten(1).abs().sum(1) > 0).all(), f"{name}, in every run"

    def test_a_run_gets_no_gradient_from_its_neighbours(self, model):
        made = self.make(model)
        if made.solved:
            pytest.skip("nothing is learned")
        spread(made)
        made.train()
        made(*every_pair(3, self.train))[1].sigmoid().sum().backward()
        for name, parameter in made.named_parameters():
            sizes = parameter.grad.flatten(1).abs().sum(1)
            assert sizes[0] == sizes[2] == 0 < sizes[1], name

    def test_a_run_starts_as_it_does_alone(self, model):
        stack = self.make(model)
        if not has_seeds(model):
            pytest.skip("one run only")
        state = stack.state_dict()
        for run, seed in enumerate(SEEDS):
            assert_same_weights(one_run(state, run, 3), one_run(self.make(model, (seed,)).state_dict(), 0, 1))
        other = self.make(model, (4,)).state_dict()
        assert any(not torch.equal(tensor[:1], other[name]) for name, tensor in state.items()), "seeds matter"

    def test_evaluation_is_not_random(self, model):
        made = self.make(model).eval()
        users = torch.arange(20)
        assert torch.equal(made.score_all(users), made.score_all(users))

    def test_fold_in_gives_scores_or_none(self, model):
        made = self.make(model).eval()
        with torch.inference_mode():
            scores = made.fold_in(torch.tensor([1, 4, 9]))
        if scores is not None:
            assert scores.shape == (3 if has_seeds(model) else 1, 15)
            assert torch.isfinite(scores).all()

    @pytest.mark.parametrize("protocol", [PUBLISHED, CORRECTED], ids=["published", "corrected"])
    def test_ranks_and_saves(self, model, protocol, tmp_path):
        """From training to a folder and back, whatever the method."""
        recommender = fit_small(model, "normal", (3, 5), protocol=protocol)
        assert 0 < recommender.metrics["mean"]["recall@20"] <= 1
        loaded = Recommender.load(recommender.save(tmp_path / "run"), allow_imports=True)
        assert_same_weights(loaded.method.state_dict(), recommender.method.state_dict())
        assert loaded.metrics == recommender.metrics
        if getattr(recommender.method.target, "scoring_dropout", False):
            return  # the released code's CDAE: its scores are drawn anew each time
        assert loaded.recommend(k=5).equals(recommender.recommend(k=5))
        evaluated = loaded.evaluate().mean()
        assert evaluated == [entry["metrics"] for entry in recommender.metrics["runs"]]


# --- methods, with every model


def fit_small(model: Any, method: Any, seeds: Any, data: Dataset | None = None, **options: Any) -> Recommender:
    data = data or small_data_for(model)
    run = plan_small(model, method, seeds, data, **options)
    return Recommender.of_training(train_run(data, run, CPU), data)


@cache
def trained_once(model: Any, method: Any) -> Recommender:
    """Two seeds for an epoch, for tests that only look at what was trained."""
    return fit_small(model, method, (3, 5), epochs=1)


def shuffled(data: Dataset, seed: int = 0) -> Dataset:
    """The same interactions in another order of rows, under other ids in the same order."""
    rng = np.random.default_rng(seed)

    def renamed(part: Interactions | None) -> Interactions | None:
        if part is None:
            return None
        rows = part.take(rng.permutation(len(part)))
        # u0007 -> 721: numbers instead of text
        ids = [pa.array([int(value[1:]) * 103 for value in column.to_pylist()]) for column in (rows.users, rows.items)]
        times = {"time": rows.column("time")} if rows.has_time else {}
        return Interactions.of(*ids, rows.column("value"), **times)

    parts = [renamed(part) for part in (data.train, data.valid, data.test, data.valid_clean, data.test_noisy)]
    return Dataset.of(data.name, *parts)


class MethodContract:
    """Parametrise a subclass over `method` (names or classes) and `model`."""

    def test_loss_has_one_number_a_run(self, method, model):
        made, batch, _ = self.case(method, model)
        losses = made.loss(batch)
        assert losses.shape == (len(made.target.seeds),)
        assert torch.isfinite(losses).all()

    def test_gradients_reach_every_parameter(self, method, model):
        """Over two steps (the DP and DN of DeCA) and what is trained before."""
        made, batch, _ = self.case(method, model)
        made.train()
        for stage in stages_of(made):
            for step in (0, 1):
                stage.begin_step(step)
                stage.loss(batch).sum().backward()
        for name, parameter in made.named_parameters():
            by_softmax = method in ("softmax", "bsl", "deca-softmax")
            if by_softmax and model in ("gmf", "neumf") and name == "target.out.bias":
                continue  # the same for all items, so that a softmax over them does not depend on it
            assert parameter.grad is not None, name
            assert (parameter.grad.flatten(1).abs().sum(1) > 0).all(), f"{name}, in every run"

    def test_posterior_is_a_probability(self, method, model):
        made, _, train = self.case(method, model)
        made.eval()
        with torch.no_grad():
            posterior = made.belief(*every_pair(3, train))
        assert posterior.shape == (3, train.num_users * train.num_items)
        assert ((posterior >= 0) & (posterior <= 1)).all()
        assert posterior.std() > 0

    def test_scores_have_one_row_a_run(self, method, model):
        made, _, train = self.case(method, model)
        with torch.no_grad():
            scores = made.eval().score_all(torch.arange(6))
        assert scores.shape == (3, 6, train.num_items)

    def test_a_run_of_a_stack_equals_the_run_alone(self, method, model):
        """Trained with early stopping, the best weights restored."""
        stack, states = train_small(model, method, SEEDS)
        users = torch.arange(stack.target.num_users)
        with torch.no_grad():
            scores = stack.score_all(users)
        # one with two neighbours, and of one model the last
        for run, seed in list(enumerate(SEEDS))[1 : 3 if model == "gmf" else 2]:
            alone, alone_states = train_small(model, method, (seed,))
            for name, tensor in one_run(alone.state_dict(), 0, 1).items():
                mine = one_run(stack.state_dict(), run, len(SEEDS))[name]
                torch.testing.assert_close(mine, tensor, rtol=1e-4, atol=5e-5, msg=lambda m, name=name: f"{name}: {m}")
            with torch.no_grad():
                torch.testing.assert_close(scores[run], alone.score_all(users)[0], rtol=1e-3, atol=1e-4)
            for mine, its in zip(states, alone_states, strict=True):
                ours = [entry["loss"][run :: len(SEEDS)] for entry in mine.history]
                np.testing.assert_allclose(ours, [entry["loss"] for entry in its.history], rtol=1e-4)
                assert mine.stopped_at[run :: len(SEEDS)] == its.stopped_at

    def test_the_same_seed_gives_the_same_result(self, method, model):
        one, other = trained_once(model, method).method.state_dict(), train_small(model, method, (3, 5), epochs=1)[0]
        assert_same_weights(one, other.state_dict())
        second = one_run(one, 1, 2)
        assert any(not torch.equal(t, second[n]) for n, t in one_run(one, 0, 2).items()), "seeds matter"

    def test_row_order_and_ids_do_not_matter(self, method, model):
        data = small_data_for(model)
        renamed = shuffled(data)
        assert renamed.users.ids.type == pa.int64()
        # ids that no part holds have a row in `data` alone: compare with the same parts under their own ids
        plain = Dataset.of(data.name, data.train, data.valid, data.test, data.valid_clean, data.test_noisy)
        one, other = (fit_small(model, method, (3,), part, epochs=1) for part in (plain, renamed))
        assert_same_weights(one.method.state_dict(), other.method.state_dict())
        for key in ("mean", "groups"):
            assert one.metrics[key] == other.metrics[key]
        assert one.metrics["runs"][0]["metrics"] == other.metrics["runs"][0]["metrics"]

    def test_save_and_load_give_equal_scores_and_posteriors(self, method, model, tmp_path):
        data = small_data_for(model)
        recommender = trained_once(model, method)
        loaded = Recommender.load(recommender.save(tmp_path / "run"), allow_imports=True)
        users = torch.arange(len(data.users))
        with torch.inference_mode():
            assert torch.equal(recommender.method.score_all(users), loaded.method.score_all(users))
        assert loaded.beliefs(data.train).equals(recommender.beliefs(data.train))
        assert loaded.recommend(k=5).equals(recommender.recommend(k=5))

    @staticmethod
    def case(method: Any, model: Any) -> tuple[Method, Any, Any]:
        """A method of three runs with weights far from their start, a batch, and the training pairs."""
        train = ModelContract.train
        options = {name.removeprefix("model."): value for name, value in with_dim(model).items()}
        made = make_method(method, [{}] * 3, train, model, **options)
        spread(made)
        kind = find_method(method)
        sampler = Sampler(
            TrainingPairs.of(train, CPU, kind.columns),
            generators(made.target.seeds, "test"),
            1000,
            made.negatives or "unseen",
            batching=getattr(class_of(model), "batching", "pairs"),
        )
        return made, next(iter(sampler.epoch())), train
