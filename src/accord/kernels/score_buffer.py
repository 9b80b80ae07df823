"""Scores of block after block of users, written into the same memory.

The system clears fresh memory before it hands it out, and takes large blocks back as soon as they are freed. For scores
that are a product of few dimensions, that can take longer than the product.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch
from torch import Tensor


class ScoreBuffer:
    """Memory for the first product of each block of users; further products of a block get fresh memory."""

    def __init__(self) -> None:
        self.memory: Tensor | None = None
        self.free = False

    @contextmanager
    def reused(self) -> Iterator[None]:
        """A block: its first `product` overwrites that of the block before."""
        self.free, token = True, _active.set(self)
        try:
            yield
        finally:
            _active.reset(token)


_active: ContextVar[ScoreBuffer | None] = ContextVar("score_buffer", default=None)


def product(a: Tensor, b: Tensor) -> Tensor:
    """a @ b, [R, n, d] and [R, d, m]."""
    buffer = _active.get()
    if buffer is None or not buffer.free or a.is_cuda or torch.is_grad_enabled():
        return a @ b
    shape = torch.Size((*a.shape[:-1], b.shape[-1]))
    if buffer.memory is None or buffer.memory.numel() < shape.numel() or buffer.memory.dtype != a.dtype:
        buffer.memory = a.new_empty(shape.numel())
    buffer.free = False
    return torch.matmul(a, b, out=buffer.memory[: shape.numel()].view(shape))
