"""The paper's settings and figures, as data."""

from __future__ import annotations

import pytest

from accord import paper

DATASETS = ("ml-100k", "modcloth", "adressa", "electronics")


def test_settings_of_a_cell_by_hand():
    gmf = paper.settings("ml-100k", "gmf", "normal")
    assert gmf == {"lr": 0.001, "batch_size": 2048, "epochs": 20, "l2": 0.1, "early_stop": True}
    deca = paper.settings("ml-100k", "gmf", "deca")
    assert deca is not None
    assert (deca["c1"], deca["c2"]) == (1000, 1000)
    assert paper.settings("ml-100k", "gmf", "tce") == gmf  # the paper has none of its own for it
    assert paper.settings("ml-1m", "gmf", "normal") is None
    assert paper.settings("ml-100k", "ease", "normal") is None


@pytest.mark.parametrize("dataset", DATASETS)
@pytest.mark.parametrize("model", paper.MODELS)
def test_every_cell_of_the_tables_has_settings(dataset, model):
    for method in paper.METHODS:
        found = paper.settings(dataset, model, method)
        assert found is not None
        assert found["lr"] == 0.001
        assert found["epochs"] > 0


def test_what_one_caller_changes_no_other_sees():
    first = paper.settings("ml-100k", "gmf", "normal")
    assert first is not None
    first["epochs"] = -1
    again = paper.settings("ml-100k", "gmf", "normal")
    assert again is not None
    assert again["epochs"] == 20


def test_the_published_figures_are_those_of_the_paper():
    figures = paper.figures("published")["overall"]
    assert figures["ml-100k"]["GMF"]["Normal"]["recall@20"] == {"mean": 0.095, "std": 0.001}
    for dataset in figures.values():
        for model, methods in dataset.items():
            assert model in paper.MODELS.values()
            assert set(methods) <= set(paper.METHODS.values())
