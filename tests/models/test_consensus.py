"""A consensus: what it says is the weighted sum of what its members say, standardised within a user."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from accord.errors import InputError
from accord.fitting import fit
from accord.kernels import cpu
from accord.models.consensus import Consensus, Member, add_standardised, as_run, standardised, vote
from accord.recommender.recommender import Recommender
from helpers import plan_small, small_data

MEMBERS = [
    {"model": "ease", "options": {"model.l2": 50}, "weight": 2.0},
    {"model": "ials", "options": {"model.dim": 4}, "seeds": 3, "weight": 1.0},
    {"model": "mf", "method": "normal", "options": {"model.dim": 4}, "seeds": 2, "weight": 0.5},
]


@pytest.fixture(scope="module")
def made():
    return fit(small_data(), "consensus", options={"model.members": MEMBERS}, epochs=2, device="cpu", ks=[5, 20])


def by_hand(scores):
    """[runs, B, I] -> [B, I] in float64."""
    scores = scores.double().numpy()
    spread = scores.std(-1, keepdims=True)
    return np.where(spread > 0, (scores - scores.mean(-1, keepdims=True)) / np.where(spread > 0, spread, 1), 0).mean(0)


@torch.inference_mode()
def test_scores_are_the_weighted_sum_of_standardised_scores(made):
    users, target = torch.tensor([3, 0, 7]), made.method.target
    expected = sum(
        weight * by_hand(member.score_all(users))
        for weight, member in zip((2.0, 1.0, 0.5), target.members, strict=True)
    )
    np.testing.assert_allclose(target.score_all(users)[0].numpy(), expected, atol=1e-5)
    items = torch.tensor([[1, 2, 0]])
    np.testing.assert_allclose(
        target(users.unsqueeze(0), items)[0].numpy(), expected[np.arange(3), items[0].numpy()], atol=1e-5
    )


@torch.inference_mode()
def test_a_member_is_what_it_is_alone(made):
    alone = fit(small_data(), "ease", options={"model.l2": 50}, device="cpu", ks=[5])
    users = torch.arange(5)
    member, scores = made.method.target.members[0], alone.method.score_all(users)
    assert torch.equal(member.score_all(users), scores)
    assert torch.equal(as_run(member, users), scores)


@torch.inference_mode()
def test_fold_in_asks_the_members_that_can(made):
    history, target = torch.tensor([1, 4, 9]), made.method.target
    expected = 2.0 * by_hand(target.members[0].target.fold_in(history).unsqueeze(1))
    expected = expected + by_hand(target.members[1].target.fold_in(history).unsqueeze(1))
    assert target.members[2].target.fold_in(history) is None, "mf cannot"
    np.testing.assert_allclose(target.fold_in(history).numpy(), expected, atol=1e-5)


def test_a_member_with_nothing_to_say_says_nothing():
    assert standardised(torch.tensor([[0.0, 0, 0], [7, 7, 7], [1, 2, 3]]))[:2].tolist() == [[0.0] * 3] * 2


@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_a_member_says_the_same_on_any_scale(scale):
    scores = torch.tensor([[7.0, 7, 7], [1, 2, 4]])
    level = scores[0] * scale + torch.tensor([0, 8e-7, 0]) * scale  # but for rounding
    torch.testing.assert_close(standardised(torch.stack([level, scores[1] * scale])), standardised(scores))


@torch.inference_mode()
@pytest.mark.parametrize("user", [None, 3])
def test_contributions_are_those_of_the_members_that_have_them(made, user):
    """Two of three add up over a history: their votes are its sum, but for a number that is the same for all items."""
    target, items = made.method.target, torch.arange(40)
    train = made.train
    history = torch.from_numpy(train.items[train.ptr[3] : train.ptr[4]]).long()
    added = target.contributions(history, items, user)
    assert added.shape == (1, len(history), 40)
    one = torch.tensor([3])
    scores = [m.score_all(one) if user else m.target.fold_in(history).unsqueeze(1) for m in target.members[:2]]
    expected = 2.0 * by_hand(scores[0]) + by_hand(scores[1])
    rest = expected[0] - added[0].sum(0).numpy()
    np.testing.assert_allclose(rest, rest[0], atol=1e-4)


def test_one_run_folder_holds_it_all(made, tmp_path):
    loaded = Recommender.load(made.save(tmp_path / "run"))
    assert loaded.run.config == made.run.config
    assert loaded.recommend(None, 5).equals(made.recommend(None, 5))
    assert loaded.recommend(["new"], 5, history={"new": made.items.ids.to_pylist()[:3]}).equals(
        made.recommend(["new"], 5, history={"new": made.items.ids.to_pylist()[:3]})
    )
    assert loaded.evaluate().mean() == made.evaluate().mean()


def test_votes_of_no_users_are_none(made):
    member = made.method.target.members[1]
    assert vote(member, torch.empty(0, dtype=torch.long)).shape == (0, made.train.num_items)


@pytest.mark.parametrize(
    ("members", "said"),
    [
        ([{"model": "consensus"}], r"^a member of a consensus is one model, and 'consensus' is several"),
        ([{"model": "auto"}], r"^a member of a consensus is one model, and 'auto' is several"),
        ([{"model": "eese"}], r"^unknown model 'eese'; did you mean 'ease'\?"),
        ([{"model": "ease", "options": {"model.l3": 1}}], r"^unknown option of member ease 'l3'"),
        ([{"model": "ease", "options": {"protocol.ties": "index"}}], r"follows the protocol of its run"),
        ([{"model": "ease", "seeds": 0}], r"^option members.0.seeds of model consensus is 0"),
        ([{"model": "ease", "weight": -1}], r"^option members.0.weight of model consensus is -1"),
    ],
)
def test_mistakes_are_found_before_anything_is_trained(members, said):
    with pytest.raises(InputError, match=said):
        plan_small("consensus", "normal", (3,), model__members=members)


@pytest.mark.parametrize("budget", [0, -1, "long"])
def test_a_budget_is_a_number_of_seconds_and_two_minutes_if_not_given(budget):
    assert Consensus.Config().budget == 120
    with pytest.raises(InputError, match=r"^option budget of model auto is"):
        plan_small("auto", "normal", (3,), model__budget=budget)


@torch.inference_mode()
@pytest.mark.parametrize("threads", [1, 2])
def test_adding_in_one_pass_is_adding(threads, monkeypatch):
    """To the last digits of float32, and to the last bit with any number of threads."""
    scores = torch.randn(3, 7, 1500, generator=torch.Generator().manual_seed(0)) * 4 + 100
    scores[1, 2], scores[:, 3, 5] = 7.0, torch.nan
    before, totals = torch.get_num_threads(), []
    for number in (1, threads):
        torch.set_num_threads(number)
        totals.append(torch.ones(7, 1500))
        add_standardised(totals[-1], scores, 0.25)
    torch.set_num_threads(before)
    assert torch.equal(*totals)
    monkeypatch.setattr(cpu, "usable", lambda _tensor: False)
    plain = torch.ones(7, 1500)
    add_standardised(plain, scores, 0.25)
    torch.testing.assert_close(totals[0], plain, rtol=1e-4, atol=1e-4)
    assert totals[0][3].tolist() == [1.0] * 1500, "what is not a number says nothing"


@torch.inference_mode()
def test_the_quality_of_items_votes_as_it_is():
    more = [{"model": "quality", "weight": 0.2}]
    made = fit(small_data(), "consensus", options={"model.members": MEMBERS[:2] + more}, device="cpu", ks=[5])
    users, target, history = torch.tensor([3, 0]), made.method.target, torch.tensor([1, 4, 9])
    quality = torch.linspace(-1, 3, 40)
    target.members[2].target.value = quality

    def expected(votes):
        return 2.0 * by_hand(votes[0]) + by_hand(votes[1]) + 0.2 * quality.numpy()

    votes = [member.score_all(users) for member in target.members]
    np.testing.assert_allclose(target.score_all(users)[0].numpy(), expected(votes), atol=1e-5)
    votes = [member.target.scores_of(history).unsqueeze(1) for member in target.members]
    np.testing.assert_allclose(target.fold_in(history).numpy(), expected(votes), atol=1e-5)


def test_a_history_is_judged_by_the_members_that_can_on_their_scales():
    """Of several runs the mean; the one whose scale means something as it is; without those that say nothing, and of
    what adds up without those that count some interactions for more."""
    runs, quality = torch.tensor([[1.0, 2, 6], [4, 0, 2]]), torch.tensor([[-1.0, 0, 3]])
    parts = torch.arange(12.0).view(2, 2, 3)
    trained = []
    for scores, added in ((runs, parts), (quality, None), (None, None), (runs, parts)):
        trained.append(torch.nn.Module())
        trained[-1].score_all = lambda _users, scores=scores: scores.unsqueeze(1)
        trained[-1].target = SimpleNamespace(  # what it says of a history
            own_scale=scores is quality,
            scores_of=lambda _history, scores=scores: scores,
            contributions=lambda _history, _items, user, added=added: added if user is None else (user + 1) * added,
            for_newcomers=lambda scores=scores: None if scores is runs else scores,
        )
    consensus = Consensus.__new__(Consensus)
    torch.nn.Module.__init__(consensus)
    members = [Member(model=name, weight=weight) for name, weight in (("a", 2.0), ("b", 0.2), ("c", 1.0))]
    consensus.take([*members, Member(model="d", weight=3.0, by_p_real=True)], trained)
    expected = 5.0 * by_hand(runs.unsqueeze(1)) + 0.2 * quality.numpy()
    np.testing.assert_allclose(consensus.fold_in(torch.tensor([0, 1])).numpy(), expected, atol=1e-6)
    assert consensus.for_newcomers() is quality, "who knows nothing of them says nothing"
    added = consensus.contributions(torch.tensor([0, 1]), torch.arange(3))
    spreads = runs.double().numpy().std(-1)[:, None, None]
    np.testing.assert_allclose(added[0].numpy(), 2.0 * (parts.numpy() / spreads).mean(0), atol=1e-6)
    consensus.take(members[:1], trained[:1])
    torch.testing.assert_close(consensus.contributions(torch.tensor([0, 1]), torch.arange(3), 2), 3 * added)
    consensus.take(members[2:], trained[2:3])
    assert consensus.fold_in(torch.tensor([0, 1])) is None
    assert consensus.contributions(torch.tensor([0, 1]), torch.arange(3)) is None
