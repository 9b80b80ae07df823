"""Products that are written over those of the block before."""

from __future__ import annotations

import torch

from accord.kernels.score_buffer import ScoreBuffer, product


def tables(num_users: int, num_items: int = 40) -> tuple[torch.Tensor, torch.Tensor]:
    draw = torch.Generator().manual_seed(num_users)
    return torch.randn(2, num_users, 5, generator=draw), torch.randn(2, num_items, 5, generator=draw).mT


def test_the_first_product_of_each_block_lies_where_that_of_the_block_before_was():
    buffer, addresses = ScoreBuffer(), []
    with torch.inference_mode():
        for num_users in (7, 7, 3):
            with buffer.reused():
                one, other = product(*tables(num_users)), product(*tables(num_users + 1))
            for scores, users in ((one, num_users), (other, num_users + 1)):
                a, b = tables(users)
                assert torch.equal(scores, a @ b), "the same bits"
            addresses.append((one.data_ptr(), other.data_ptr()))
    assert len({first for first, _ in addresses}) == 1
    assert all(first != second for first, second in addresses), "a second one of a block does not overwrite the first"


def test_a_larger_block_and_another_type_have_memory_of_their_own():
    buffer = ScoreBuffer()
    with torch.inference_mode():
        for num_users, kind in ((3, torch.float32), (9, torch.float32), (2, torch.float64)):
            a, b = (x.to(kind) for x in tables(num_users))
            with buffer.reused():
                assert torch.equal(product(a, b), a @ b)


def test_outside_of_a_block_nothing_is_overwritten():
    buffer = ScoreBuffer()
    with torch.inference_mode(), buffer.reused():
        inside = product(*tables(4))
    with torch.inference_mode():
        assert product(*tables(4)).data_ptr() != inside.data_ptr()
    a, b = tables(4)
    a.requires_grad_()
    with buffer.reused():  # where gradients are taken, results must stay for them
        product(a, b).sum().backward()
    assert a.grad is not None
