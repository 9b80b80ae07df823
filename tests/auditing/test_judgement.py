"""From the opinions of several runs to one probability with an interval."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from accord.auditing.interaction_log import open_log
from accord.auditing.judgement import interactions_table, judge, side_table
from audit_logs import opinion_of, random_frame


def test_where_no_model_can_judge_popularity_does():
    log = open_log(random_frame())
    known = np.ones(len(log), dtype=bool)
    known[:7] = False
    popularity = np.bincount(log.items, minlength=len(log.data.items))[log.items]
    found = judge(log, opinion_of(log, popularity / 40, known))
    assert (found.basis[:7] == "popularity").all()
    assert (found.basis[7:] == "models").all()
    for values in (found.p_real, found.low, found.high):
        assert np.isfinite(values).all()
        assert ((values >= 0) & (values <= 1)).all()
    assert ((found.low <= found.p_real) & (found.p_real <= found.high)).all()
    alike = known & (np.floor(np.log2(popularity)) == np.floor(np.log2(popularity[0])))
    assert found.p_real[0] == pytest.approx(found.p_real[alike].mean())


def test_rates_of_users_are_means_over_their_interactions():
    log = open_log(random_frame())
    found = judge(log, opinion_of(log, np.random.default_rng(0).random(len(log))))
    table = side_table(found, "user").to_pylist()
    assert sum(row["interactions"] for row in table) == len(log)
    for row in table[:5]:
        own = found.p_real[np.asarray(log.rows.users) == row["user"]]
        assert row["noise_rate"] == pytest.approx(1 - own.mean())
        assert row["suspects"] == np.sum(own < 0.5)
        assert row["low"] <= row["p_real"] <= row["high"]


def test_the_interval_is_students_over_the_runs():
    log = open_log(random_frame())
    found = judge(log, opinion_of(log, np.full(len(log), 0.5)))
    half = 12.7062 * 0.1 / np.sqrt(2) / np.sqrt(2)  # t of one degree of freedom, sd of 0.45 and 0.55 over √2
    assert found.low[0] == pytest.approx(max(0, 0.5 - half), abs=1e-4)
    assert found.high[0] == pytest.approx(min(1, 0.5 + half), abs=1e-4)
    assert found.p_real[0] == pytest.approx(0.5)


def test_more_runs_make_the_interval_narrower():
    """By hand for four runs: the interval of their mean, not of another run, which would be twice as wide."""
    log = open_log(random_frame())
    values = np.array([0.45, 0.5, 0.5, 0.55])
    opinion = opinion_of(log, np.full(len(log), 0.5))
    many = replace(opinion, runs=[opinion.runs[0]] * 4, p_real=np.repeat(values[:, None], len(log), axis=1))
    found = judge(log, many)
    half = 3.1824 * values.std(ddof=1) / 2  # t of three degrees of freedom, √4 runs
    assert found.low[0] == pytest.approx(0.5 - half, abs=1e-4)
    assert found.high[0] == pytest.approx(0.5 + half, abs=1e-4)


def test_the_table_has_a_row_for_every_interaction():
    log = open_log(random_frame(rating=lambda rng, keys: rng.integers(1, 6, len(keys))))
    found = judge(log, opinion_of(log, np.full(len(log), 0.5)))
    table = interactions_table(found, None)
    assert table.column_names == ["user", "item", "p_real", "low", "high", "basis", "agree", "of", "value"]
    assert table.num_rows == len(log)
    assert set(table.column("basis").to_pylist()) == {"models"}
    assert interactions_table(found, found.p_real).column_names[-1] == "p_calibrated"
