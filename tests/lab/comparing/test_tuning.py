"""Equal tuning for all rows."""

from __future__ import annotations

import json

import pytest

import accord
from accord.comparing.compare import Cell, Request, cells_of
from accord.comparing.results import Results
from accord_lab.comparing.tuning import SPACE, Choice, LogRange, trials_of, tuned
from comparisons import quiet


def test_trials_spread_every_option_evenly_whatever_the_method(data):
    request = Request(data, common=(("method.alpha", 0.5),))
    for method in ("normal", "deca"):
        first, *tries = trials_of(request, Cell("mf", method), 17)
        assert first == Cell("mf", method)  # its defaults
        assert len(set(tries)) == 16
        l2 = sorted(dict(cell.options)["train.l2"] for cell in tries)
        assert l2 == sorted({SPACE["train.l2"].at((n + 0.5) / 16) for n in range(16)})
    assert all("method.alpha" not in dict(cell.options) for cell in tries)  # given, so not tuned
    for name in ("method.c1", "method.c2"):
        values = [dict(cell.options)[name] for cell in tries]
        assert all(values.count(value) == 4 for value in SPACE[name].values)
    assert trials_of(request, Cell("mf", "normal"), 1) == [Cell("mf", "normal")]
    assert trials_of(request, Cell("popularity", None), 16) == [Cell("popularity", None)]


def test_tuning_gives_every_method_equally_many_trials(data, tmp_path):
    cells = cells_of(["mf"], ["normal", "deca"], {})
    request = Request(data, seeds=2, epochs=2, say=quiet)
    tuning = Results(tmp_path, "tuning")
    with pytest.raises(accord.InputError, match="lacks trials"):
        tuned(request, cells, 4, tuning, finished=True)
    best = tuned(request, cells, 4, tuning)
    trials = tuning.read()
    for method in ("normal", "deca"):
        own = [line for line in trials if line["method"] == method]
        assert len(own) == 4
        chosen = next(cell for cell in best if cell.method == method)
        winner = max(own, key=lambda line: line["valid_ndcg@20"])
        assert all(winner["settings"][name] == value for name, value in chosen.options)
    assert len([line for line in trials if line["model"] == "ease"]) == 4
    assert {path.name for path in tmp_path.iterdir()} == {"tuning.jsonl"}
    assert tuned(request, cells, 4, tuning, finished=True) == best
    with pytest.raises(
        accord.InputError,
        match=r"^tuning chooses by validation NDCG@20, which only the corrected protocol measures\.$",
    ):
        tuned(Request(data, protocol="published", say=quiet), cells, 2, tuning)


def test_a_share_of_a_range_and_of_a_choice():
    assert [LogRange(1e-2, 1e2).at(share) for share in (0.0, 0.5, 1.0)] == [0.01, 1.0, 100.0]
    assert LogRange(1.0, 1000.0).at(0.45) == 22.0  # two digits
    assert [Choice(("a", "b", "c")).at(share) for share in (0.0, 0.34, 0.99)] == ["a", "b", "c"]


def test_tuning_never_looks_at_the_test(data, tmp_path):
    """Trials whose results on the test say the opposite of those on the validation: the validation decides."""
    request, cell, tuning = (
        Request(data, seeds=1, epochs=1, say=quiet),
        Cell("mf", "normal"),
        Results(tmp_path, "tuning"),
    )
    tuned(request, [cell], 4, tuning)
    lines = tuning.read()
    for place, line in enumerate(lines):
        line["valid_ndcg@20"], line["metrics"]["ndcg@20"] = 0.1 + 0.1 * place, 0.9 - 0.1 * place
    tuning.file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    (chosen,) = tuned(request, [cell], 4, tuning, finished=True)
    assert dict(chosen.options)["train.l2"] == lines[-1]["settings"]["train.l2"]


def test_the_trials_are_the_same_every_time(data):
    """A comparison that was stopped finds its trials again: they are drawn from a seed of their own."""
    found = [dict(cell.options) for cell in trials_of(Request(data), Cell("mf", "normal"), 4)]
    assert found == [{}, {"train.l2": 1.5}, {"train.l2": 0.00068}, {"train.l2": 0.032}]
    assert [dict(cell.options) for cell in trials_of(Request(data), Cell("mf", "normal"), 2)] == [
        {},
        {"train.l2": 0.032},
    ]


def test_a_solved_model_is_tuned_over_the_ranges_that_auto_tries_and_ease_over_its_penalty_alone(data):
    def found(model):
        return [dict(cell.options) for cell in trials_of(Request(data), Cell(model, None), 3)]

    assert found("ease") == [{}, {"model.l2": 100.0}, {"model.l2": 10_000.0}]
    assert found("user-knn") == [{}, {"model.k": 106, "model.shrink": 4.16}, {"model.k": 473, "model.shrink": 72.1}]


def test_what_has_nothing_to_tune_is_left_as_it_is_and_the_rest_is_tuned(data, tmp_path):
    def never(*_):
        raise AssertionError("trials are nothing but trials")

    request = Request(data, seeds=1, epochs=1, say=quiet, more=never, each_epoch=never)
    cells, tuning = [Cell("popularity", None), Cell("mf", "normal")], Results(tmp_path, "tuning")
    best = tuned(request, cells, 2, tuning)
    assert best[0] == cells[0]
    assert (best[1].model, best[1].method) == ("mf", "normal")
    assert [line["model"] for line in tuning.read()] == ["mf", "mf"]


def test_without_a_validation_the_defaults_stay(data, tmp_path):
    request, cell, tuning = (
        Request(data, seeds=1, epochs=1, say=quiet),
        Cell("mf", "normal"),
        Results(tmp_path, "tuning"),
    )
    tuned(request, [cell], 3, tuning)
    lines = [line | {"valid_ndcg@20": None} for line in tuning.read()]
    tuning.file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert tuned(request, [cell], 3, tuning, finished=True) == [cell]
