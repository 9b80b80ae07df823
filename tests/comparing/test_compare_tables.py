"""A comparison as tables."""

from __future__ import annotations

import numpy as np
import pytest

import accord
from accord.comparing import compare_tables
from accord.comparing.compare import Cell, Request, cells_of, compare
from accord.comparing.compare_tables import render
from accord.comparing.results import Results, run_key
from accord.evaluation.significance import Comparison
from comparisons import quiet


def test_tables_show_means_tests_and_the_closed_form_models(data, tmp_path):
    cells = cells_of(["mf"], ["normal", "rce"], {})
    request = Request(data, seeds=2, epochs=2, say=quiet)
    results = compare(request, cells, Results(tmp_path))
    means, tests = render(request, cells, results)
    assert [row[0] for row in means.rows] == ["mf + normal", "mf + rce", "popularity", "ease"]
    assert [row[0] for row in tests.rows] == ["mf + rce", "popularity", "ease"]
    lines = [line for line in results.read() if line["method"] == "normal"]
    shown = float(means.rows[0][means.columns.index("recall@20")].split(" ")[0])
    assert shown == pytest.approx(np.mean([line["metrics"]["recall@20"] for line in lines]), abs=1e-4)
    per_user = results.per_user("ndcg@20")
    assert all(np.mean(per_user[run_key(line)]) == pytest.approx(line["metrics"]["ndcg@20"]) for line in lines)
    assert {path.suffix for path in tmp_path.glob("compare.*")} == {".md", ".html", ".csv", ".tex"}
    with pytest.raises(accord.InputError, match="not among the rows"):
        render(request, cells, results, "mf + nothing")
    with pytest.raises(accord.InputError, match="no finished runs"):
        render(request, [*cells, Cell("gmf", "normal")], results)


def line(ndcg, cold=None):
    groups = {"warm": {"ndcg@20": ndcg}, "cold": {} if cold is None else {"ndcg@20": cold}}
    return {"metrics": {"ndcg@20": ndcg, "recall@20": 2 * ndcg, "hit@20": 1.0}, "groups": groups}


def test_means_and_deviations_by_hand():
    lines = {"a1": line(0.1), "a2": line(0.3), "b": line(0.25)}
    table = compare_tables._means(["a", "b"], {"a": ["a1", "a2"], "b": ["b"]}, lines)
    assert table.columns == ("what", "runs", "ndcg@20", "recall@20", "ndcg@20, warm users")
    assert table.rows[0] == ("a", 2, "0.2000 ± 0.1414", "0.4000 ± 0.2828", pytest.approx(0.2))
    assert table.rows[1] == ("b", 1, "0.2500", "0.5000", pytest.approx(0.25))
    assert table.marked == {(1, 2), (1, 3)}


def test_a_test_is_shown_with_its_interval():
    found = Comparison(0.012, -0.001, 0.025, 0.00004, 0.03, 0.2, 0.05)
    table = compare_tables._tests(["base", "x"], {"x": found}, "base")
    assert table.title == "Against base"
    assert table.rows == (("x", "+0.0120", "-0.0010 to +0.0250", "< 0.0001", "0.0300", "+0.200", "+5.0%"),)
