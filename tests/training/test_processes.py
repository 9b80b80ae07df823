"""What several processes do together besides training: refuse, evaluate, gather."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from accord.consensus.training import Trained
from accord.data.user_shard import shard_of
from accord.errors import InputError
from accord.evaluation.evaluate import Relevant
from accord.models.mf import MF
from accord.nn.ranks import ALONE, SeveralRanks
from accord.recommender.recommender import Recommender
from accord.training.processes import evaluate_together, gathered, require_shardable
from contracts import TwoTower
from helpers import CPU, assert_same_weights, plan_small, small_data, spread


@pytest.mark.parametrize(
    ("model", "method", "protocol", "what"),
    [
        ("gmf", "tce", "corrected", "method 'tce'"),
        *(("gmf", name, "corrected", f"method '{name}'") for name in ("dcf", "udt", "pld", "eard")),
        (TwoTower, "normal", "corrected", "model 'plain'"),
        ("cdae", "normal", "published", "model 'cdae'"),
        ("ease", "normal", "corrected", "model 'ease'"),
    ],
)
def test_what_needs_everything_in_one_process_is_refused(model, method, protocol, what):
    run = plan_small(model, method, (1,), protocol=protocol)
    require_shardable(ALONE, run, small_data())
    with pytest.raises(InputError, match=f"{what} cannot be trained by several processes: it needs all users"):
        require_shardable(SeveralRanks(0, 2), run, small_data())


def test_a_solved_partner_is_refused():
    run = plan_small("gmf", "deca-p", (1,), method__partner="ease")
    with pytest.raises(InputError, match="model 'ease' cannot be trained by several processes"):
        require_shardable(SeveralRanks(0, 2), run, small_data())


def test_a_promise_is_inherited_and_can_be_taken_back():
    class Own(MF):
        pass

    class Other(MF):
        shardable = False

    require_shardable(SeveralRanks(0, 2), plan_small(Own, "normal", (1,)), small_data())
    with pytest.raises(InputError, match="model 'mf' cannot be trained by several processes"):
        require_shardable(SeveralRanks(0, 2), plan_small(Other, "normal", (1,)), small_data())


def built(model="gmf", method="normal", seeds=(3, 5), protocol="corrected"):
    data, run = small_data(), plan_small(model, method, seeds, protocol=protocol)
    made = run.build(data.training_csr()).eval()
    spread(made)
    return data, run, made


def test_one_process_has_gathered_everything_already():
    data, run, made = built()
    assert gathered(ALONE, run, data, made) is made


class Several(SeveralRanks):
    """A process whose neighbours hold these shards of each table."""

    def __init__(self, rank, size, shards):
        super().__init__(rank, size)
        self.shards = shards

    def collect(self, own, dim, name):
        assert torch.equal(own, self.shards[self.rank][name])
        return torch.cat([shard[name] for shard in self.shards], dim) if self.rank == 0 else None


def test_the_first_process_gathers_the_rows_of_all_users():
    data, run, whole = built()
    csr = data.training_csr()
    methods = []
    for rank in range(3):
        first, size = SeveralRanks(rank, 3).share(csr.num_users)
        methods.append(run.build(shard_of(csr, (first, size))))
        weights = whole.state_dict()
        weights["target.user.weight"] = weights["target.user.weight"][:, first : first + size]
        methods[-1].load_state_dict(weights)
    shards = [method.state_dict() for method in methods]
    found = gathered(Several(0, 3, shards), run, data, methods[0])
    assert_same_weights(found.state_dict(), whole.state_dict())
    assert not found.training
    assert gathered(Several(1, 3, shards), run, data, methods[1]) is None


@torch.no_grad()
def test_one_process_evaluates_the_whole_test():
    data, run, made = built()
    relevant = Relevant.of_test(data, run.config.protocol)
    found = evaluate_together(ALONE, run, data, made, relevant, CPU)
    assert found.users.tolist() == relevant.users.tolist()
    alone = Recommender.of_training(Trained(run, made), data).evaluate()
    assert found.mean() == alone.mean()
    assert found.warm.tolist() == alone.warm.tolist()


class Collects(SeveralRanks):
    """A process that keeps what it would give to the first."""

    def collect(self, own, dim, name):
        self.own = own


@torch.no_grad()
def test_the_figures_of_shards_end_to_end_are_those_of_the_whole():
    data, run, made = built()
    relevant = Relevant.of_test(data, run.config.protocol)
    whole = evaluate_together(ALONE, run, data, made, relevant, CPU)
    parts = []
    for rank in range(3):
        ranks = Collects(rank, 3)
        first, size = ranks.share(len(data.users))
        own = run.build(shard_of(data.training_csr(), (first, size))).eval()
        weights = made.state_dict()
        weights["target.user.weight"] = weights["target.user.weight"][:, first : first + size]
        own.load_state_dict(weights)
        assert evaluate_together(ranks, run, data, own, relevant, CPU) is None
        parts.append(ranks.own)
    every = torch.cat(parts, 2).numpy()
    for place, values in enumerate(whole.per_user.values()):
        assert (every[place] == values).all()


def test_a_test_without_pairs_is_refused():
    data, run, made = built()
    nothing = replace(data, test=data.test.slice(0, 0))
    with pytest.raises(InputError, match="the test holds no pair to evaluate on"):
        evaluate_together(ALONE, run, nothing, made, Relevant.of_test(nothing, run.config.protocol), CPU)
