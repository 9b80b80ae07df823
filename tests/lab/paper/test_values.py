"""The paper's figures, as data."""

from __future__ import annotations

from accord_lab.names import METHODS, MODELS
from accord_lab.paper.values import figures


def test_the_published_figures_are_those_of_the_paper():
    published = figures("published")["overall"]
    assert published["ml-100k"]["GMF"]["Normal"]["recall@20"] == {"mean": 0.095, "std": 0.001}
    for dataset in published.values():
        for model, methods in dataset.items():
            assert model in MODELS.values()
            assert set(methods) <= set(METHODS.values())
