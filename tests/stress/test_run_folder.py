"""What the load campaign does to the run folder: the link always points to what a step says."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from run_folder import Folder


@pytest.fixture
def folder(tmp_path):
    runs = {}
    for name in ("gmf", "mf"):
        runs[name] = tmp_path / name
        runs[name].mkdir()
        (runs[name] / "config.json").write_text(name)
    link = tmp_path / "current"
    link.symlink_to(runs["gmf"])
    return Folder(link, runs, SimpleNamespace(turn=0, serves="gmf", port=0))


def test_every_step_can_be_taken_and_has_a_text(folder):
    assert set(Folder.STEPS) == set(Folder.TEXTS)
    assert all(callable(getattr(folder, step)) for step in Folder.STEPS)


def test_while_the_link_turns_either_run_may_answer(folder):
    folder._point_to(folder.runs["mf"], "mf")
    assert (folder.link / "config.json").read_text() == "mf"
    assert (folder.now, folder.clients.serves, folder.clients.turn) == ("mf", None, 1)
    assert folder._other() == "gmf"
    folder._expect("mf")
    assert (folder.clients.serves, folder.clients.turn) == ("mf", 2)


def test_copies_that_are_not_served_are_removed(folder):
    first = folder._copy("gmf")
    folder._point_to(first, "gmf")
    second, third = folder._copy("mf"), folder._copy("mf")
    assert first.exists(), "it is served"
    assert not second.exists()
    assert (third / "config.json").read_text() == "mf"
