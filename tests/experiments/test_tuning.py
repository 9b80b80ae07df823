"""Equal tuning for all rows."""

from __future__ import annotations

import json

import pytest

import accord
from accord.experiments.compare import Cell, Request, cells_of
from accord.experiments.results import Results
from accord.experiments.tuning import SPACE, Choice, LogRange, trials_of, tuned
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
    with pytest.raises(accord.InputError, match="corrected"):
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
