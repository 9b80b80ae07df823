"""The search for a consensus: what it tried, what it chose, and that it gives the same again."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import partial
from itertools import count
from types import SimpleNamespace

import pytest
import torch

from accord.consensus import search
from accord.consensus.families import FAMILIES, MOST_TRIALS, SEEDS, VOTERS, plan_search
from accord.consensus.members import Candidate, MemberTraining
from accord.data.simulate import simulate
from accord.fitting import fit
from accord.models.base import Shape
from accord.models.consensus import Member
from accord.recommender.recommender import Recommender
from accord.training import stack
from accord.training.callbacks import Callback
from accord.training.trainer import OF_BUDGET
from helpers import CPU, assert_same_weights, plan_small, small_data, walk


def only(monkeypatch, *names):
    """Let the search try the families of these names alone."""
    families = [family for family in FAMILIES if family.name in names]
    monkeypatch.setattr(search, "plan_search", partial(plan_search, families=families))


@pytest.fixture(scope="module")
def made():
    return fit(small_data(), "auto", options={"model.budget": 2}, device="cpu")


def test_it_becomes_a_consensus_that_can_be_given_again(made, tmp_path):
    config = made.run.config
    assert config.model == "consensus"
    again = fit(small_data(), "consensus", options={"model.members": config.model_options["members"]}, device="cpu")
    assert again.metrics["mean"] == made.metrics["mean"]
    loaded = Recommender.load(made.save(tmp_path / "run"))
    assert loaded.recommend(None, 3).equals(made.recommend(None, 3))


def test_a_consensus_without_members_is_the_same_search(made):
    again = fit(small_data(), "consensus", options={"model.budget": 2}, device="cpu")
    assert again.run.config == made.run.config


def test_it_says_what_it_tried(made):
    record, members = made.metrics["search"], made.metrics["members"]
    assert record["budget"] == 2
    assert record["cost_seconds"] <= 2
    assert {entry["model"] for entry in members} == {entry["model"] for entry in record["tried"]}
    tried = [(one["model"], one.get("method"), one["valid_ndcg@20"]) for one in record["tried"]]
    for model in {"ease", "item-knn", "ials"}:
        best = sorted((ndcg for name, _, ndcg in tried if name == model), reverse=True)
        chosen = [member for member in members if member["model"] == model]
        assert chosen[0]["valid_ndcg@20"] == best[0], "the best of its family"
        assert {member["valid_ndcg@20"] for member in chosen} <= set(best[:VOTERS])
        assert all(member.get("weight") for member in chosen[1:]), "others only where they vote"
    counts = Counter((model, method) for model, method, _ in tried)
    assert counts["popularity", None] == 1
    assert counts["ease", None] > 1 + 5, "after plain penalties, others"
    assert max(counts.values()) > MOST_TRIALS + 5, "what leads is tried further"
    assert {entry["model"] for entry in members if entry.get("weight")} == {
        member["model"] for member in made.run.config.model_options["members"]
    }


def test_of_large_members_only_the_best_of_a_family_stays(monkeypatch):
    only(monkeypatch, "popularity", "ease")
    monkeypatch.setattr(search, "LARGE", 4 * 40 * 40 - 1)  # less than the items x items of small_data
    found = fit(small_data(), options={"model.budget": 2}, device="cpu", refit=False)
    assert [entry["model"] for entry in found.metrics["members"]].count("ease") == 1
    assert sum(entry["model"] == "ease" for entry in found.metrics["search"]["tried"]) > 1


class Watching(Callback):
    def __init__(self):
        self.seen = []

    def on_epoch(self, progress):
        self.seen.append(progress)


def test_the_same_search_gives_the_same_result_and_says_what_it_does(made):
    watching = Watching()
    again = fit(small_data(), options={"model.budget": 2}, device="cpu", callbacks=[watching])  # auto is the default
    seen, record = watching.seen, made.metrics["search"]["tried"]
    assert seen[0].plan.startswith("auto tries popularity, ease")
    assert not any(one.plan for one in seen[1:]), "what it will do is said once, before anything is done"
    told = [one for one in seen if one.unit == OF_BUDGET]
    assert len(told) == len(record)
    for number, one in enumerate(told[1:], 1):
        best = max(tried["valid_ndcg@20"] for tried in record[:number])
        assert one.stage.endswith(f", best so far {best:.4f}")
    assert again.run.config == made.run.config
    assert again.metrics["mean"] == made.metrics["mean"]


def test_it_is_no_worse_than_its_members_on_validation(made):
    assert made.metrics["runs"][0]["valid_ndcg@20"] >= max(m["valid_ndcg@20"] for m in made.metrics["members"]) - 1e-6


@pytest.mark.parametrize(
    "shape",
    ["many like few items", "sparse", "short", "in order", "dense", "few users", "mostly noise", "hardly any noise"],
)
def test_it_is_never_below_popularity_and_a_grid_of_penalties(shape, monkeypatch):
    """On the validation, whatever the log is like."""
    monkeypatch.setattr(search, "plan_search", partial(plan_search, families=FAMILIES[:4]))
    data = {
        "many like few items": lambda: simulate(users=90, items=25, interactions=400, seed=2, liked=0.3).dataset,
        "sparse": lambda: simulate(users=150, items=120, interactions=600, seed=3, liked=0.3).dataset,
        "short": lambda: simulate(users=20, items=60, interactions=400, seed=4, liked=0.5).dataset,
        "in order": lambda: walk(users=30, items=20, steps=12),
        "dense": lambda: simulate(users=60, items=30, interactions=900, seed=5, liked=0.8).dataset,
        "few users": lambda: simulate(users=20, items=80, interactions=250, seed=6, liked=0.4).dataset,
        "mostly noise": lambda: simulate(users=60, items=40, interactions=500, seed=7, liked=0.3, noise=0.9).dataset,
        "hardly any noise": lambda: (
            simulate(users=80, items=50, interactions=700, seed=8, liked=0.4, noise=0.02).dataset
        ),
    }[shape]()
    found = fit(data, options={"model.budget": 2, "model.recency": False}, device="cpu", refit=False)
    reached = found.metrics["runs"][0]["valid_ndcg@20"]
    training = MemberTraining(data, plan_small("auto", "none", (1,), data), CPU)
    for member in [*FAMILIES[0].trials(1), *FAMILIES[1].trials(6)]:
        assert reached >= training.candidate(member).ndcg - 1e-6, member.options


def test_what_is_left_of_the_budget_goes_to_seeds_and_to_points_closer_to_the_best(monkeypatch):
    only(monkeypatch, "popularity", "cdae + softmax", "mf + softmax")
    tried = []

    def candidate(training, member):
        tried.append(member)
        method = run.of_member(member).build(training.train)
        return Candidate(member, method, 0.1 + 0.01 * (member.model == "mf") + 0.001 * member.seeds)

    monkeypatch.setattr("accord.consensus.members.MemberTraining.candidate", candidate)
    run = plan_small("auto", "none", (1,))
    _, record = search.search_members(MemberTraining(small_data(), run, CPU), 4, False)
    assert 3.5 < record["cost_seconds"] <= 4
    assert len({member.model_dump_json() for member in tried}) == len(tried), "nothing is tried twice"
    first = [member.seeds for member in tried].index(SEEDS)
    assert {member.seeds for member in tried[first + 2 :]} == {1}, "both families, once"
    assert len(tried) > first + 9, "then more"


@pytest.mark.parametrize("recency", [True, False])
def test_the_plan_is_told_of_times_order_and_labels(recency, monkeypatch):
    told = {}

    def planned(shape, budget, **given):
        told.update(given, judged=shape.num_judged)
        plan = plan_search(shape, budget, FAMILIES[:1], **given)
        told["seconds"] = plan.seconds
        return plan

    monkeypatch.setattr(search, "plan_search", planned)
    training = MemberTraining(walk(), plan_small("auto", "none", (1,), walk()), CPU)
    training.num_labels = 70
    _, record = search.search_members(training, 2, recency)
    assert (told["has_times"], told["in_order"], told["labels"]) == (recency, recency, 70)
    assert told["judged"] == len(training.relevant.users)
    assert record["cost_seconds"] == pytest.approx(told["seconds"], abs=0.05)


def test_it_says_what_it_tries_and_the_best_so_far(monkeypatch):
    only(monkeypatch, "popularity", "ease")
    watching = Watching()
    found = fit(small_data(), options={"model.budget": 1}, device="cpu", refit=False, callbacks=[watching])
    reached = found.metrics["search"]["tried"][0]["valid_ndcg@20"]
    assert [one.stage for one in watching.seen[:2]] == ["popularity 1/1", f"ease 1/6, best so far {reached:.4f}"]
    spent = [one.epoch for one in watching.seen if one.unit == OF_BUDGET]
    assert spent == sorted(spent), "of all of the search, what is tried after the plan too"
    assert spent[0] < spent[6] < spent[-1] <= 99


def test_the_clock_ends_only_what_runs_far_over(monkeypatch):
    clock = count(100, 100)  # seconds a call
    monkeypatch.setattr(MemberTraining, "elapsed", property(lambda _: float(next(clock))))
    monkeypatch.setattr(search, "FAR_OVER", 1.2)
    found = fit(small_data(), options={"model.budget": 2}, device="cpu", refit=False)
    assert [entry["model"] for entry in found.metrics["members"]] == ["popularity"]
    sentence = "the search ended before ease, to keep its budget of 2 s"
    assert sum(sentence in note for note in found.metrics["notes"]) == 1, "said once"
    assert len(found.metrics["search"]["tried"]) == 1


def test_the_clock_counts_the_next_trial_the_evaluation_and_the_report(monkeypatch):
    monkeypatch.setattr(search, "FAR_OVER", 1.2)
    plan = search.Search((), (), seconds=100, left_out=())

    def late(trial, interactions):
        shape = Shape(100, 100, interactions, 0, 0)
        return search._Search(SimpleNamespace(elapsed=100), plan, shape, 100, 1)._late(trial)

    assert not late(19, 0)
    assert late(21, 0)
    assert late(10, 10**6)
    assert not late(0, 10**12), "what comes after a search never keeps it from trying anything"


def test_a_family_that_fails_is_left_out(monkeypatch):
    from accord.errors import InputError
    from accord.models.ease import EASE

    def fail(*_):
        raise InputError("it is broken.")

    only(monkeypatch, "popularity", "ease", "item-knn")
    monkeypatch.setattr(EASE, "fit", fail)
    found = fit(small_data(), options={"model.budget": 2}, device="cpu", refit=False)
    assert "ease" not in {entry["model"] for entry in found.metrics["members"]}
    assert found.metrics["notes"].count("ease is left out: it is broken.") == 1, "what fails as it is, is not tried on"


def test_histories_fade_where_that_pays(tmp_path, monkeypatch):
    monkeypatch.setattr(search, "plan_search", partial(plan_search, families=FAMILIES[:2]))
    found = fit(walk(), options={"model.budget": 2}, device="cpu", out=tmp_path / "run")
    tried = found.metrics["search"]["tried"]
    faded = [entry for entry in tried if "model.recency" in entry.get("options", {})]
    assert [entry["options"]["model.recency"] for entry in faded if entry["model"] == "ease"] == [30, 10, 3]
    plain = max(entry["valid_ndcg@20"] for entry in tried if entry["model"] == "ease" and entry not in faded)
    still, ease, *_ = (entry for entry in found.metrics["members"] if entry["model"] == "ease")
    assert still["valid_ndcg@20"] == plain, "which may vote beside it"
    assert ease["options"] == {**still.get("options", {}), "model.recency": 3}
    assert ease["valid_ndcg@20"] > 1.1 * plain
    voting = [*found.run.members]
    assert any("model.recency" in member.options for member in voting)
    for before, member in zip([None, *voting], voting, strict=False):
        if recency := member.options.get("model.recency"):
            assert member.options == {**before.options, "model.recency": recency}, "it never votes alone"
            assert before.weight >= member.weight
    train = {"model.budget": 2, "protocol.test_history": "train"}  # here they share their weights
    once = fit(walk(), options=train, device="cpu", refit=False, out=tmp_path / "once")
    assert once.run.config.model_options == found.run.config.model_options
    assert Recommender.load(tmp_path / "once").recommend(None, 3).equals(once.recommend(None, 3))
    loaded = Recommender.load(tmp_path / "run")
    assert loaded.evaluate().mean() == found.evaluate().mean()
    assert loaded.recommend(None, 3).equals(found.recommend(None, 3))
    alone = [{"model": "ease", "options": ease["options"]}]
    again = fit(walk(), "consensus", options={"model.members": alone}, device="cpu", refit=False)
    assert again.metrics["runs"][0]["valid_ndcg@20"] == pytest.approx(ease["valid_ndcg@20"], abs=1e-9), "as if fitted"


def test_attention_votes_where_the_validation_comes_later(tmp_path, monkeypatch):
    only(monkeypatch, "popularity", "sasrec + softmax")
    found = fit(walk(), options={"model.budget": 4}, device="cpu", refit=False, out=tmp_path / "run")
    (member,) = found.run.members
    assert (member.model, member.options["model.dim"]) == ("sasrec", 32)
    assert member.epochs is not None, "as many as the validation chose, for the fit with the validation too"
    assert "before_validation" in found.metrics
    loaded, past = Recommender.load(tmp_path / "run"), {"new": [3, 4, 6, 7]}
    best = loaded.recommend(["new"], k=4, history=past)["item"].to_pylist()
    assert loaded.recommend(["new"], k=4, history={"new": [7, 6, 4, 3]})["item"].to_pylist() != best


def test_what_is_recommended_is_what_was_judged_where_histories_fade(monkeypatch):
    """The members with their weights add up to what the weights were chosen for: a fading one with half of its own."""
    scores = {name: torch.tensor([[place + 1.0, place * place]]) for place, name in enumerate(("knn", "ease", "faded"))}
    monkeypatch.setattr(search, "vote", lambda method, _: scores[method])
    fading = {"model.recency": 3}
    members = [Member(model="item-knn"), Member(model="ease"), Member(model="ease", options=fading)]
    candidates = [Candidate(member, name, 0.5) for member, name in zip(members, scores, strict=True)]
    chosen = [0.2, 0.3, 0.5]
    judged = sum(weight * say(None) for weight, say in zip(chosen, search.voters(candidates), strict=True))
    weights = search.shared(candidates, chosen)
    torch.testing.assert_close(sum(w * own for w, own in zip(weights, scores.values(), strict=True)), judged)
    assert min(weights) > 0, "both are members"


@pytest.mark.parametrize("names", [["popularity", "ease", "item-knn"], ["popularity", "ease"], ["popularity"]])
def test_without_a_validation_each_family_is_tried_once_and_taste_votes_alone(names, monkeypatch):
    only(monkeypatch, *names)
    data = small_data()
    bare = replace(data, valid=data.valid.slice(0, 0))
    made = fit(bare, options={"model.budget": 2}, device="cpu", refit=False)
    assert [entry["model"] for entry in made.metrics["search"]["tried"]] == names
    assert [(one.model, one.options, one.weight) for one in made.run.members] == [
        (name, {}, 1.0) for name in names if name != "popularity" or len(names) == 1
    ]


def test_histories_do_not_fade_without_times(made):
    assert not any("model.recency" in entry.get("options", {}) for entry in made.metrics["search"]["tried"])


def test_an_interrupted_search_is_taken_up_with_the_same_result(tmp_path, monkeypatch):
    """After Ctrl-C, what is finished is not fitted again, and nothing is left of it in the run folder."""
    fitted = []
    real = stack.train_stack

    def counted(data, run, *rest, **given):
        fitted.append((run.config.model, str(run.config.model_options)))
        if len(fitted) == 12:
            raise KeyboardInterrupt
        return real(data, run, *rest, **given)

    only(monkeypatch, "popularity", "ease", "item-knn")
    search_again = partial(fit, small_data(), "auto", options={"model.budget": 0.5}, device="cpu", refit=False)
    made = search_again()
    monkeypatch.setattr(stack, "train_stack", counted)
    with pytest.raises(KeyboardInterrupt):
        search_again(out=tmp_path / "run")
    before, fitted[:] = set(fitted[:11]), [("", "")] * 100
    resumed = search_again(out=tmp_path / "run", resume=True)
    assert not before & set(fitted)
    assert resumed.metrics["search"] == made.metrics["search"]
    assert resumed.run == made.run
    assert resumed.metrics["mean"] == made.metrics["mean"]
    assert_same_weights(resumed.method.state_dict(), made.method.state_dict())
    assert not list((tmp_path / "run").glob("checkpoint-*"))
