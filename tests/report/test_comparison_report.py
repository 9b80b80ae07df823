"""The report of a comparison."""

from __future__ import annotations

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
