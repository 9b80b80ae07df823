"""What stands in the place of a method for a solved model."""

from __future__ import annotations

import pytest
import torch

from accord.errors import InputError
from accord.methods import method_for
from accord.methods.normal import Solve
from accord.protocol import CORRECTED
from helpers import make_model
from method_cases import TRAIN


def test_solved_models_give_no_posterior():
    method = Solve([None], lambda **_: make_model("popularity", TRAIN), CORRECTED)
    with pytest.raises(InputError, match="gives no probability"):
        method.belief(torch.zeros(1, 1, dtype=torch.long), torch.zeros(1, 1, dtype=torch.long))


def test_a_solved_model_is_asked_to_be_solved_and_nothing_is_trained():
    class Asked:
        def __init__(self):
            self.solved = []

        def solve(self, model):
            self.solved.append(model)

    model, lab = make_model("popularity", TRAIN), Asked()
    Solve([None], lambda **_: model, CORRECTED).stages(lab)
    assert lab.solved == [model]


@pytest.mark.parametrize("model", ["popularity", "ease"])
def test_whatever_the_method_a_solved_model_is_solved(model):
    assert method_for(model, "deca") is method_for(model, "no such method") is Solve
    assert not Solve.learns
