"""The noise of a log in numbers: rates and examples."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from accord.auditing.interaction_log import open_log
from accord.auditing.noise import interactions_table, judge, noise_summary, side_table
from accord.posteriors.estimate import estimate
from audit_logs import estimate_of, random_frame
from helpers import small_data


@pytest.fixture(scope="module")
def log():
    return open_log(
        random_frame(
            rating=lambda rng, keys: rng.integers(1, 6, len(keys)),
            time=lambda _rng, keys: 1_600_000_000 + 86_400 * np.arange(len(keys)),
        ),
        split="random",
    )


@pytest.fixture(scope="module")
def judged(log):
    return estimate_of(log, np.linspace(0.05, 0.95, len(log)))


@pytest.fixture(scope="module")
def summary(log, judged):
    return noise_summary(log, judged, *(side_table(log, judged, side) for side in ("user", "item")))


def test_the_rate_is_what_is_missing_to_one(judged, summary):
    assert summary["rate"] == pytest.approx(0.5)
    assert summary["low"] <= summary["rate"] <= summary["high"]
    assert summary["suspects"] == np.sum(judged.p_real < 0.5) == 150
    assert summary["by_popularity_basis"] == 0
    assert summary["families"] == ["popularity", "ease"]


def test_the_histogram_shares_out_every_interaction(summary):
    assert sum(row["interactions"] for row in summary["histogram"]) == 300


def test_examples_are_the_extremes_by_their_ids(log, judged, summary):
    order = np.argsort(judged.p_real)
    rows = log.rows.table.to_pylist()
    assert [(row["user"], row["item"]) for row in summary["noisiest"]] == [
        (rows[place]["user"], rows[place]["item"]) for place in order[:20]
    ]
    worst = summary["noisiest_users"]
    assert [row["noise_rate"] for row in worst] == sorted((row["noise_rate"] for row in worst), reverse=True)
    assert min(row["interactions"] for row in worst) >= 5


def test_p_real_is_that_of_the_estimator_in_the_order_of_the_log():
    log = open_log(small_data())
    order = np.lexsort([log.items, log.users])
    assert not np.array_equal(order, np.arange(len(log)))
    judged, expected = judge(log), estimate(log.csr())
    for name in ("p_real", "low", "high", "opinions", "alone"):
        np.testing.assert_array_equal(getattr(judged, name)[..., order], getattr(expected, name))


def test_rates_of_users_are_means_over_their_interactions():
    log = open_log(random_frame())
    judged = estimate_of(log, np.random.default_rng(0).random(len(log)))
    table = side_table(log, judged, "user").to_pylist()
    assert sum(row["interactions"] for row in table) == len(log)
    for row in table[:5]:
        p_real = judged.p_real[np.asarray(log.rows.users) == row["user"]]
        assert row["noise_rate"] == pytest.approx(1 - p_real.mean())
        assert row["suspects"] == np.sum(p_real < 0.5)
        assert row["low"] <= row["p_real"] <= row["high"]


def test_the_table_has_a_row_for_every_interaction():
    table = random_frame(rating=lambda rng, keys: rng.integers(1, 6, len(keys)))
    log = open_log(pa.concat_tables([table, pa.table({"user": ["once"], "item": ["i1"], "rating": [3]})]))
    judged = estimate_of(log, np.linspace(0.1, 0.9, len(log)))
    table = interactions_table(log, judged)
    assert table.column_names == ["user", "item", "p_real", "low", "high", "basis", "agree", "of", "value"]
    assert table.num_rows == len(log) == 301
    once = np.asarray(log.rows.users) == "once"
    assert set(np.asarray(table.column("basis").to_pylist())[once]) == {"popularity"}
    assert set(np.asarray(table.column("basis").to_pylist())[~once]) == {"models"}
    assert set(table.column("of").to_pylist()) == {2}
    agree = np.array([-1 if one is None else one for one in table.column("agree").to_pylist()])
    expected = (judged.p_real - 0.05 >= 0.5).astype(int) + (judged.p_real + 0.05 >= 0.5)
    assert (agree[~once] == expected[~once]).all()
    assert (agree[once] == -1).all()
