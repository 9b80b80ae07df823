"""Comparisons: what is run, stacked, kept and continued."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

import accord
from accord.comparing.compare import Cell, Request, cells_of, compare
from accord.comparing.results import Results, run_key
from comparisons import quiet, sizes_of_stacks


def test_cells_leave_out_options_that_a_method_has_not():
    cells = cells_of(["gmf"], ["normal", "deca"], {"method.c1": [1.0, 10.0], "train.l2": [0.0, 0.1]})
    names = [cell.name for cell in cells]
    assert names == [
        "gmf + normal l2=0.0",
        "gmf + normal l2=0.1",
        *(f"gmf + deca c1={c1} l2={l2}" for c1 in (1.0, 10.0) for l2 in (0.0, 0.1)),
        "popularity",
        "ease",
    ]
    with pytest.raises(accord.InputError, match="no model or method here has it"):
        cells_of(["gmf"], ["normal"], {"method.c1": [1.0, 2.0]})


def test_a_grid_is_one_stack_and_each_run_is_as_if_alone(data, tmp_path, monkeypatch):
    sizes = sizes_of_stacks(monkeypatch)
    cells = cells_of(["mf"], ["deca"], {"method.c1": [1.0, 50.0], "train.l2": [0.0, 0.1]})
    request = Request(data, seeds=2, epochs=2, say=quiet)
    results = compare(request, cells, Results(tmp_path))
    assert sizes == [8, 1, 1]
    lines = results.read()
    assert len(lines) == 10
    assert set(lines[0]) >= {"dataset", "model", "method", "seed", "settings", "metrics", "seconds", "device"}
    for line in (lines[0], lines[5], lines[7]):
        options = {key: line["settings"][key] for key in ("method.c1", "train.l2")}
        alone = accord.fit(data, "mf", "deca", seeds=[line["seed"]], options=options, epochs=2)
        assert line["metrics"] == pytest.approx(alone.metrics["runs"][0]["metrics"], abs=0.02)
    assert len({json.dumps(line["settings"]) + str(line["seed"]) for line in lines if line["model"] == "mf"}) == 8


def test_continues_without_repeating_and_ends_with_the_same_results(data, tmp_path, monkeypatch):
    cells = cells_of(["mf", "gmf"], ["normal", "deca"], {})
    request = Request(data, seeds=2, epochs=1, say=quiet)
    whole = compare(request, cells, Results(tmp_path / "whole")).read()

    ran = []
    add = Results.add

    def two_then_stop(results, lines, per_user):
        if len(ran) == 2:
            raise KeyboardInterrupt
        ran.append(lines)
        add(results, lines, per_user)

    monkeypatch.setattr(Results, "add", two_then_stop)
    with pytest.raises(KeyboardInterrupt):
        compare(request, cells, Results(tmp_path / "cut"))
    monkeypatch.setattr(Results, "add", add)
    with (tmp_path / "cut/results.jsonl").open("a") as file:
        file.write('{"dataset": "half a li')  # what a kill in mid-write leaves
    cut = compare(request, cells, Results(tmp_path / "cut")).read()
    assert [run_key(line) for line in cut] == [run_key(line) for line in whole]
    assert [line["metrics"] for line in cut] == [line["metrics"] for line in whole]
    again = compare(request, cells, Results(tmp_path / "cut")).read()
    assert again == cut


def test_other_data_under_the_same_name_is_run_anew(data, tmp_path):
    other = accord.simulate(users=120, items=60, interactions=1500, seed=4).dataset
    cells = cells_of(["mf"], ["normal"], {})
    for number, one in enumerate((data, other, data), 1):
        compare(Request(one, seeds=1, epochs=1, say=quiet), cells, Results(tmp_path))
        assert len(Results(tmp_path).read()) == 3 * min(number, 2)


def test_a_cell_with_defaults_keeps_them_beside_one_without(data, tmp_path):
    cells = [Cell("mf", "deca", (("method.c1", 500.0),)), Cell("mf", "deca")]
    lines = compare(Request(data, seeds=1, epochs=1, say=quiet), cells, Results(tmp_path)).read()
    assert [line["settings"]["method.c1"] for line in lines] == [500.0, 10.0]
    alone = accord.fit(data, "mf", "deca", epochs=1)
    assert lines[1]["metrics"] == pytest.approx(alone.metrics["runs"][0]["metrics"], abs=1e-6)


def test_runs_of_other_folders_are_taken_over_in_the_order_of_one_command(data, tmp_path, monkeypatch):
    cells = {model: cells_of([model], ["normal"], {}) for model in ("mf", "gmf")}
    both = cells_of(["mf", "gmf"], ["normal"], {})
    request = Request(data, seeds=2, epochs=1, say=quiet)
    whole = compare(request, both, Results(tmp_path / "whole"))
    for model, own in cells.items():
        compare(request, own, Results(tmp_path / model))
    sizes = sizes_of_stacks(monkeypatch)
    joined = Results(tmp_path / "joined")
    compare(replace(request, reuse=(tmp_path / "gmf", tmp_path / "mf")), both, joined)
    assert sizes == []
    assert [run_key(line) for line in joined.read()] == [run_key(line) for line in whole.read()]
    mine, theirs = joined.per_user("ndcg@20"), whole.per_user("ndcg@20")
    assert mine.keys() == theirs.keys()
    assert all(np.array_equal(mine[key], theirs[key]) for key in mine)


@pytest.mark.parametrize("part", ["train", "valid", "test"])
def test_results_are_of_all_parts_of_the_data(data, part):
    """Another test or validation is other data, whatever it was trained on: finished runs do not count for it."""
    rows = getattr(data, part)
    other = replace(data, **{part: rows.take(np.arange(len(rows) - 1))})
    assert Request(other).fingerprint != Request(data).fingerprint
    assert Request(replace(data, name="again")).fingerprint == Request(data).fingerprint
