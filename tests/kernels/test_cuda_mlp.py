"""An MLP on all pairs by one kernel on a CUDA device, against its layers one after another."""

from __future__ import annotations

import pytest
import torch

from accord.kernels.cuda_mlp import fits, two_layers
from accord.models.neumf import NeuMF
from helpers import make_model, random_csr, spread

needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")


@pytest.mark.parametrize(
    ("widths", "expected"),
    [([128, 64, 32], True), ([64, 32, 16], True), ([256, 128, 64], False), ([32, 16, 8], False), ([128, 64], False)],
)
def test_what_the_kernel_has_room_for(widths, expected):
    assert fits(widths) == expected


@needs_cuda
@pytest.mark.parametrize(("users", "items"), [(3, 70), (40, 64)])
def test_two_layers_of_every_pair(users, items):
    generator = torch.Generator("cuda").manual_seed(0)

    def drawn(*shape):
        return torch.randn(*shape, generator=generator, device="cuda")

    from_users, from_items, out_weight = drawn(2, users, 64), drawn(2, items, 64), drawn(2, 16, 1)
    rest = [(drawn(2, 64, 32) / 8, drawn(2, 32)), (drawn(2, 32, 16) / 8, drawn(2, 16))]
    found = two_layers(from_users, from_items, rest, out_weight)
    x = (from_users[:, :, None] + from_items[:, None]).relu().flatten(1, 2).double()
    for weight, bias in rest:
        x = (x @ weight.double() + bias.double().unsqueeze(1)).relu()
    expected = (x @ out_weight.double()).view(2, users, items)
    torch.testing.assert_close(found, expected.float(), rtol=1e-5, atol=5e-5)


@needs_cuda
def test_neumf_scores_all_items_as_it_scores_pairs():
    model = make_model("neumf", random_csr(30, 70, 0.2), (1, 2)).eval()
    spread(model)
    model = model.to("cuda")
    assert isinstance(model, NeuMF)
    users = torch.arange(30, device="cuda")
    pairs = users.repeat_interleave(70).expand(2, -1), torch.arange(70, device="cuda").repeat(30).expand(2, -1)
    with torch.no_grad():
        found, expected = model.score_all(users), model(*pairs).view(2, 30, 70)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=2e-3)  # of scores up to 1,330
