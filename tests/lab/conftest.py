"""One simulated dataset that comparisons run on; no long search for how labels are best learned."""

from __future__ import annotations

import pytest

import accord


@pytest.fixture(autouse=True)
def _few_penalties(few_penalties):
    pass


@pytest.fixture(scope="session")
def data():
    return accord.simulate(users=120, items=60, interactions=1500, seed=3).dataset
