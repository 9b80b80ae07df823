from __future__ import annotations

import pytest
import torch

from accord import Recommender
from accord.serve.similar import similarity_of
from serving import run  # noqa: F401


@pytest.fixture(scope="module")
def rec(run):  # noqa: F811
    return Recommender.load(run)


def test_similarity_by_vectors_is_their_cosine(rec):
    model = rec.lists.method.target
    alike = similarity_of(model, rec.train)
    vectors = (model.item.weight[0] * model.out.weight[0].abs().sqrt().T).detach()
    expected = torch.nn.functional.cosine_similarity(vectors[None, :4], vectors[5:7, None], dim=-1)
    torch.testing.assert_close(alike.between(torch.tensor([5, 6]), torch.arange(4)), expected)
    torch.testing.assert_close(alike.to_all(5)[:4], expected[0])
