"""The noise of a log in numbers: rates, groups of equal size, and examples."""

from __future__ import annotations

import numpy as np
import pytest

from accord.auditing.interaction_log import open_log
from accord.auditing.judgement import judge, side_table
from accord.auditing.noise_summary import groups, noise_summary
from audit_logs import opinion_of, random_frame


@pytest.fixture(scope="module")
def judged():
    log = open_log(
        random_frame(
            rating=lambda rng, keys: rng.integers(1, 6, len(keys)),
            time=lambda _rng, keys: 1_600_000_000 + 86_400 * np.arange(len(keys)),
        ),
        split="random",
    )
    return judge(log, opinion_of(log, np.linspace(0.05, 0.95, len(log))))


@pytest.fixture(scope="module")
def summary(judged):
    return noise_summary(judged, side_table(judged, "user"), side_table(judged, "item"))


def test_the_rate_is_what_is_missing_to_one(judged, summary):
    assert summary["rate"] == pytest.approx(0.5)
    assert summary["low"] <= summary["rate"] <= summary["high"]
    assert summary["suspects"] == np.sum(judged.p_real < 0.5) == 150
    assert summary["by_popularity_basis"] == 0
    assert (len(summary["runs"]), summary["folds"]) == (2, 2)


def test_groups_share_out_every_interaction(summary):
    for name in ("histogram", "by_popularity", "by_activity", "by_time", "by_value"):
        assert sum(row["interactions"] for row in summary[name]) == 300, name
    assert [row["label"] for row in summary["by_value"]] == ["1", "2", "3", "4", "5"]
    assert summary["by_time"][0]["label"].startswith("2020-09-13 to 2020-")


def test_a_group_has_the_mean_of_its_interactions(judged):
    values = np.arange(300)
    found = groups(judged, values, lambda first, last: f"{first}-{last}")
    assert [row["label"] for row in found][:2] == ["0-29", "30-59"]
    for row in found:
        inside = (values >= row["from"]) & (values <= row["to"])
        assert row["noise_rate"] == pytest.approx(1 - judged.p_real[inside].mean())
        assert row["low"] <= row["noise_rate"] <= row["high"]


def test_examples_are_the_extremes_by_their_own_ids(judged, summary):
    order = np.argsort(judged.p_real)
    rows = judged.log.rows.table.to_pylist()
    for name, places in (("noisiest", order[:20]), ("surest", order[::-1][:20])):
        assert [(row["user"], row["item"]) for row in summary[name]] == [
            (rows[place]["user"], rows[place]["item"]) for place in places
        ]
    worst = summary["noisiest_users"]
    assert [row["noise_rate"] for row in worst] == sorted((row["noise_rate"] for row in worst), reverse=True)
    assert min(row["interactions"] for row in worst) >= 5


def test_a_log_without_values_and_times_has_no_such_groups():
    log = open_log(random_frame())
    judged = judge(log, opinion_of(log, np.full(len(log), 0.5)))
    found = noise_summary(judged, side_table(judged, "user"), side_table(judged, "item"))
    assert found["by_time"] is None
    assert found["by_value"] is None
