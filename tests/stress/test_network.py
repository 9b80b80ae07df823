"""The cable between two network namespaces: there, cut, joined again and gone."""

from __future__ import annotations

import subprocess

import network
import pytest
from faults import Skipped


def reaches(cable):
    """Whether the head has a way to the worker that carries something."""
    words = ["ip", "-n", cable.head, "-o", "link", "show", "cable"]
    return "LOWER_UP" in subprocess.run(words, capture_output=True, text=True, check=True).stdout


def test_a_cable_is_cut_and_joined_again():
    cable = network.Network()
    try:
        cable.make()
        assert reaches(cable)
        cable.cut()
        assert not reaches(cable)
        cable.join()
        assert reaches(cable)
        cable.kill_a_worker()  # there is none
    except Skipped as reason:
        pytest.skip(str(reason))
    finally:
        cable.remove()
    listed = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True).stdout
    assert cable.head not in listed


def test_what_cannot_be_made_is_said(monkeypatch):
    monkeypatch.setattr(network.importlib.util, "find_spec", lambda _: None)
    with pytest.raises(Skipped, match="Ray is not installed"), network.cluster(None):
        pass
    monkeypatch.setenv("PATH", "")
    with pytest.raises(Skipped, match="there is no command ip"):
        network.Network().make()
