"""The sentences about the paper's other tables and its figures, against raw results read by hand."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from accord_lab.findings.figures import grid, others
from reproduction import FOLDER, metric, raw, words

C = (1.0, 10.0, 100.0, 1000.0)


@pytest.mark.parametrize(
    ("dataset", "name"), [("ml-100k", "MovieLens-100k"), ("modcloth", "Modcloth"), ("adressa", "Adressa")]
)
def test_in_how_many_settings_alpha_changes_nothing(dataset, name):
    values = {}
    for line in raw("published/grid.jsonl", dataset=dataset, method="deca"):
        own = line["settings"]
        values.setdefault((own["method.c1"], own["method.c2"]), {}).setdefault(own["method.alpha"], []).append(
            line["metrics"]["recall@20"]
        )
    same = sum(
        len({f"{np.mean(runs):.4f}" for runs in values[c1, c2].values()}) == 1 for c1, c2 in itertools.product(C, C)
    )
    assert f"{same} of 16 settings on {name}" in words("README.md")


@pytest.mark.parametrize("dataset", ["ml-100k", "modcloth", "adressa"])
def test_the_best_of_the_curves_and_what_h_is(dataset):
    page = words("README.md")
    for method, shown in (("normal", "Normal"), ("deca", "DeCA"), ("deca-p", "DeCA(p)")):
        runs = raw("published/curves.jsonl", dataset=dataset, method=method)
        mean = np.mean([[point["recall@20"] for point in line["curve"]] for line in runs], axis=0)
        assert f"{shown} {mean.max():.4f}, then".replace(" 0.", " .") in page
    for method in ("deca", "deca-p"):
        told = [
            f"{np.mean(metric('published/selection.jsonl', dataset=dataset, method=method, h=h)):.4f}".lstrip("0")
            for h in ("mf", "gmf", "neumf")
        ]
        assert f"{told[0]}, {told[1]} and {told[2]}" in page


def test_no_figure_is_without_a_raw_file():
    """Such were there once: of another run, of minutes that nobody kept, of a divergence that was only looked at."""
    page = words("README.md") + words("corrected/README.md")
    for gone in ("45 in another run", "4.8 minutes", "10⁻⁷"):
        assert gone not in page
    assert grid(FOLDER).count("\n- ") == 2
    assert others(FOLDER).count("**") == 2 * 5
