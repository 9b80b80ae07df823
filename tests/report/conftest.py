"""Runs that reports are made of, trained once."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

import accord
from harmful import audited, compared, log, run  # noqa: F401

HARM = "<img src=x onerror=\"document.title='harmed'\"></script><script>document.title='harmed'</script>"


@pytest.fixture(scope="session")
def data():
    """Simulated clicks on items whose titles would do harm if they were not escaped; the last user is cold."""
    made = accord.simulate(users=120, items=60, interactions=1500, seed=3).dataset
    titles = pa.array([f"{HARM} {number}" for number in range(len(made.items))])
    cold = made.users.ids[-1]
    kept = pa.compute.not_equal(made.train.users, cold)
    train = accord.Interactions(made.train.table.filter(kept))
    return replace(made, train=train, item_info=pa.table({"title": titles}))


@pytest.fixture(scope="session")
def trained(data, tmp_path_factory):
    """A folder and a recommender each: plain, in two stages, in closed form."""
    top = tmp_path_factory.mktemp("runs")
    found = {}
    for model, method, seeds in (("mf", "normal", 2), ("mf", "deca-p", 2), ("ease", "normal", 1)):
        folder = top / f"{model}-{method}"
        options = {"train.batch_size": 64}
        found[folder.name] = (
            str(folder),
            accord.fit(data, model, method, epochs=3, seeds=seeds, options=options, out=folder),
        )
    return found
