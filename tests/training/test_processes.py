"""What several processes do together besides training: refuse, evaluate, gather."""

from __future__ import annotations

import pytest

from accord.errors import InputError
from accord.models.mf import MF
from accord.nn.ranks import ALONE, SeveralRanks
from accord.training.processes import require_shardable
from contracts import TwoTower
from helpers import plan_small, small_data


@pytest.mark.parametrize(
    ("model", "method", "protocol", "what"),
    [
        ("gmf", "tce", "corrected", "method 'tce'"),
        (TwoTower, "normal", "corrected", "model 'plain'"),
        ("cdae", "normal", "published", "model 'cdae'"),
        ("ease", "normal", "corrected", "method 'none'"),
    ],
)
def test_what_needs_everything_in_one_process_is_refused(model, method, protocol, what):
    run = plan_small(model, method, (1,), protocol=protocol)
    require_shardable(ALONE, run, small_data())
    with pytest.raises(InputError, match=f"{what} cannot be trained by several processes: it needs all users"):
        require_shardable(SeveralRanks(0, 2), run, small_data())


def test_a_promise_is_inherited_and_can_be_taken_back():
    class Own(MF):
        pass

    class Other(MF):
        shardable = False

    require_shardable(SeveralRanks(0, 2), plan_small(Own, "normal", (1,)), small_data())
    with pytest.raises(InputError, match="model 'mf' cannot be trained by several processes"):
        require_shardable(SeveralRanks(0, 2), plan_small(Other, "normal", (1,)), small_data())
