"""The report of a comparison."""

from __future__ import annotations

import re
from html import unescape

import numpy as np

from accord.evaluation.significance import compare_to
from accord.report.comparison_report import write_comparison
from accord.report.tables import Table


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
