"""What stands in the place of a method for a solved model."""

from __future__ import annotations

import pytest
import torch

from accord.errors import InputError
from accord.methods.solve import Solve
from accord.protocol import CORRECTED
from helpers import make_model
from method_cases import TRAIN


def test_solved_models_give_no_posterior():
    method = Solve([None], lambda **_: make_model("popularity", TRAIN), CORRECTED)
    with pytest.raises(InputError, match="gives no probability"):
        method.posterior(torch.zeros(1, 1, dtype=torch.long), torch.zeros(1, 1, dtype=torch.long))
