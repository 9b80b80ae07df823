"""No study chooses by the test: with a test of garbage, every choice is the same to the bit."""

from __future__ import annotations

import json

import pytest

import accord
from accord.data.load import load
from accord.data.split import split
from accord_lab.labels import chosen, shares, training, trust
from accord_lab.labels.draws import without_labels
from accord_lab.leaderboards import leaderboard
from accord_lab.leaderboards.oracle import evaluate_weighted_ease
from comparisons import ask
from garbage import with_garbage_test
from helpers import timed_data


@pytest.fixture(autouse=True)
def no_clock(monkeypatch):
    """A search that takes far longer than its budget ends early: not here, however slow the machine is."""
    monkeypatch.setattr("accord.consensus.search.FAR_OVER", float("inf"))


def quiet(_):
    pass


def clean_split():
    """Split at random, with a clean test and labels by a rule."""
    log = accord.simulate(users=120, items=60, interactions=1_500, seed=4).dataset.train
    return load(split(log, "random", clean="value>=1", name="clean"), labels="value>=1")


def timed_split():
    return timed_data(accord.simulate(users=120, items=60, interactions=1_500, seed=4).dataset.train)


def unclean_split():
    """Without a clean test: every test interaction counts, whatever its label."""
    log = accord.simulate(users=120, items=60, interactions=1_500, seed=4).dataset.train
    return load(split(log, "random", name="unclean"), labels="value>=1")


@pytest.fixture(params=[clean_split, timed_split], ids=lambda make: make.__name__)
def both(request):
    """The data, and the same with a test of garbage."""
    data = request.param()
    garbage = with_garbage_test(data)
    assert garbage.comes_in_order == data.comes_in_order
    assert len(garbage.test) == len(data.test)
    return data, garbage


def recorded(monkeypatch, study):
    """What every fit of a study was asked for and chose, in their order."""
    fits, fit = [], study.fit

    def record(*given, **options):
        made = fit(*given, **options)
        members = [member.model_dump(mode="json") for member in made.run.members]
        valid = [run.get("valid_ndcg@20") for run in made.metrics["runs"]]
        fits.append((made.run.config.model_dump(mode="json"), members, valid))
        return made

    monkeypatch.setattr(study, "fit", record)
    return fits


def without(line, *results):
    return {key: value for key, value in line.items() if key not in results}


def test_labels_of_auto(both, tmp_path, monkeypatch):
    fits = recorded(monkeypatch, shares)
    lines, choices = [], []
    for number, data in enumerate(both):
        lines += shares.run(data, [0.3], ["random"], 1, tmp_path / str(number), "cpu", 0.3, quiet)
        choices.append(fits[:])
        fits.clear()
    results = ("ndcg@20", "consensus", "ease", "ease_told", "p_ease", "p_consensus")
    assert without(lines[0], *results) == without(lines[1], *results)
    assert lines[0]["ndcg@20"] != lines[1]["ndcg@20"], "the test is garbage"
    assert len(choices[0]) == len(shares.PENALTIES) + 2
    assert choices[0] == choices[1]


def test_the_test_would_choose_other_penalties():
    """That the choices above can differ at all: by the tests, EASE on real ones would have two other penalties."""
    data = clean_split()
    weights = shares.Truth.of(data).label
    best = set()
    for seed in range(4):
        garbage = with_garbage_test(data, seed)
        test = shares.Relevant.of_test(garbage, shares.CORRECTED)
        bare = without_labels(garbage)
        by_test = [
            shares.ndcg_of(evaluate_weighted_ease(bare, weights, l2, test, shares.CORRECTED, [20]))
            for l2 in shares.PENALTIES
        ]
        best.add(by_test.index(max(by_test)))
    assert len(best) > 1


def test_trust(tmp_path, monkeypatch):
    fits, log = recorded(monkeypatch, trust), clean_split()
    lines, choices = [], []
    for number, data in enumerate((log, with_garbage_test(log))):
        lines += trust.run(data, [0.5], 1, tmp_path / str(number), "cpu", 0.3, quiet)
        choices.append(fits[:])
        fits.clear()
    assert without(lines[0], "ndcg@20", "consensus") == without(lines[1], "ndcg@20", "consensus")
    assert lines[0]["ndcg@20"] != lines[1]["ndcg@20"], "the test is garbage"
    assert choices[0] == choices[1]


def test_training_and_chosen_labels(tmp_path, monkeypatch):
    monkeypatch.setattr(chosen, "START", 100)
    monkeypatch.setattr(chosen, "MOST", 50)
    data = unclean_split()
    lines = []
    for number, one in enumerate((data, with_garbage_test(data))):
        folder = tmp_path / str(number)
        lines.append(training.run(one, 1, folder, "cpu", quiet, ["mf"], ["normal"]))
        lines[-1] = [without(line, "ndcg@20") for line in lines[-1]], chosen.run(one, 1, folder, quiet)
    assert lines[0] == lines[1]


def test_the_leaderboard(both, tmp_path):
    models, methods = ["mf", "item-knn"], ["normal", "deca"]
    chosen_by = []
    for number, data in enumerate(both):
        folder = tmp_path / str(number)
        leaderboard.run([without_labels(data)], ask, folder, models, methods, trials=3)
        lines = [json.loads(text) for name in ("tuning", "leaderboard") for text in (folder / f"{name}.jsonl").open()]
        chosen_by.append([without(line, "data", "metrics", "groups", "seconds") for line in lines])
    assert chosen_by[0] == chosen_by[1]
    assert {line["model"] for line in chosen_by[0]} == {"mf", "item-knn", "ease", "popularity"}
