"""The paper's figures, as data."""

from __future__ import annotations

from accord_lab import paper


def test_the_published_figures_are_those_of_the_paper():
    figures = paper.figures("published")["overall"]
    assert figures["ml-100k"]["GMF"]["Normal"]["recall@20"] == {"mean": 0.095, "std": 0.001}
    for dataset in figures.values():
        for model, methods in dataset.items():
            assert model in paper.MODELS.values()
            assert set(methods) <= set(paper.METHODS.values())
