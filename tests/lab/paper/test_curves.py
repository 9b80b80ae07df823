"""Recall along training."""

from __future__ import annotations

import numpy as np
import pytest

from accord_lab.paper.reproduce import EXPERIMENTS
from paper_runs import quiet, run, simulated, texts


def test_curves_run_to_the_end_and_are_of_the_test(tmp_path):
    (figure, ends, by_epoch), lines = run("curves", tmp_path)
    assert [(line["method"], line["seed"]) for line in lines] == [
        (method, seed) for method in ("normal", "deca", "deca-p") for seed in (2019, 2020)
    ]
    for line in lines:
        assert [point["epoch"] for point in line["curve"]] == [1, 2]
        assert not line["settings"]["train.early_stop"]
        last = {name: value for name, value in line["curve"][-1].items() if name != "epoch"}
        assert set(last) == {"recall@5", "recall@20", "ndcg@5", "ndcg@20"}
        assert last == pytest.approx({name: line["metrics"][name] for name in last}, abs=1e-7)
    assert {"Normal", "DeCA", "DeCA(p)", "epoch", "recall@20 on the clean test"} <= set(texts(figure))
    assert [row[0] for row in ends.rows] == ["gmf + normal", "gmf + deca", "gmf + deca-p"]
    assert len(by_epoch.rows) == 2
    values = [line["curve"][1]["recall@20"] for line in lines[:2]]
    assert by_epoch.rows[1][1] == f"{np.mean(values):.4f} ± {np.std(values, ddof=1):.4f}"


def test_curves_end_at_the_same_epoch():
    request = quiet(simulated("adressa"), epochs=None)
    cells = EXPERIMENTS["curves"].cells(request, ["gmf"], ["normal", "deca", "deca-p"])
    assert {cell.options for cell in cells} == {(("train.epochs", 15),)}  # of DeCA; the others have 10
