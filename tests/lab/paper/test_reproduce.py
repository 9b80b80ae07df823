"""Pages of the paper's tables: from the runs to the files, piece by piece."""

from __future__ import annotations

from dataclasses import replace

import pytest

import accord
from accord.comparing.compare import Request
from accord.comparing.results import Results
from accord_lab.paper.reproduce import reproduce


def simulated(name="modcloth"):
    return accord.simulate(users=120, items=60, interactions=1500, seed=3, name=name).dataset


def quiet(data, seeds=1, epochs=1, **more):
    return Request(data, "published", seeds, (), epochs, say=lambda _: None, **more)


def test_a_page_says_paper_ours_and_difference(tmp_path):
    data = simulated()
    (table,) = reproduce("overall", [data], ["gmf"], ["normal", "wbpr"], lambda one: quiet(one, 2), tmp_path)
    assert [row[0] for row in table.rows] == ["gmf + normal", "gmf + wbpr", "popularity", "ease"]
    row = dict(zip(table.columns, table.rows[0], strict=True))
    assert row["recall@20 paper"] == "0.225 ± 0.008"
    assert row["recall@20 released"] == "0.2277 ± 0.0075"
    assert "±" in row["recall@20 ours"]
    assert row["recall@20 difference"].endswith("%")
    assert "of 8 values lie" in table.notes[0]
    lines = Results(tmp_path, "overall").read()
    assert {line["settings"].get("train.epochs") for line in lines} == {1, None}
    assert {"overall.jsonl", "overall.md", "overall.html", "overall.csv", "overall.tex"} <= {
        p.name for p in tmp_path.iterdir()
    }
    before = (tmp_path / "overall.md").read_text()
    assert "modcloth: 22 of 26 not run yet" in before
    assert "electronics (its training file was not available" in before
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
