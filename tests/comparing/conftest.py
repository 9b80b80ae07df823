"""One simulated dataset that comparisons run on."""

from __future__ import annotations

import pytest

import accord


@pytest.fixture(scope="session")
def data():
    return accord.simulate(users=120, items=60, interactions=1500, seed=3).dataset
