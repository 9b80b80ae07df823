"""What an experiment of the paper may be asked for, and which of its runs are finished."""

from __future__ import annotations

import numpy as np
import pytest

import accord
from accord.comparing.compare import Cell, keys_of
from accord_lab.paper.experiment import deep, finished_runs, rated
from accord_lab.paper.reproduce import EXPERIMENTS
from paper_runs import quiet, simulated


def test_what_may_be_asked_for():
    overall, agreement = EXPERIMENTS["overall"], EXPERIMENTS["agreement"]
    assert overall.choose("model", ["cdae", "gmf"]) == ("gmf", "cdae")  # in the paper's order
    assert EXPERIMENTS["curves"].choose("model", ["neumf"]) == ("neumf",)
    assert agreement.choose("model", None) == ("mf", "gmf", "neumf", "lightgcn")
    with pytest.raises(accord.InputError, match="did you mean 'modcloth'"):
        overall.choose("dataset", ["modcloht"])
    with pytest.raises(accord.InputError, match="dwell times"):
        agreement.choose("dataset", ["adressa"])


def test_a_cell_is_found_when_every_seed_is_finished():
    request = quiet(simulated())
    whole, half = Cell("gmf", "normal"), Cell("gmf", "deca")
    lines = {key: {"metrics": {"recall@20": 0.1 * n}} for n, key in enumerate(keys_of(request, whole), 1)}
    lines |= {keys_of(request, half)[0]: {"metrics": {}}}
    finished = finished_runs(request, [whole, half], lines)
    assert list(finished.lines) == [whole]
    assert finished.missing == [half]
    assert finished.values(whole, "recall@20") == pytest.approx([0.1, 0.2])


def test_the_deepest_recall():
    assert [deep(name) for name in ("electronics", "modcloth", "mine")] == ["recall@50", "recall@20", "recall@20"]


def test_ratings_are_in_one_order():
    data = simulated()
    users, items, ratings = rated(data)
    assert (np.diff(users * len(data.items) + items) > 0).all()
    assert len(ratings) == len(data.train)
