"""The paper's tables: the right cells, the right figures beside them, and marks where ours are off."""

from __future__ import annotations

import sys

import pytest

import accord
from accord import paper
from accord.cli import main
from accord.compare import Cell, Request
from accord.reproduce import EXPERIMENTS, choose, lands, measured, reproduce
from accord.results import Results


def test_every_figure_of_the_paper_has_a_cell():
    figures = paper.figures("published")
    for dataset, models in figures["overall"].items():
        cells = EXPERIMENTS["overall"].cells(list(paper.MODELS), list(paper.METHODS))
        found = [
            EXPERIMENTS["overall"].published(dataset, cell, metric)
            for cell in cells
            for metric in models["GMF"]["DeCA"]
        ]
        assert len([one for one in found if one]) == sum(
            len(m) for methods in models.values() for m in methods.values()
        )
    ablation = EXPERIMENTS["ablation"]
    cells = ablation.cells(ablation.models, ablation.methods)
    assert len(cells) == 4 * 6
    assert ablation.published("modcloth", Cell("gmf", "deca-p", (("method.only", "dn"),)), "ndcg@20") == (0.084, 0.0)
    selection = EXPERIMENTS["selection"]
    assert selection.published("ml-100k", Cell("gmf", "deca", (("method.h", "gmf"),)), "recall@3") == (0.0186, 0.0)
    assert selection.published("ml-100k", Cell("gmf", "normal"), "ndcg@20") == (0.0593, 0.0)
    grid = EXPERIMENTS["grid"]
    assert len(grid.cells(grid.models, grid.methods)) == 2 * 48


def test_what_lands():
    assert lands(0.104, [(0.1, 0.0)])
    assert not lands(0.106, [(0.1, 0.0)])
    assert lands(0.106, [(0.1, 0.004)])
    assert lands(0.106, [(0.1, 0.0), (0.105, 0.0)])
    assert lands(0.5, [None, None])
    mean, sd = measured("modcloth", Cell("gmf", "deca"), "recall@20")
    assert mean == pytest.approx(0.2446, abs=1e-4)
    assert sd > 0
    with pytest.raises(accord.InputError, match="did you mean 'modcloth'"):
        choose("ablation", "dataset", ["modcloht"], ["modcloth"])


def test_a_page_says_paper_ours_and_difference(tmp_path):
    data = accord.simulate(users=120, items=60, interactions=1500, seed=3, name="modcloth").dataset

    def request(one):
        return Request(one, "published", 2, (("train.early_stop", False),), 1, say=lambda _: None)

    (table,) = reproduce("overall", [data], ["gmf"], ["normal", "wbpr"], request, tmp_path)
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
    reproduce("overall", [data], ["gmf"], ["normal", "wbpr"], request, tmp_path, render_only=True)
    assert (tmp_path / "overall.md").read_text() == before


def test_the_grid_is_shown_as_heat_maps(tmp_path, monkeypatch):
    data = accord.simulate(users=120, items=60, interactions=1500, seed=3, name="modcloth").dataset
    tables = reproduce(
        "grid", [data], None, ["deca"], lambda one: Request(one, "published", 1, (), 1, say=lambda _: None), tmp_path
    )
    assert len(tables) == 3
    assert all(len(table.rows) == 4 and len(table.columns) == 5 for table in tables)
    assert sum(len(table.marked) for table in tables) == 1
    assert len(Results(tmp_path, "grid").read()) == 48


def test_mistakes_on_the_command_line(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ACCORD_DATA", str(tmp_path))
    monkeypatch.setenv("ACCORD_CACHE", str(tmp_path / "cache"))
    for words, expected in (
        ("reproduce overal", "did you mean 'overall'"),
        ("reproduce overall --dataset modcloht", "did you mean 'modcloth'"),
        ("reproduce overall", "none of ml-100k"),
    ):
        monkeypatch.setattr(sys, "argv", ["accord", *words.split()])
        with pytest.raises(SystemExit) as stop:
            main()
        assert stop.value.code == 2
        assert expected in capsys.readouterr().err
