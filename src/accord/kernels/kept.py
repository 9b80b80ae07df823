"""Products as large as a block of scores, each written over the one of the block before.

The system clears fresh memory before it hands it out, and what is that large goes back to it as soon as it is freed: of
a product of few dimensions that can take as long as the product itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch
from torch import Tensor


class Kept:
    """Memory for the first product of each block; those after it in a block have their own."""

    def __init__(self) -> None:
        self.memory: Tensor | None = None
        self.free = False

    def product(self, a: Tensor, b: Tensor) -> Tensor:
        self.free = False
        shape = (*a.shape[:-1], b.shape[-1])
        size = torch.Size(shape).numel()
        if self.memory is None or self.memory.numel() < size or self.memory.dtype != a.dtype:
            self.memory = a.new_empty(size)
        return torch.matmul(a, b, out=self.memory[:size].view(shape))


_now: ContextVar[Kept | None] = ContextVar("kept", default=None)


@contextmanager
def writing_over(kept: Kept) -> Iterator[None]:
    """A block: its first `product` goes where that of the block before was, which nobody needs any more."""
    kept.free, before = True, _now.set(kept)
    try:
        yield
    finally:
        _now.reset(before)


def product(a: Tensor, b: Tensor) -> Tensor:
    """a @ b, [R, n, d] and [R, d, m]."""
    kept = _now.get()
    return a @ b if kept is None or not kept.free or a.is_cuda or torch.is_grad_enabled() else kept.product(a, b)
