"""The paper's tables: the right cells, its values beside ours, and marks where ours are off."""

from __future__ import annotations

import pytest

from accord.comparing.compare import Cell
from accord_lab.names import METHODS, MODELS
from accord_lab.paper.accuracy_tables import (
    is_close,
    measured,
    published_ablation,
    published_overall,
    published_selection,
)
from accord_lab.paper.reproduce import EXPERIMENTS
from accord_lab.paper.settings import figures
from paper_runs import quiet, simulated


def test_every_figure_of_the_paper_has_a_cell():
    published = figures("published")
    request = quiet(simulated())
    for dataset, models in published["overall"].items():
        cells = EXPERIMENTS["overall"].cells(request, list(MODELS), list(METHODS))
        found = [published_overall(dataset, cell, metric) for cell in cells for metric in models["GMF"]["DeCA"]]
        assert len([one for one in found if one]) == sum(
            len(m) for methods in models.values() for m in methods.values()
        )
    ablation = EXPERIMENTS["ablation"]
    cells = ablation.cells(request, ablation.models, ablation.methods)
    assert len(cells) == 4 * 6
    only = Cell("gmf", "deca-p", (("method.only", "dn"),))
    assert published_ablation("modcloth", only, "ndcg@20") == (0.084, 0.0)
    assert published_ablation("ml-100k", only, "ndcg@20") is None
    assert published_selection("ml-100k", Cell("gmf", "deca", (("method.h", "gmf"),)), "recall@3") == (0.0186, 0.0)
    assert published_selection("ml-100k", Cell("gmf", "normal"), "ndcg@20") == (0.0593, 0.0)
    grid = EXPERIMENTS["grid"]
    assert len(grid.cells(request, grid.models, grid.methods)) == 2 * 48


def test_what_is_close_to_the_paper():
    assert is_close(0.104, [(0.1, 0.0)])
    assert not is_close(0.106, [(0.1, 0.0)])
    assert is_close(0.106, [(0.1, 0.004)])
    assert is_close(0.106, [(0.1, 0.0), (0.105, 0.0)])
    assert is_close(0.5, [None, None])
    mean, sd = measured("modcloth", Cell("gmf", "deca"), "recall@20")
    assert mean == pytest.approx(0.2446, abs=1e-4)
    assert sd > 0
