"""How far labels are trusted: what is written down of a draw, and what the page says of it."""

from __future__ import annotations

from pathlib import Path

import pytest

import accord
from accord.comparing.results import keep_lines, read_lines
from accord.consensus.votes import TRUST
from accord.errors import InputError
from accord_lab.labels import trust
from accord_lab.labels.draws import without_labels
from helpers import small_data, timed_data


def test_every_trust_is_judged_by_known_pairs_and_by_the_test(tmp_path):
    data = trust.pushed_log(users=100, items=60, each=20, real=0.2)
    lines = trust.run(data, [0.5], 1, tmp_path, "cpu", 0.3, lambda _: None)
    (line,) = lines
    assert line["used"]
    assert line["trust"] == list(TRUST)
    assert (line["gain"][0], line["error"][0]) == (0, 0)
    assert 0 < line["pairs"] < (data.valid.column("label") > 0.5).sum()
    assert line["ndcg@20"][TRUST.index(0.0)] == pytest.approx(line["consensus"], abs=1e-9), "labels count for nothing"
    assert max(line["ndcg@20"]) > 2 * line["consensus"], "what is pushed is what is recommended, unless labels say more"
    again = trust.run(data, [0.5], 1, tmp_path, "cpu", 0.3, lambda text: pytest.fail(text))
    assert again == lines


def test_what_the_validation_judges_is_not_fitted_on_it(tmp_path):
    data = timed_data(trust.pushed_log(users=100, items=60, each=20, real=0.2).train)
    (line,) = trust.run(data, [0.5], 1, tmp_path, "cpu", 0.3, lambda _: None)
    alone = accord.fit(without_labels(data), options={"model.budget": 0.3}, device="cpu", refit=False)
    assert line["consensus"] == alone.metrics["before_validation"]["mean"]["ndcg@20"]
    assert line["ndcg@20"][TRUST.index(0.0)] == pytest.approx(line["consensus"], abs=1e-9)


def line_of(taken, **more):
    line = {"dataset": "d", "share": 0.05, "pairs": 30, "users": 25, "trust": list(TRUST), "consensus": 0.1}
    known = {"gain": [0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6], "error": [0.0] + [0.1] * 6, "taken": taken}
    return line | known | {"ndcg@20": [0.2, 0.1, 0.15, 0.4, 0.3, 0.2, 0.1]} | more


def test_the_page_says_what_is_taken_and_what_it_is_worth():
    said, test = trust.tables([line_of(2.0), line_of(1.0)])
    assert said.rows == (
        ("d", "5%", "30", "+1.0", "+2.0", "", "+3.0", "+4.0", "+5.0", "+6.0", "1 in 1 of 2, 2 in 1 of 2"),
    )
    assert test.rows[0][:6] == ("d", "5%", "0.1000", "0.1000 ± 0.0000", "0.1500 ± 0.0000", "0.2000 ± 0.0000")
    assert test.rows[0][-1] == "0.3000 ± 0.1414"
    (best,) = test.marked
    assert (test.columns[best[1]], test.rows[0][best[1]]) == ("2 times", "0.4000 ± 0.0000"), "the best by the test"


def test_a_validation_without_labels_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"has no labels to draw from; give --labels, as 'rating>=4'"):
        trust.run(small_data(), [0.1], 1, tmp_path)


def test_the_committed_page_is_what_its_raw_lines_say(tmp_path):
    folder = Path(__file__).parents[3] / "docs" / "reproduction" / "labels"
    keep_lines(tmp_path / "trust.jsonl", read_lines(folder / "trust.jsonl"))
    trust.render(tmp_path)
    assert (tmp_path / "trust.md").read_text() == (folder / "trust.md").read_text()
