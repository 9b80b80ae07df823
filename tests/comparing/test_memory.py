"""Stacks that are cut to the memory that there is."""

from __future__ import annotations

import torch

from accord.comparing import compare as comparing
from accord.comparing.compare import Request, cells_of, compare
from accord.comparing.executor import Here
from accord.comparing.results import Results, run_key
from accord.fitting import plan
from comparisons import quiet, sizes_of_stacks


def test_stacks_are_split_where_memory_asks_for_it(data, tmp_path, monkeypatch):
    cells = cells_of(["mf"], ["normal"], {"train.l2": [0.0, 0.1]})
    request = Request(data, seeds=3, epochs=1, say=quiet)
    whole = compare(request, cells, Results(tmp_path / "whole")).read()
    monkeypatch.setattr(comparing, "bytes_of_a_run", lambda *_: Here().room(torch.device("cpu")) // 2)
    sizes = sizes_of_stacks(monkeypatch)
    split = compare(request, cells, Results(tmp_path / "split")).read()
    assert max(sizes) == 2
    assert [run_key(line) for line in split] == [run_key(line) for line in whole]


def test_the_guess_of_memory_grows_with_weights_and_batches(data):
    def guess(model, **options):
        given = {key.replace("_", ".", 1): value for key, value in options.items()}
        return comparing.bytes_of_a_run(plan(data, model, "normal", "corrected", 1, given, 1, None), data)

    assert guess("neumf") > guess("gmf", model_dim=64) > guess("gmf")
    assert guess("gmf", train_batch_size=9000) > guess("gmf")
    assert guess("cdae") > guess("cdae", train_batch_size=10)
