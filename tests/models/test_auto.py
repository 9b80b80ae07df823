"""The model that is asked for to have one found."""

from __future__ import annotations

import pytest

from accord.errors import InputError
from accord.models.consensus import Auto
from helpers import plan_small


def test_it_is_the_default_budget_of_two_minutes():
    assert Auto.Config().budget == 120
    assert Auto.Config().members == ()


@pytest.mark.parametrize("budget", [0, -1, "long"])
def test_a_budget_is_a_number_of_seconds(budget):
    with pytest.raises(InputError, match=r"^option budget of model auto is"):
        plan_small("auto", "normal", (3,), model__budget=budget)
