"""What models that score from a history share: matrices, the k best of a row, histories end to end."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
import torch

import accord
from accord.data.interactions import Interactions
from accord.data.split import split
from accord.errors import InputError
from accord.models import MODELS
from accord.models.base import Setup
from accord.models.histories import ages, interaction_matrix, one_thread, power_or_zero
from accord.models.popularity import item_quality
from accord.protocol import CORRECTED
from helpers import csr, make_model
from oracles import EMPTY, PLAIN, dense, history_of, neighbour_scores, scores_of, weighted

LOG = csr(4, 5, [(0, 1), (0, 4), (2, 0), (2, 1), (2, 3), (3, 2)])  # user 1 has nothing


def test_the_matrix_has_ones_or_weights():
    x = interaction_matrix(LOG).toarray()
    assert x.sum() == 6
    assert x[2].tolist() == [1, 1, 0, 1, 0]
    weighted = interaction_matrix(LOG, np.arange(1.0, 7)).toarray()
    assert weighted[0].tolist() == [0, 1, 0, 0, 2]
    assert weighted[3, 2] == 6


def test_a_power_of_nothing_is_zero():
    assert power_or_zero(np.array([0.0, 4.0, 9.0]), -0.5).tolist() == [0, 0.5, pytest.approx(1 / 3)]


def test_scores_are_sums_over_the_history_of_each_user():
    model = make_model("ease", LOG, l2=1)
    model.weight = torch.eye(5)
    assert model.score_all(torch.tensor([2, 1, 0]))[0].tolist() == [[1, 1, 0, 1, 0], [0] * 5, [0, 1, 0, 0, 1]]


def test_threads_come_back_after_an_error():
    before, within = torch.get_num_threads(), []
    with pytest.raises(ZeroDivisionError), one_thread():
        within.append(torch.get_num_threads() / 0)
    assert not within
    assert torch.get_num_threads() == before


def test_the_quality_of_an_item_is_drawn_to_that_of_all():
    p_real = np.array([1.0, 0.0, 1.0, 1.0, 0.5, 0.1])  # of items 1, 4, 0, 1, 3, 2
    mean = p_real.mean()
    share = (np.array([1.0, 2.0, 0.1, 0.5, 0.0]) + 5 * mean) / (np.array([1, 2, 1, 1, 1]) + 5)
    logit = np.log(share / (1 - share))
    np.testing.assert_allclose(item_quality(LOG, p_real), logit - logit.mean())
    assert item_quality(LOG, np.ones(6)).tolist() == [0.0] * 5


# --- recency


def timed(train, seed=2):
    """The same interactions, each at a moment of which there are few: many are at the same."""
    drawn = np.random.default_rng(seed).integers(0, 6, len(train.items))
    return replace(train, columns={**train.columns, "time": drawn})


TIMED = {"plain": timed(PLAIN), "weights": timed(weighted(PLAIN)), "with nothing": timed(EMPTY)}
each_log = pytest.mark.parametrize("train", TIMED.values(), ids=TIMED)
ITEM_TO_ITEM = {
    "ease": {"l2": 3.0},
    "sparse-ease": {"l2": 3.0, "neighbours": 4, "dim": 3},
    "item-knn": {"k": 5},
    "graph-filter": {},
}


def aged(train, half_life):
    """The histories [U, I], counted one by one."""
    x = dense(train)
    for user in range(train.num_users):
        own = slice(train.ptr[user], train.ptr[user + 1])
        when = [*zip(train.columns["time"][own], train.items[own], strict=True)]
        for time, item in when:
            later = sum(other > (time, item) for other in when)
            x[user, item] *= 0.5 ** (later / half_life)
    return x


def test_ages_count_what_is_later_and_at_one_moment_what_is_further_down():
    log = replace(LOG, columns={"time": np.array([5, 3, 9.0, 9.0, 1.0, 0])})
    assert ages(log).tolist() == [0, 1, 1, 0, 2, 0]


@each_log
@pytest.mark.parametrize("half_life", [0.5, 3.0])
@pytest.mark.parametrize("name", ITEM_TO_ITEM)
def test_a_history_fades_in_scoring_and_not_in_fitting(name, half_life, train):
    plain, model = (make_model(name, train, **ITEM_TO_ITEM[name], **more) for more in ({}, {"recency": half_life}))
    weights = plain.item_to_item().numpy()
    np.testing.assert_array_equal(model.item_to_item().numpy(), weights)
    np.testing.assert_allclose(scores_of(model), aged(train, half_life) @ weights, rtol=1e-4, atol=1e-5)


@each_log
def test_neighbours_are_those_of_a_faded_history(train):
    model = make_model("user-knn", train, k=6, shrink=2.0, recency=1.5)
    expected = neighbour_scores(aged(train, 1.5), dense(train), 6, 2.0, np.arange(train.num_users))
    np.testing.assert_allclose(scores_of(model), expected, rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("name", [*ITEM_TO_ITEM, "user-knn"])
def test_the_last_item_of_a_history_that_is_given_is_the_latest(name):
    options = ITEM_TO_ITEM.get(name, {"k": 6})
    train = replace(PLAIN, columns={"time": -PLAIN.items})  # the first item is the latest
    model = make_model(name, train, **options, recency=2.0)
    history = history_of(train, 7).flip(0)
    found = model.scores_of(history)
    if name == "user-knn":  # which leaves the user itself out
        x = aged(train, 2.0)
        expected = neighbour_scores(x[7:8], dense(train), 6, 100.0)
    else:
        expected = scores_of(model, [7])
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-4, atol=1e-5)
    plain = make_model(name, train, **options)
    assert torch.equal(plain.scores_of(history), plain.scores_of(history.flip(0))), "without it order says nothing"


def test_recency_that_is_off_is_not_written():
    for name in [*ITEM_TO_ITEM, "user-knn"]:
        config = MODELS[name].Config
        assert "recency" not in config().model_dump()
        assert config(recency=3).model_dump()["recency"] == 3


def test_without_times_there_is_no_recency():
    sentence = "option recency of model ease needs times, and the log has none; give columns=Columns"
    with pytest.raises(InputError, match=sentence):
        MODELS["ease"](MODELS["ease"].Config(recency=3), Setup(PLAIN, (1,), CORRECTED))


@pytest.mark.parametrize("name", ["ease", "item-knn", "user-knn"])
def test_a_saved_run_scores_as_it_did(name, tmp_path):
    times = np.random.default_rng(0).permutation(len(PLAIN.items)) + 2**60  # that no float can tell apart
    log = Interactions.of(pa.array(PLAIN.users), pa.array(PLAIN.items), time=pa.array(times))
    data = split(log, "chronological", (0.6, 0.2, 0.2))
    made = accord.fit(data, name, options={"model.recency": 2}, device="cpu", out=tmp_path / "run")
    again = accord.Recommender.load(tmp_path / "run")
    assert again.evaluate().mean() == made.evaluate().mean()
    assert again.recommend(k=5).equals(made.recommend(k=5))
    members = [{"model": name, "options": {"model.recency": 2}}, {"model": "popularity"}]
    vote = accord.fit(data, "consensus", options={"model.members": members}, device="cpu", out=tmp_path / "vote")
    assert accord.Recommender.load(tmp_path / "vote").recommend(k=5).equals(vote.recommend(k=5))
    plain = accord.fit(data, name, device="cpu")
    assert not plain.recommend(k=5).equals(made.recommend(k=5))


# --- what is real

CLEAN = ("item-knn", "graph-filter")


@pytest.mark.parametrize("name", CLEAN)
@pytest.mark.parametrize("train", [PLAIN, weighted(PLAIN)], ids=["plain", "weights"])
def test_in_a_clean_model_an_interaction_counts_for_its_p_real(name, train):
    p_real = np.random.default_rng(3).random(len(train.items))
    told = replace(train, columns={**train.columns, "p_real": p_real})
    model = make_model(name, told, **ITEM_TO_ITEM[name], clean=True)
    share = p_real / p_real.mean() * train.columns.get("weight", 1.0)
    expected = make_model(name, replace(train, columns={"weight": share}), **ITEM_TO_ITEM[name])
    np.testing.assert_allclose(scores_of(model), scores_of(expected), rtol=1e-5)
    items, history = torch.arange(train.num_items), history_of(train, 7).long()
    added = model.contributions(history, items, 7)[0].sum(0)
    np.testing.assert_allclose(added.numpy(), scores_of(model, [7])[0], rtol=1e-4, atol=1e-5)
    again = MODELS[name](model.config, Setup(train, (1,), CORRECTED))  # from a folder, which has no p_real
    again.make_room(model.state_dict())
    again.load_state_dict(model.state_dict())
    np.testing.assert_array_equal(scores_of(again), scores_of(model))


@pytest.mark.parametrize("name", CLEAN)
def test_where_nothing_is_known_a_clean_model_is_the_plain_one(name):
    found = make_model(name, PLAIN, **ITEM_TO_ITEM[name], clean=True)
    plain = make_model(name, PLAIN, **ITEM_TO_ITEM[name])
    np.testing.assert_allclose(scores_of(found), scores_of(plain), rtol=1e-6)
    assert "clean" not in plain.config.model_dump()
    assert not {"counts", "history_weight"} & set(plain.state_dict())
