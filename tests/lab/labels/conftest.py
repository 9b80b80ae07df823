"""A simulated log whose training interactions have labels."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

import accord
from accord.data.interactions import Interactions


@pytest.fixture(scope="session")
def data():
    made = accord.simulate(users=100, items=80, interactions=1_300, seed=2).dataset
    label = pa.array(made.train.column("value").astype(float))
    return replace(made, train=Interactions.of(made.train.users, made.train.items, label=label))
