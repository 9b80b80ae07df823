"""Lists of one run by row numbers: neighbours of a new user, barred items, reasons."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
import torch

import accord
from accord import Recommender
from accord.errors import InputError
from accord.evaluation.ranking import Ranker
from accord.fitting import fit
from accord.models.consensus import vote
from accord.protocol import CORRECTED, PUBLISHED
from accord.recommender.top_n import AGREES, REASONS, Lists, latest_last, similarity_of
from helpers import CPU, csr, make_model, random_csr, small_data
from serving import run  # noqa: F401


def test_the_users_most_alike_stand_in_for_a_newcomer(simulation):
    """The owner of a history that is taken over whole is the nearest; items that nobody took have no neighbour."""
    lists = accord.fit(simulation.dataset, "mf", "normal", epochs=2).lists
    train = lists.train
    history = train.items[train.ptr[7] : train.ptr[8]]
    users, weights = lists.neighbours(torch.from_numpy(history))
    taken = [train.items[train.ptr[u] : train.ptr[u + 1]] for u in range(train.num_users)]
    shared = np.array([len(np.intersect1d(history, items)) for items in taken])
    cosine = shared / np.sqrt(np.maximum(train.counts, 1) * len(history))
    assert users[0] == 7
    assert cosine[users].min() >= np.sort(cosine)[-10]
    np.testing.assert_allclose(weights, cosine[users] / cosine[users].sum(), rtol=1e-5)
    with torch.inference_mode():
        items, scores, source = lists.of_history(history, 5)
        torch.testing.assert_close(scores, (weights @ lists.method.score_all(users)[0])[items])
    assert source == "history"
    untaken = np.flatnonzero(train.popularity() == 0)[:1]
    if len(untaken):
        assert lists.of_history(untaken, 5)[2] == "popularity"


def test_barred_items_are_left_out(simulation):
    lists = accord.fit(simulation.dataset, "mf", "normal", epochs=2).lists
    items, values, source = lists.of_user(3, 10)
    barred = torch.zeros(lists.train.num_items, dtype=torch.bool)
    barred[items[::2]] = True
    fewer, scores, _ = lists.of_user(3, 5, barred)
    assert source == "model"
    assert fewer.tolist() == items[1::2].tolist()
    assert torch.equal(scores, values[1::2])
    folded, _, _ = lists.of_history(items[:3].numpy(), 80, barred)
    assert not set(folded.tolist()) & {*items[::2].tolist(), *items[:3].tolist()}
    nothing, _, _ = lists.of_user(3, 5, ~torch.zeros_like(barred))
    assert not len(nothing)


def lists_of(scores, train, protocol=CORRECTED, **more):
    """Lists by given scores [U, I]."""
    tensor = torch.tensor(scores, dtype=torch.float32).unsqueeze(0)
    target = SimpleNamespace(scores_of=lambda history: None)
    method = SimpleNamespace(target=target, score_all=lambda users: tensor[:, users].clone())
    return Lists(method, Ranker(method.score_all, 1, train, train, protocol, CPU, **more))


TRAIN = csr(4, 5, [(0, 0), (0, 1), (1, 0), (1, 1), (2, 3)])  # popularity 2 2 0 1 0; user 3 is cold
SCORES = [[5, 4, 3, 2, 1], [1, 2, 3, 4, 5], [0, 0, 9, 9, 8], [1, 1, 1, 1, 1]]


def test_the_list_of_a_user_has_what_is_unseen_in_order():
    lists = lists_of(SCORES, TRAIN)
    items, values, source = lists.of_user(0, 2)
    assert (items.tolist(), values.tolist(), source) == ([2, 3], [3, 2], "model")
    assert lists.of_user(1, 9)[0].tolist() == [4, 3, 2], "no more than there are"
    assert lists.sources(np.array([0, 3])).tolist() == ["model", "popularity"]


def test_a_cold_user_gets_the_popular_items_or_the_models_by_the_protocol():
    items, values, source = lists_of(SCORES, TRAIN).of_user(3, 3)
    assert (set(items[:2].tolist()), items[2], source) == ({0, 1}, 3, "popularity")
    assert values.tolist() == [2, 2, 1]
    items, _, source = lists_of(SCORES, TRAIN, PUBLISHED).of_user(3, 3)
    assert (items.tolist(), source) == ([0, 1, 2], "model")


def test_users_with_the_same_items_stand_in_for_a_history():
    """Users 0 and 1 share one item of two each with the history, so both count a half."""
    lists = lists_of(SCORES, TRAIN)
    users, weights = lists.neighbours(torch.tensor([0]))
    assert users.tolist() == [0, 1]
    assert weights.tolist() == pytest.approx([0.5, 0.5])
    items, values, source = lists.of_history(np.array([0]), 3)
    assert source == "history"
    assert values.tolist() == [3, 3, 3], "their mean"
    assert 0 not in items.tolist(), "what is in the history is not recommended"


def test_a_history_that_nobody_shares_and_an_empty_one_get_the_popular_items():
    lists = lists_of(SCORES, TRAIN)
    items, values, source = lists.of_history(np.array([2]), 3)
    assert (set(items[:2].tolist()), items[2].item(), source) == ({0, 1}, 3, "popularity")
    items, values, source = lists.of_history(np.empty(0, dtype=np.int64), 2)
    assert (set(items.tolist()), values.tolist(), source) == ({0, 1}, [2, 2], "popularity")


def test_a_model_that_folds_in_is_asked_first():
    lists = lists_of(SCORES, TRAIN)
    lists.method.target.scores_of = lambda history: torch.tensor([[0.0, 1, 2, 3, 4], [0, 1, 2, 5, 4]])
    items, values, source = lists.of_history(np.array([4]), 2)
    assert (items.tolist(), values.tolist(), source) == ([3, 2], [4, 2], "history"), "the mean over members"


def test_of_an_item_that_a_history_has_twice_the_later_counts():
    assert latest_last(np.array([7, 2, 7, 9, 2])).tolist() == [7, 9, 2]
    assert latest_last(np.empty(0, dtype=np.int64)).tolist() == []


# --- reasons


@pytest.fixture(scope="module")
def ease():
    return accord.fit(small_data(), "ease", options={"model.l2": 20}).lists


def test_contributions_are_the_largest_that_add_to_the_score(ease):
    items, scores, _ = ease.of_user(4, 5)
    everything = ease.reasons(items, 4, limit=1000)
    train = ease.train
    own = train.items[train.ptr[4] : train.ptr[5]]
    weights = ease.method.target.weight
    assert everything.by == "contribution"
    for item, score, said in zip(items.tolist(), scores.tolist(), everything.of_items, strict=True):
        added = weights[own, item]
        assert dict(said) == {
            row: pytest.approx(value) for row, value in zip(own.tolist(), added.tolist(), strict=True) if value > 0
        }
        assert [value for _, value in said] == sorted((value for _, value in said), reverse=True)
        assert float(added.sum()) == pytest.approx(score, abs=1e-5)
    few = ease.reasons(items, 4)
    assert few.of_items == [said[:REASONS] for said in everything.of_items]


def test_elsewhere_the_most_similar_own_items_are_named():
    lists = accord.fit(small_data(), "mf", "normal", epochs=1, options={"model.dim": 4}).lists
    history, items = np.array([3, 9, 1, 12]), torch.tensor([5, 7])
    said = lists.reasons(items, history, limit=2)
    assert said.by == "similarity"
    alike = lists.similar.between(items, torch.from_numpy(history))
    for number, found in enumerate(said.of_items):
        best = alike[number].argsort(descending=True)[:2]
        assert [row for row, _ in found] == [int(history[place]) for place in best if alike[number, place] > 0]


def test_without_a_history_or_items_nothing_speaks_for_anything(ease):
    assert ease.reasons(torch.tensor([1, 2]), np.empty(0, dtype=np.int64)).of_items == [[], []]
    assert ease.reasons(torch.empty(0, dtype=torch.long), 4).of_items == []


@pytest.fixture(scope="module")
def rec(run):  # noqa: F811
    return Recommender.load(run)


def test_similarity_by_vectors_is_their_cosine(rec):
    model = rec.lists.method.target
    alike = similarity_of(model, rec.train)
    vectors = (model.item.weight[0] * model.out.weight[0].abs().sqrt().T).detach()
    expected = torch.nn.functional.cosine_similarity(vectors[None, :4], vectors[5:7, None], dim=-1)
    torch.testing.assert_close(alike.between(torch.tensor([5, 6]), torch.arange(4)), expected)
    torch.testing.assert_close(alike.to_all(5)[:4], expected[0])


@pytest.mark.parametrize("model", ["mf", "neumf", "cdae", "lightgcn"])
def test_learned_models_have_a_vector_for_each_item(model):
    train = random_csr(12, 8, 0.4)
    made = make_model(model, train, seeds=(1, 2))
    vectors = made.item_vectors()
    assert vectors is not None
    assert vectors.shape[0] == 8
    assert made.item_to_item() is None
    alike = similarity_of(made, train)
    torch.testing.assert_close(alike.to_all(3)[3], torch.tensor(1.0))  # to itself
    torch.testing.assert_close(alike.between(torch.tensor([3]), torch.arange(8))[0], alike.to_all(3))


def test_ease_weighs_what_leads_to_an_item():
    train = random_csr(12, 8, 0.4)
    made = make_model("ease", train)
    alike = similarity_of(made, train)
    assert torch.equal(alike.to_all(3), made.weight[:, 3])
    assert torch.equal(alike.between(torch.tensor([3, 5]), torch.tensor([0, 1])), made.weight[:2, [3, 5]].T)


def test_without_vectors_items_are_alike_by_their_users():
    train = csr(4, 3, [(0, 0), (1, 0), (0, 1), (1, 1), (2, 1), (3, 2)])
    made = make_model("popularity", train)
    assert made.item_vectors() is None
    alike = similarity_of(made, train)
    expected = torch.tensor([2 / (2 * 3) ** 0.5, 1.0, 0.0])  # item 1 shares two of its three users with item 0
    torch.testing.assert_close(alike.to_all(1), expected)
    torch.testing.assert_close(alike.between(torch.tensor([1]), torch.arange(3)), expected[None])


def test_the_members_of_a_consensus_vote_on_what_is_similar():
    members = [{"model": "ease"}, {"model": "ials", "options": {"model.dim": 4}}, {"model": "popularity"}]
    given = [member | {"weight": weight} for member, weight in zip(members, (3.0, 1.0, 1.0), strict=True)]
    made = fit(small_data(), "consensus", options={"model.members": given}, refit=False)
    target = made.method.target
    alike = similarity_of(target, made.train)
    ease, ials = (similarity_of(member.target, made.train).to_all(5) for member in target.members[:2])
    by_hand = [(each - each.mean()) / each.std(correction=0) for each in (ease, ials)]
    torch.testing.assert_close(alike.to_all(5), 0.75 * by_hand[0] + 0.25 * by_hand[1])
    torch.testing.assert_close(alike.between(torch.tensor([2, 5]), torch.arange(4))[1], alike.to_all(5)[:4])


MEMBERS = [{"model": "ease", "weight": 1.0}, {"model": "ials", "options": {"model.dim": 4}, "seeds": 2, "weight": 1.0}]


@pytest.fixture(scope="module")
def made():
    return fit(small_data(), "consensus", options={"model.members": MEMBERS}, device="cpu")


@torch.inference_mode()
def test_a_place_is_how_many_unowned_items_a_member_puts_before_it(made):
    shown = made.recommend(None, 5)
    table = made.agreement(shown.select(["user", "item"]))
    assert table.column_names == ["user", "item", "agree", "of", "ease", "ials x 2"]
    method = made.lists.method
    for row in table.slice(0, 40).to_pylist():
        user, item = made.users.rows([row["user"]])[0], made.items.rows([row["item"]])[0]
        free = np.ones(len(made.items), dtype=bool)
        free[made.owned.items[made.owned.ptr[user] : made.owned.ptr[user + 1]]] = False
        places = []
        for member in method.target.members:
            scores = vote(member, torch.tensor([user]))[0].numpy()
            places.append(1 + int((scores[free] > scores[item]).sum()))
        assert [row["ease"], row["ials x 2"]] == places
        assert (row["agree"], row["of"]) == (sum(place <= AGREES for place in places), 2)


def test_an_interaction_has_a_place_too_and_a_stranger_has_none(made):
    data = small_data()
    user = data.train.users[0].as_py()
    asked = pa.table({"user": [user, "nobody"], "item": [data.train.items[0].as_py()] * 2})
    known, stranger = made.agreement(asked).to_pylist()
    assert known["ease"] >= 1
    assert (stranger["agree"], stranger["ease"]) == (None, None)


def test_only_members_can_agree():
    made = fit(small_data(), "ease", device="cpu")
    with pytest.raises(InputError, match=r"^only the members of a consensus can agree; train one with model='auto'"):
        made.agreement(pa.table({"user": ["u1"], "item": ["i1"]}))


def test_members_of_one_kind_are_told_apart():
    members = [{"model": "ease", "options": {"model.l2": l2}, "weight": 1.0} for l2 in (10.0, 500.0)]
    members.append({"model": "ease", "options": {"model.clean": True}, "weight": 0.5})
    made = fit(small_data(), "consensus", options={"model.members": members}, device="cpu")
    assert made.opinions.labels == ["ease", "ease (2)", "ease (by labels)"]
    assert made.agreement(made.recommend(None, 1).select(["user", "item"])).column("of").to_pylist()[0] == 3
