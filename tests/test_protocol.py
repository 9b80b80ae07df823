"""The rules by name: two presets, and what single models and methods declare."""

from __future__ import annotations

from typing import Literal

import pytest
from pydantic import ValidationError

from accord.errors import InputError
from accord.protocol import CORRECTED, PRESETS, PUBLISHED, OwnRules, Protocol, preset_values, rule


class Rules(OwnRules):
    steps: Literal[1, 2] = rule(1, 2, "how many steps")
    summed: bool = rule(True, False, "whether losses are summed")

    @property
    def reduction(self) -> Literal["mean", "sum"]:
        return "sum" if self.summed else "mean"


def test_presets_are_called_what_they_are():
    assert {name: made.name for name, made in PRESETS.items()} == {"published": "published", "corrected": "corrected"}
    assert (PUBLISHED.negatives, CORRECTED.negatives) == ("all", "unseen")
    assert (PUBLISHED.seeds, CORRECTED.seeds) == (3, 10)


def test_every_rule_differs_between_the_presets_and_is_described():
    for name, field in Protocol.model_fields.items():
        assert field.description
        assert getattr(PUBLISHED, name) != getattr(CORRECTED, name), name


def test_own_rules_are_those_of_the_preset():
    assert PUBLISHED.rules_of(Rules) == Rules(steps=1, summed=True)
    assert CORRECTED.rules_of(Rules) == Rules(steps=2, summed=False)
    assert preset_values(Rules, "published") == {"steps": 1, "summed": True}


def test_own_rules_take_the_values_that_are_given():
    given = Protocol(**CORRECTED.model_dump(), steps=1, first_step="both")
    assert given.rules_of(Rules) == Rules(steps=1, summed=False), "the rules of others are left alone"
    assert given.rules_of(Rules).reduction == "mean"
    assert PUBLISHED.rules_of(Rules).reduction == "sum"


def test_a_bad_value_of_an_own_rule_is_one_sentence():
    given = Protocol(**CORRECTED.model_dump(), steps=3)
    with pytest.raises(InputError, match=r"^option steps of protocol is 3: input should be 1 or 2\.$"):
        given.rules_of(Rules)


def test_who_declares_nothing_is_treated_as_all_others_are():
    for protocol in (PUBLISHED, CORRECTED):
        plain = protocol.rules_of(OwnRules)
        found = (plain.reduction, plain.penalty, plain.mask_seen, plain.user_negatives)
        assert found == ("mean", "squared", True, "users")


def test_a_protocol_does_not_change():
    with pytest.raises(ValidationError, match="frozen"):
        CORRECTED.ties = "index"
    with pytest.raises(ValidationError, match="ties"):
        Protocol(**CORRECTED.model_dump() | {"ties": "alphabet"})
