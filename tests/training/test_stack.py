"""A stack of runs, stage by stage: what a method may ask for, and columns that reach its loss."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
import torch

import accord
from accord.data.columns import Columns
from accord.data.read import read_table
from accord.data.sampling import Sampler, TrainingPairs
from accord.data.store.prepare import prepare
from accord.errors import InputError
from accord.methods.base import Method
from accord.methods.normal import Normal
from accord.models import SOLVED
from accord.random import generators
from accord.training.stack import train_stack
from accord.training.trainer import Diverged
from accord_lab.methods import ALL_METHODS
from helpers import CPU, assert_same_weights, one_run, plan_small, small_data, small_data_for, train_small
from ramp import spoil


def coded(users, items):
    """A weight that says which pair it is of."""
    return 1 + np.asarray(users) * 1000.0 + np.asarray(items)


def weighted_data(weight=None):
    """`small_data` with a weight on every interaction."""
    data = small_data()

    def part(rows):
        users, items = data.rows(rows)
        values = coded(users, items) if weight is None else np.full(len(rows), weight)
        return accord.Interactions.of(rows.users, rows.items, rows.column("value"), weight=values)

    return replace(data, train=part(data.train), valid=part(data.valid), test=part(data.test))


# --- columns


@pytest.mark.parametrize("model", ["mf", "cdae", "lightgcn"])
@pytest.mark.parametrize("method", ALL_METHODS)
def test_weights_of_one_change_no_bit(model, method):
    plain, _ = train_small(model, method, (3, 5))
    weighted, _ = train_small(model, method, (3, 5), weighted_data(1.0))
    assert_same_weights(plain.state_dict(), weighted.state_dict())


@pytest.mark.parametrize("model", ["popularity", "ease"])
def test_weights_of_one_change_no_bit_of_a_solved_model(model):
    plain, _ = train_small(model, "normal", (3,))
    weighted, _ = train_small(model, "normal", (3,), weighted_data(1.0))
    assert_same_weights(plain.state_dict(), weighted.state_dict())
    assert torch.equal(plain.score_all(torch.arange(5)), weighted.score_all(torch.arange(5)))


@pytest.mark.parametrize("method", ALL_METHODS)
def test_weights_change_what_is_learned(method):
    plain, _ = train_small("mf", method, (3,))
    weighted, _ = train_small("mf", method, (3,), weighted_data())  # not all alike: some losses are weighted means
    assert not torch.equal(plain.target.item.weight, weighted.target.item.weight)


def test_an_interaction_of_weight_zero_is_not_learned_from():
    """Plain training with weight 0 on some positives is training in which their loss is not there."""
    seen = []

    class Watched(Normal):
        def loss(self, batch):
            seen.append((batch.column("weight").clone(), batch))
            return super().loss(batch)

    data = weighted_data(0.0)
    trained, states = train_stack(data, plan_small("mf", Watched, (3,), data, train__early_stop=False), CPU)
    assert all(float(weight.abs().sum()) == 0 for weight, _ in seen)
    _, batch = seen[0]
    losses = torch.ones(1, 2 * batch.num_positives)
    assert float(batch.mean(losses)) == 1, "the mean over positives is 0, that over negatives 1"
    assert states[-1].epoch == 2
    assert trained.name == "normal"


@pytest.mark.parametrize("batching", ["pairs", "users"])
def test_columns_stay_beside_their_pairs(batching):
    train = weighted_data().training_csr()
    found, pairs = 0, TrainingPairs.of(train, CPU, ("weight",))
    for batch in Sampler(pairs, generators([1, 2], "test"), 16, "unseen", batching).epoch():
        real = torch.ones_like(batch.users) if batch.mask is None else batch.mask
        real = real[:, : batch.num_positives] > 0
        users, items = (x[:, : batch.num_positives][real].numpy() for x in (batch.users, batch.items))
        expected = coded(users, items)
        assert np.array_equal(batch.column("weight")[real].numpy(), expected)
        found += len(expected)
    assert found == 2 * len(train.items), "every pair of both runs"


@pytest.mark.parametrize("kind", ["file", "store", "frame"])
def test_a_weight_column_travels_from_the_source_to_the_matrix(kind, tmp_path):
    data = small_data()
    users, items = data.rows(data.train)
    table = pa.table({"user": data.train.users, "item": data.train.items, "w": coded(users, items)})
    shuffled = table.take(pa.array(np.random.default_rng(0).permutation(len(table))))
    source, columns = shuffled, Columns(weight="w")
    if kind != "frame":
        source = tmp_path / "log.csv"
        pa.csv.write_csv(shuffled, source)
    if kind == "store":
        prepare(source, tmp_path / "store", columns=columns)
        source, columns = tmp_path / "store", None
    loaded = accord.load(source, columns=columns)
    csr = loaded.training_csr()
    ids = loaded.users.take(csr.users), loaded.items.take(csr.items)
    rows = data.users.rows(ids[0]), data.items.rows(ids[1])
    assert np.array_equal(csr.columns["weight"], coded(*rows))


def test_of_a_repeated_pair_the_last_row_counts():
    rows = accord.Interactions.of([1, 0, 1, 0], [5, 5, 5, 6], weight=[1.0, 2.0, 3.0, 4.0])
    csr = accord.Dataset.of("tiny", rows, rows, rows).training_csr()
    assert csr.columns["weight"].tolist() == [2.0, 4.0, 3.0]


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1, -2, 3], "weight column 'w' has -2.0 in row 2, and a weight is a number from 0 up"),
        ([1, None, 3], "weight column 'w' has nothing in row 2, and a weight is a number from 0 up"),
        ([1, float("inf"), 3], "weight column 'w' has inf in row 2"),
        (["1", "x", "3"], "weight column 'w' has 'x' in row 2, which is not a number"),
    ],
)
def test_bad_weights_are_one_sentence(weights, message):
    frame = pa.table({"user": [1, 2, 3], "item": [1, 2, 3], "w": weights})
    with pytest.raises(InputError, match=message):
        accord.load(frame, columns=Columns(weight="w"))


def test_labels_may_be_unknown():
    frame = pa.table({"user": [1, 1, 2, 2], "item": [1, 2, 3, 1], "liked": [1, None, 0, 0.5]})
    rows, notes = read_table(frame, Columns(label="liked"))
    assert rows.column("label").tolist()[0] == 1
    assert np.isnan(rows.column("label")[1])
    assert not any("have no label" in note for note in notes)
    with pytest.raises(InputError, match=r"label column 'liked' has 2\.0 in row 1, and a label is from 0"):
        read_table(frame.set_column(2, "liked", pa.array([2.0, 0, 0, 0])), Columns(label="liked"))


def test_a_weighted_ease_is_the_ridge_regression_of_the_weighted_matrix(tmp_path):
    data = weighted_data()
    rng = np.random.default_rng(0)
    weight = rng.uniform(0.2, 3, len(data.train))
    train = accord.Interactions.of(data.train.users, data.train.items, weight=weight)
    data = replace(data, train=train)
    made = accord.fit(data, "ease", options={"model.l2": 5.0}, ks=[5], device="cpu")
    csr = data.training_csr()
    x = np.zeros((csr.num_users, csr.num_items))
    x[csr.users, csr.items] = csr.columns["weight"]
    inverse = np.linalg.inv(x.T @ x + 5.0 * np.eye(csr.num_items))
    weights = -inverse / np.diag(inverse)
    np.fill_diagonal(weights, 0)
    users = torch.arange(10)
    np.testing.assert_allclose(made.method.score_all(users)[0].numpy(), (x @ weights)[:10], atol=1e-4)
    again = accord.Recommender.load(made.save(tmp_path / "run"))
    assert again.recommend(k=5).equals(made.recommend(k=5)), "a history is scored with its weights after loading, too"
    counts = accord.fit(data, "popularity", ks=[5], device="cpu").method.target.counts
    np.testing.assert_allclose(counts.numpy(), x.sum(0), rtol=1e-5)


# --- stages


class Weighed(Method):
    """Two stages and a column that is set before them."""

    name, summary, num_stages = "weighed", "weights by popularity", 2

    def __init__(self, configs, build, protocol):
        super().__init__(configs, build, protocol)
        self.first = build("mf", purpose="first")

    def stages(self, context):
        popularity = context.train_pairs.popularity()[context.train_pairs.items].astype(float)
        context.set_column("weight", popularity / popularity.mean())
        first = Normal.__new__(Normal)
        torch.nn.Module.__init__(first)
        first.target, first.protocol, first.rules = self.first, self.protocol, self.protocol.rules_of(self.first.Rules)
        context.train(first)
        context.train(self)

    def loss(self, batch):
        weight = batch.column("weight")
        assert weight.std() > 0
        return batch.mean((self.target(batch.users, batch.items) - 1) ** 2)


def test_a_method_sets_weights_and_trains_in_stages():
    trained, states = train_small("gmf", Weighed, (3, 5))
    assert len(states) == 2
    assert [entry["stage"] for state in states for entry in state.history] == ["1/2", "1/2", "2/2", "2/2"]
    assert trained.target.name == "gmf"


def test_a_column_of_another_length_is_refused():
    class Wrong(Normal):
        def stages(self, context):
            context.set_column("weight", np.ones(3))

    with pytest.raises(InputError, match="column 'weight' has 3 values for"):
        train_small("gmf", Wrong, (3,))


@pytest.mark.parametrize("method", ["deca", "ensemble"])
def test_a_stack_gives_back_the_runs_that_did_not_diverge(method, monkeypatch):
    """As they are when trained without the one that did."""
    options = {"epochs": 3, "train__early_stop": False, "train__l2": 0.1}
    spoil(monkeypatch, "gmf", seed=5)
    with pytest.raises(Diverged, match=r"^training diverged with seed 5 of gmf \+ \w+: ") as found:
        train_small("gmf", method, (3, 5, 8), **options)
    run, rest, states = found.value.rest
    assert run.config.seeds == (3, 8)
    assert [len(state.best) for state in states] == [2 * rest.members]
    assert all(math.isfinite(loss) for state in states for entry in state.history for loss in entry["loss"])
    for number, seed in enumerate((3, 8)):
        alone, _ = train_small("gmf", method, (seed,), **options)
        for name, tensor in one_run(rest.state_dict(), number, 2).items():
            torch.testing.assert_close(tensor, one_run(alone.state_dict(), 0, 1)[name], rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("model", [kind.name for kind in SOLVED])
def test_every_solved_model_says_what_it_does(model):
    told = []
    train_stack(small_data_for(model), plan_small(model, "normal", (1,)), CPU, watch=told.append)
    assert {(progress.stage, progress.epochs, progress.unit) for progress in told} == {(model, 100, "%")}
    shares = [progress.epoch for progress in told]
    assert shares == sorted(shares)
    assert (shares[0], shares[-1]) == (0, 100)
