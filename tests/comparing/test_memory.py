"""Stacks that are cut to the memory that there is."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from accord.comparing import memory
from accord.comparing.compare import Cell, Request, cells_of, compare
from accord.comparing.executor import Here
from accord.comparing.results import Results, run_key
from accord.errors import InputError
from accord.fitting import plan
from comparisons import quiet, sizes_of_stacks


def test_stacks_are_split_where_memory_asks_for_it(data, tmp_path, monkeypatch):
    cells = cells_of(["mf"], ["normal"], {"train.l2": [0.0, 0.1]})
    request = Request(data, seeds=3, epochs=1, say=quiet)
    whole = compare(request, cells, Results(tmp_path / "whole")).read()
    monkeypatch.setattr(memory, "bytes_of_a_run", lambda *_: Here().room(torch.device("cpu")) // 2)
    sizes = sizes_of_stacks(monkeypatch)
    split = compare(request, cells, Results(tmp_path / "split")).read()
    assert max(sizes) == 2
    assert [run_key(line) for line in split] == [run_key(line) for line in whole]


def test_a_stack_that_runs_out_of_memory_goes_on_in_halves(data, tmp_path, monkeypatch):
    cells = [Cell("mf", "normal")]
    request = Request(data, seeds=5, epochs=1, say=quiet)
    whole = compare(request, cells, Results(tmp_path / "whole")).read()
    sizes = sizes_of_stacks(monkeypatch, most=3)
    said = []
    split = compare(replace(request, say=said.append), cells, Results(tmp_path / "split")).read()
    assert sizes == [5, 3, 2, 1, 2]
    assert any("out of memory with 5 runs" in line for line in said)
    assert [run_key(line) for line in split] == [run_key(line) for line in whole]
    for one, other in zip(split, whole, strict=True):
        assert one["metrics"] == pytest.approx(other["metrics"], abs=1e-6)


def test_one_run_that_does_not_fit_is_said_and_other_errors_stay_themselves(data, tmp_path, monkeypatch):
    request = Request(data, seeds=2, epochs=1, say=quiet)
    with monkeypatch.context() as patch:
        sizes_of_stacks(patch, most=1)
        with pytest.raises(InputError, match="even one run"):
            compare(request, [Cell("mf", "normal")], Results(tmp_path))
    sizes_of_stacks(monkeypatch, most=1, message="something else")
    with pytest.raises(RuntimeError, match="something else"):
        compare(request, [Cell("mf", "normal")], Results(tmp_path))


def test_the_guess_of_memory_grows_with_weights_and_batches(data):
    def guess(model, **options):
        given = {key.replace("_", ".", 1): value for key, value in options.items()}
        return memory.bytes_of_a_run(plan(data, model, "normal", "corrected", 1, given, 1, None), data)

    assert guess("neumf") > guess("gmf", model_dim=64) > guess("gmf")
    assert guess("gmf", train_batch_size=9000) > guess("gmf")
    assert guess("cdae") > guess("cdae", train_batch_size=10)
