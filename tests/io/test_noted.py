"""What is kept with results."""

from __future__ import annotations

import pytest

from accord.io.noted import noted, noting


def test_facts_are_noted_within_and_forgotten_after():
    assert noted("command", None) is None
    with noting(command="accord train", read_seconds=1.5):
        with noting(command="accord demo"):
            assert (noted("command", None), noted("read_seconds", 0)) == ("accord demo", 1.5)
        assert noted("command", None) == "accord train"
    with pytest.raises(KeyError), noting(command="it"):
        raise KeyError
    assert noted("command", "nothing") == "nothing"
