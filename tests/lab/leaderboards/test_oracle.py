"""EASE that is given the ratings: the ceiling of denoising."""

from __future__ import annotations

import pytest

from accord.comparing.compare import Request
from accord.data.load import load
from accord_lab.leaderboards import leaderboard
from accord_lab.leaderboards.oracle import SETTINGS, oracle_line


@pytest.mark.parametrize(
    ("name", "figures"),
    [("ml-100k", (0.1368, 0.2976, 0.1385, 0.1871)), ("modcloth", (0.1100, 0.2957, 0.0756, 0.1285))],
)
def test_the_ceiling_is_that_of_the_paper_notes(shared_data, name, figures):
    line = oracle_line(Request(load(shared_data / name)), (5, 20))
    assert [line["metrics"][m] for m in leaderboard.METRICS] == pytest.approx(figures, abs=6e-5)


def test_there_is_no_ceiling_without_known_ratings(data):
    assert data.name not in SETTINGS
    assert oracle_line(Request(data), (5, 20)) is None
