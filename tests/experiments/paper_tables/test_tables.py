"""The paper's tables: the right cells, the right figures beside them, and marks where ours are off."""

from __future__ import annotations

import sys
from dataclasses import replace

import pytest

import accord
from accord import paper
from accord.cli.app import main
from accord.experiments.compare import Cell, Request
from accord.experiments.paper_tables.accuracy_tables import (
    lands,
    measured,
    published_ablation,
    published_overall,
    published_selection,
)
from accord.experiments.paper_tables.reproduce import EXPERIMENTS, reproduce
from accord.experiments.results import Results


def simulated(name="modcloth"):
    return accord.simulate(users=120, items=60, interactions=1500, seed=3, name=name).dataset


def quiet(data, seeds=1, epochs=1, **more):
    return Request(data, "published", seeds, (), epochs, say=lambda _: None, **more)


def test_every_figure_of_the_paper_has_a_cell():
    figures = paper.figures("published")
    request = quiet(simulated())
    for dataset, models in figures["overall"].items():
        cells = EXPERIMENTS["overall"].cells(request, list(paper.MODELS), list(paper.METHODS))
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


def test_what_lands():
    assert lands(0.104, [(0.1, 0.0)])
    assert not lands(0.106, [(0.1, 0.0)])
    assert lands(0.106, [(0.1, 0.004)])
    assert lands(0.106, [(0.1, 0.0), (0.105, 0.0)])
    assert lands(0.5, [None, None])
    mean, sd = measured("modcloth", Cell("gmf", "deca"), "recall@20")
    assert mean == pytest.approx(0.2446, abs=1e-4)
    assert sd > 0


def test_what_may_be_asked_for():
    overall, agreement = EXPERIMENTS["overall"], EXPERIMENTS["agreement"]
    assert overall.choose("model", ["cdae", "gmf"]) == ("gmf", "cdae")  # in the paper's order
    assert EXPERIMENTS["curves"].choose("model", ["neumf"]) == ("neumf",)
    assert agreement.choose("model", None) == ("mf", "gmf", "neumf", "lightgcn")
    with pytest.raises(accord.InputError, match="did you mean 'modcloth'"):
        overall.choose("dataset", ["modcloht"])
    with pytest.raises(accord.InputError, match="dwell times"):
        agreement.choose("dataset", ["adressa"])


def test_a_page_says_paper_ours_and_difference(tmp_path):
    data = simulated()
    (table,) = reproduce("overall", [data], ["gmf"], ["normal", "wbpr"], lambda one: quiet(one, 2), tmp_path)
    assert [row[0] for row in table.rows] == ["gmf + normal", "gmf + wbpr", "popularity", "ease"]
    row = dict(zip(table.columns, table.rows[0], strict=True))
    assert row["recall@20 paper"] == "0.225 ± 0.008"
    assert row["recall@20 released"] == "0.2277 ± 0.0075"
    assert "±" in row["recall@20 ours"]
    assert row["recall@20 difference"].endswith("%")
    assert "of 8 values land" in table.notes[0]
    lines = Results(tmp_path, "overall").read()
    assert {line["settings"].get("train.epochs") for line in lines} == {1, None}
    assert {"overall.jsonl", "overall.md", "overall.html", "overall.csv", "overall.tex"} <= {
        p.name for p in tmp_path.iterdir()
    }
    before = (tmp_path / "overall.md").read_text()
    assert "modcloth: 22 of 26 not run yet" in before
    assert "electronics (its training file was not at hand" in before
    reproduce("overall", [data], None, None, lambda one: quiet(one, 2), tmp_path, render_only=True)
    assert (tmp_path / "overall.md").read_text() == before


def test_a_page_grows_piece_by_piece(tmp_path):
    one, other = simulated("modcloth"), simulated("ml-100k")
    reproduce("overall", [one], ["gmf"], ["normal"], quiet, tmp_path)
    (table,) = reproduce("overall", [other], ["gmf"], ["normal"], quiet, tmp_path, others=[one])
    assert table.title.endswith("ml-100k")  # what was asked for
    page = (tmp_path / "overall.md").read_text()
    assert page.index("comparison: ml-100k") < page.index("comparison: modcloth")  # the page has all
    with pytest.raises(accord.InputError, match="no finished runs on modcloth"):
        reproduce("selection", [one], None, None, quiet, tmp_path, render_only=True)


def test_under_other_rules_nothing_is_judged(tmp_path):
    (table,) = reproduce(
        "overall", [simulated()], ["gmf"], ["normal"], lambda data: replace(quiet(data), protocol="corrected"), tmp_path
    )
    assert not table.marked
    row = dict(zip(table.columns, table.rows[0], strict=True))
    assert row["recall@20 paper"]
    assert "recall@20 released" not in row  # a column of nothing
    assert "not judged" in table.notes[0]


def test_mistakes_on_the_command_line(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ACCORD_DATA", str(tmp_path))
    monkeypatch.setenv("ACCORD_CACHE", str(tmp_path / "cache"))
    for words, expected in (
        ("overal", "did you mean 'overall'"),
        ("overall --dataset modcloht", "did you mean 'modcloth'"),
        ("overall", "none of ml-100k"),
        ("overall --protocol publish", "did you mean 'published'"),
        ("curves --method tce", "unknown method"),
        ("posterior --dataset adressa", "dwell times"),
        ("all --model gmff", "did you mean 'gmf'"),
        ("overall --render-only", "no results to render"),
    ):
        monkeypatch.setattr(sys, "argv", ["accord", "reproduce", *words.split()])
        with pytest.raises(SystemExit) as stop:
            main()
        assert stop.value.code == 2
        assert expected in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
