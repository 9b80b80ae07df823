"""No study chooses by the test: with a test of garbage, every choice is the same to the bit.

What `lab labels` and `lab leaderboard` write is held to that by tests/test_garbage.py.
"""

from __future__ import annotations

import pytest

import accord
from accord.data.load import load
from accord.data.split import split
from accord_lab.labels import chosen, training
from garbage import with_garbage_test


@pytest.fixture(autouse=True)
def no_clock(monkeypatch):
    """A search that takes far longer than its budget ends early: not here, however slow the machine is."""
    monkeypatch.setattr("accord.consensus.search.FAR_OVER", float("inf"))


def quiet(_):
    pass


def clean_split():
    """Split at random, with a clean test and labels by a rule."""
    log = accord.simulate(users=120, items=60, interactions=1_500, seed=4).dataset.train
    return load(split(log, "random", clean="value>=1", name="clean"), labels="value>=1")


def unclean_split():
    """Without a clean test: every test interaction counts, whatever its label."""
    log = accord.simulate(users=120, items=60, interactions=1_500, seed=4).dataset.train
    return load(split(log, "random", name="unclean"), labels="value>=1")


def recorded(monkeypatch, study):
    """What every fit of a study was asked for and chose, in their order."""
    fits, fit = [], study.fit

    def record(*given, **options):
        made = fit(*given, **options)
        members = [member.model_dump(mode="json") for member in made.run.members]
        valid = [run.get("valid_ndcg@20") for run in made.metrics["runs"]]
        fits.append((made.run.config.model_dump(mode="json"), members, valid))
        return made

    monkeypatch.setattr(study, "fit", record)
    return fits


def without(line, *results):
    return {key: value for key, value in line.items() if key not in results}


def test_training_and_chosen_labels(tmp_path, monkeypatch):
    monkeypatch.setattr(chosen, "START", 100)
    monkeypatch.setattr(chosen, "MOST", 50)
    data = unclean_split()
    lines = []
    for number, one in enumerate((data, with_garbage_test(data))):
        folder = tmp_path / str(number)
        lines.append(training.run(one, 1, folder, "cpu", quiet, ["mf"], ["normal"]))
        lines[-1] = [without(line, "ndcg@20") for line in lines[-1]], chosen.run(one, 1, folder, quiet)
    assert lines[0] == lines[1]
