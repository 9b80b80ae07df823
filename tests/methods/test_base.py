"""What all methods share: the posterior, padding, and the penalty on the target."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from accord.data.sampling import Batch
from accord.errors import InputError
from accord.methods import find_method
from accord.methods.base import cross_entropy
from accord.nn.layers import Streams
from accord.protocol import CORRECTED, PUBLISHED
from accord.random import generators
from accord_lab.methods import ALL_METHODS
from helpers import stages_of
from method_cases import POSITIVES, USERS, found, make, probability, random_batch, summed


@pytest.mark.parametrize("name", ["normal", "wbpr", "tce", "rce", "dcf", "udt", "pld", "eard", "deca-p"])
def test_posterior_is_the_target_itself(name):
    method, batch = make(name), random_batch()
    posterior = method.belief(batch.users, batch.items).detach().numpy()
    np.testing.assert_allclose(posterior, probability(method.target, batch), rtol=1e-9)


@pytest.mark.parametrize("name", ALL_METHODS)
@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_padding_changes_nothing(name, reduction):
    """Runs of a padded batch against each run's own, unpadded one."""
    options = [{"ramp": 1, "drop": 0.3}] * 3 if name in ("tce", "dcf") else [{}] * 3
    method = make(name, options)
    method.rules = summed() if reduction == "sum" else method.rules
    members = method.members
    sizes = [POSITIVES, 7, 1] * members
    batch = random_batch(3 * members)
    real = torch.arange(POSITIVES)[None] < torch.tensor(sizes)[:, None]
    padded = batch._replace(mask=torch.cat([real, real], 1).float())
    for step in (0, 1):
        together = found(started_again(method), padded, step)
        for run, size in enumerate(sizes):
            keep = torch.cat([real[run], real[run]])
            # the same pairs for every run, of which only this one is looked at
            users, items = (x[run, keep].expand(3 * members, -1) for x in (batch.users, batch.items))
            place = batch.column("place")[run, :size].expand(3 * members, -1)
            alone = found(started_again(method), Batch(users, items, size, columns={"place": place}), step)
            np.testing.assert_allclose(together[run], alone[run], rtol=1e-6)


def started_again(method):
    """A method that has drawn no number and remembers nothing."""
    for part in method.modules():
        if isinstance(part, Streams):
            part.streams = generators(part.seeds, part.purpose)
    for name in method.remembers:
        getattr(method, name).zero_()
    return method


def l2_case(method, protocol, model):
    """The method and the gradient of its penalty by `decay`."""
    made = make(method, protocol=protocol, model=model)
    l2 = torch.tensor([0.0, 0.1, 5.0], dtype=torch.float64)
    factors = made.decay(l2)
    left = {name: torch.zeros_like(parameter) for name, parameter in made.named_parameters()}
    for name, parameter in made.named_parameters():
        if parameter in factors:
            left[name] = parameter.detach() * factors[parameter].view(-1, *[1] * (parameter.dim() - 1))
    return made, l2, left


@pytest.mark.parametrize("model", ["mf", "gmf", "neumf", "cdae", "lightgcn"])
def test_l2_gradient_is_that_of_the_penalty(model):
    made, l2, left = l2_case("deca", CORRECTED, model)
    made.zero_grad(set_to_none=True)
    squares = sum(parameter.pow(2).flatten(1).sum(1) for parameter in made.target.parameters())
    (l2 / 2 * squares / USERS).sum().backward()
    for name, parameter in made.named_parameters():
        expected = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
        torch.testing.assert_close(left[name], expected, msg=name)
        assert (expected.abs().sum() > 0) == name.startswith("target."), "L2 is on the target alone"


def test_l2_gradient_of_norms():
    """The released code's CDAE: l2 times the norm of each tensor, undivided."""
    made, l2, left = l2_case("normal", PUBLISHED, "cdae")
    made.zero_grad(set_to_none=True)
    norms = sum(parameter.flatten(1).norm(dim=1) for parameter in made.target.parameters())
    (l2 * norms).sum().backward()
    for name, parameter in made.named_parameters():
        torch.testing.assert_close(left[name], parameter.grad, msg=name)


def test_cross_entropy_of_each_pair():
    batch = Batch(torch.zeros(1, 4, dtype=torch.long), torch.zeros(1, 4, dtype=torch.long), 2)
    logits = torch.tensor([[0.0, 2.0, 0.0, 2.0]], dtype=torch.float64)
    f = 1 / (1 + np.exp(-2.0))
    expected = [[np.log(2), -np.log(f), np.log(2), -np.log(1 - f)]]
    np.testing.assert_allclose(cross_entropy(logits, batch).numpy(), expected, rtol=1e-12)


def test_options_of_each_run_are_a_column():
    method = make("deca", [{"c1": 1.0}, {"c1": 2.0}, {}])
    assert method.c1.tolist() == [[1.0], [2.0], [10.0]]
    assert "c1" not in method.state_dict(), "an option, not a weight"


def test_a_plain_method_has_one_stage_which_is_itself():
    method = make("rce")
    assert stages_of(method) == [method]
    assert method.num_stages == 1


@pytest.mark.parametrize("name", ALL_METHODS)
def test_a_method_has_as_many_stages_as_it_says(name):
    method = make(name)
    stages = stages_of(method)
    assert len(stages) == method.num_stages
    assert stages[-1] is method


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [("decca", "unknown method 'decca'; did you mean 'deca'"), (dict, "method '<class 'dict'>' is not a subclass of")],
)
def test_what_is_no_method_is_one_sentence(spec, sentence):
    with pytest.raises(InputError) as error:
        find_method(spec)
    assert str(error.value).startswith(sentence)
