"""The paper's hyperparameters, cell by cell, and its figures."""

from __future__ import annotations

import pytest

from accord_lab.names import METHODS, MODELS
from accord_lab.paper.settings import figures, paper_settings


def test_settings_of_a_cell_by_hand():
    gmf = paper_settings("ml-100k", "gmf", "normal")
    assert gmf == {"lr": 0.001, "batch_size": 2048, "epochs": 20, "l2": 0.1, "early_stop": True}
    deca = paper_settings("ml-100k", "gmf", "deca")
    assert deca is not None
    assert (deca["c1"], deca["c2"]) == (1000, 1000)
    assert paper_settings("ml-100k", "gmf", "tce") == gmf  # the paper has none of its own for it
    assert paper_settings("ml-1m", "gmf", "normal") is None
    assert paper_settings("ml-100k", "ease", "normal") is None


@pytest.mark.parametrize("dataset", ["ml-100k", "modcloth", "adressa", "electronics"])
@pytest.mark.parametrize("model", ["gmf", "neumf", "cdae", "lightgcn"])
def test_every_cell_of_the_tables_has_settings(dataset, model):
    for method in ("normal", "wbpr", "tce", "ensemble", "deca", "deca-p"):
        settings = paper_settings(dataset, model, method)
        assert settings is not None
        assert settings["lr"] == 0.001
        assert settings["epochs"] > 0


def test_what_one_caller_changes_no_other_sees():
    first = paper_settings("ml-100k", "gmf", "normal")
    assert first is not None
    first["epochs"] = -1
    again = paper_settings("ml-100k", "gmf", "normal")
    assert again is not None
    assert again["epochs"] == 20


def test_the_published_figures_are_those_of_the_paper():
    published = figures("published")["overall"]
    assert published["ml-100k"]["GMF"]["Normal"]["recall@20"] == {"mean": 0.095, "std": 0.001}
    for dataset in published.values():
        for model, methods in dataset.items():
            assert model in MODELS.values()
            assert set(methods) <= set(METHODS.values())
