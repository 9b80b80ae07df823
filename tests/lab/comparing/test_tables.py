"""Tables of a comparison and its page, against the results they are made of."""

from __future__ import annotations

import re
from html import unescape

import numpy as np
import pytest

import accord
from accord.comparing.compare import Cell, Request, cells_of, compare
from accord.comparing.results import Results, run_key
from accord.evaluation.significance import Comparison, compare_to
from accord.report.tables import Table
from accord_lab.comparing import tables as tables_of
from accord_lab.comparing.tables import render, write_comparison
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
    table = tables_of._means(["a", "b"], {"a": ["a1", "a2"], "b": ["b"]}, lines)
    assert table.columns == ("what", "runs", "ndcg@20", "recall@20", "ndcg@20, warm users")
    assert table.rows[0] == ("a", 2, "0.2000 ± 0.1414", "0.4000 ± 0.2828", pytest.approx(0.2))
    assert table.rows[1] == ("b", 1, "0.2500", "0.5000", pytest.approx(0.25))
    assert table.marked == {(1, 2), (1, 3)}


def test_a_test_is_shown_with_its_interval():
    found = Comparison(0.012, -0.001, 0.025, 0.00004, 0.03, 0.2, 0.05)
    table = tables_of.differences_table("Against base", {"x": found}, "")
    assert table.title == "Against base"
    assert table.rows == (("x", "+0.0120", "-0.0010 to +0.0250", "< 0.0001", "0.0300", "+0.200", "+5.0%"),)


def test_the_last_metric_says_which_is_best(tmp_path):
    rng = np.random.default_rng(0)
    worse = rng.random((2, 50))
    per_user = {
        "recall@20": {"a": worse + 0.2, "b": worse, "c": worse - 0.1},
        "ndcg@20": {"a": worse, "b": worse + 0.1, "c": worse - 0.1},
    }
    table = Table("Means <b>", ("what", "ndcg@20"), (("a", 0.5),))
    path = write_comparison(
        tmp_path / "report.html", "clicks & co", "Three rows.", [table], per_user, "accord compare x"
    )
    html = path.read_text(encoding="utf-8")
    assert "<title>Comparison on clicks &amp; co</title>" in html
    test = compare_to(per_user["ndcg@20"]["a"], {"b": per_user["ndcg@20"]["b"]})["b"]
    means = (per_user["ndcg@20"]["b"].mean(), per_user["ndcg@20"]["a"].mean())
    assert f"b is better than a by ndcg@20: {means[0]:.4f} against {means[1]:.4f}" in unescape(html)
    assert f"{test.difference:+.4f}" in html
    assert "Means &lt;b&gt;" in html
    assert "accord compare x" in html
    for metric in per_user:
        assert f"{metric}, with 95% intervals" in html


def test_other_lengths_are_folded(tmp_path):
    columns = ("what", "ndcg@3", "ndcg@10", "ndcg@20", "ndcg@20, warm users", "recall@100")
    table = Table("Means", columns, (("a", 0.3, 0.1, 0.2, 0.25, 0.9),))
    values = {"ndcg@20": {name: np.random.default_rng(0).random((1, 9)) for name in ("a", "b")}}
    html = write_comparison(tmp_path / "report.html", "x", "", [table], values, "accord compare x").read_text()
    shown, folded = re.findall(r"<thead>(.*?)</thead>", html)[:2]
    assert re.findall(r">([^<>]+)</th>", shown) == ["what", "ndcg@10", "ndcg@20", "ndcg@20, warm users"]
    assert re.findall(r">([^<>]+)</th>", folded) == list(columns)
    assert html.index("At every K") > html.index(shown)
