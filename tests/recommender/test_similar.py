from __future__ import annotations

import pytest
import torch

from accord import Recommender
from accord.fitting import fit
from accord.recommender.similar import similarity_of
from helpers import csr, make_model, random_csr, small_data
from serving import run  # noqa: F401


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
