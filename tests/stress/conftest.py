"""Runs that nothing disturbed, to compare with."""

from __future__ import annotations

import pytest

from small_runs import train


@pytest.fixture(scope="session")
def whole(tmp_path_factory):
    """Undisturbed runs of two seeds."""
    folder = tmp_path_factory.mktemp("whole")
    train(folder / "deca-p", method="deca-p")
    for seed in (3, 5):
        train(folder / str(seed), seed)
    return folder
