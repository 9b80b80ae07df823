"""What all methods share: the posterior, padding, and the penalty on the target."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from accord.data.sampling import Batch
from accord.methods import METHODS
from accord.protocol import CORRECTED, PUBLISHED
from method_cases import POSITIVES, USERS, found, make, probability, random_batch, summed


@pytest.mark.parametrize("name", ["normal", "wbpr", "tce", "rce", "deca-p"])
def test_posterior_is_the_target_itself(name):
    method, batch = make(name), random_batch()
    posterior = method.posterior(batch.users, batch.items).detach().numpy()
    np.testing.assert_allclose(posterior, probability(method.target, batch), rtol=1e-9)


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_padding_changes_nothing(name, reduction):
    """Runs of a padded batch against each run's own, unpadded one."""
    options = [{"ramp": 1, "drop": 0.3}] * 3 if name == "tce" else [{}] * 3
    method = make(name, options)
    method.rules = summed() if reduction == "sum" else method.rules
    members = method.members
    sizes = [POSITIVES, 7, 1] * members
    batch = random_batch(3 * members)
    real = torch.arange(POSITIVES)[None] < torch.tensor(sizes)[:, None]
    padded = Batch(batch.users, batch.items, POSITIVES, torch.cat([real, real], 1).float())
    for step in (0, 1):
        together = found(method, padded, step)
        for run, size in enumerate(sizes):
            keep = torch.cat([real[run], real[run]])
            # the same pairs for every run, of which only this one is looked at
            users, items = (x[run, keep].expand(3 * members, -1) for x in (batch.users, batch.items))
            alone = found(method, Batch(users, items, size), step)
            np.testing.assert_allclose(together[run], alone[run], rtol=1e-6)


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
