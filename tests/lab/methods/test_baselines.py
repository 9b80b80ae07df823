"""WBPR and Ensemble: which negatives, and what is averaged."""

from __future__ import annotations

import numpy as np
import torch

from accord.data.sampling import Batch
from accord.protocol import PUBLISHED, Protocol, preset_values
from accord_lab.methods import ALL_METHODS
from accord_lab.methods.baselines import WBPR
from helpers import make_method
from method_cases import ITEMS, POSITIVES, TRAIN, USERS, found, make, means, probability, random_batch, split


def test_wbpr_alone_asks_for_popular_negatives():
    asked = {name: make(name, ({},)) for name in ALL_METHODS}
    assert [name for name, method in asked.items() if method.negatives is not None] == ["wbpr"]
    assert asked["wbpr"].negatives.keywords == {"added": 0}, "in full proportion, where the protocol is corrected"


def test_wbpr_draws_as_the_protocol_says():
    published = preset_values(WBPR.Rules, "published")["wbpr_added"]
    for protocol, added in ((PUBLISHED, published), (Protocol(**PUBLISHED.model_dump(), wbpr_added=0.3), 0.3)):
        assert make("wbpr", ({},), protocol=protocol).negatives.keywords == {"added": added}


def test_ensemble_trains_members_apart_and_averages_probabilities():
    method = make("ensemble", ({}, {}))
    assert len(method.target.seeds) == 4
    batch = random_batch(4)
    positive, negative = split(probability(method.target, batch))
    np.testing.assert_allclose(found(method, batch), means(-np.log(positive), -np.log(1 - negative)), rtol=1e-9)
    users, items = batch.users[:1].expand(4, -1), batch.items[:1].expand(4, -1)
    f = probability(method.target, Batch(users, items, POSITIVES))
    mean = np.stack([(f[0] + f[2]) / 2, (f[1] + f[3]) / 2])  # runs r and r + 2 are members of one
    np.testing.assert_allclose(method.belief(users[:2], items[:2]).detach().numpy(), mean, rtol=1e-9)
    scores = torch.sigmoid(method.score_all(torch.arange(USERS)))[:, users[0], items[0]]
    np.testing.assert_allclose(scores.detach().numpy(), mean, rtol=1e-9)


def test_ensemble_of_the_sure_keeps_their_order():
    """Probabilities that round to one: scores stay finite and in order."""
    method = make_method("ensemble", [{}], TRAIN, dim=1)
    with torch.no_grad():
        method.target.user.weight.fill_(1)
        method.target.item.weight.copy_(torch.linspace(-200, 200, ITEMS).view(1, ITEMS, 1).expand(2, -1, -1))
    scores = method.score_all(torch.tensor([0]))[0, 0]
    assert torch.isfinite(scores).all()
    assert (scores.diff() > 0).all()
