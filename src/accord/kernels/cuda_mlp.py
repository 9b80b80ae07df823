"""The layers of an MLP on every pair of some users and all items, as one kernel on CUDA: what is between the layers
never leaves the processor. The plain torch beside the caller defines it.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

try:
    import triton
    import triton.language as tl
except ImportError:
    triton = None

USERS, ITEMS = 16, 64  # of a block
LEAST, MOST = 16, 128  # width of a layer


if triton is not None:

    @triton.jit  # type: ignore[untyped-decorator]
    def _two_layers(  # type: ignore[no-untyped-def]
        users_at, items_at, first_at, first_bias_at, second_at, second_bias_at, out_weight_at, out_at,
        num_users, num_items,
        WIDE: tl.constexpr, HALF: tl.constexpr, QUARTER: tl.constexpr, USERS: tl.constexpr, ITEMS: tl.constexpr,
    ):  # fmt: skip
        run = tl.program_id(2).to(tl.int64)
        item = tl.program_id(0) * ITEMS + tl.arange(0, ITEMS)
        known = item < num_items
        wide, half, quarter = tl.arange(0, WIDE), tl.arange(0, HALF), tl.arange(0, QUARTER)
        of_items = tl.load(
            items_at + (run * num_items + item)[:, None] * WIDE + wide[None, :], mask=known[:, None], other=0.0
        )
        first = tl.load(first_at + run * WIDE * HALF + wide[:, None] * HALF + half[None, :])
        second = tl.load(second_at + run * HALF * QUARTER + half[:, None] * QUARTER + quarter[None, :])
        first_bias = tl.load(first_bias_at + run * HALF + half)
        second_bias = tl.load(second_bias_at + run * QUARTER + quarter)
        out_weight = tl.load(out_weight_at + run * QUARTER + quarter)
        for place in range(USERS):
            user = tl.program_id(1) * USERS + place
            if user < num_users:
                of_user = tl.load(users_at + (run * num_users + user) * WIDE + wide)
                x = tl.maximum(of_items + of_user[None, :], 0.0)
                # three products of tensor cores, as exact as one of float32
                x = tl.maximum(tl.dot(x, first, input_precision="tf32x3") + first_bias[None, :], 0.0)
                x = tl.maximum(tl.dot(x, second, input_precision="tf32x3") + second_bias[None, :], 0.0)
                score = tl.sum(x * out_weight[None, :], axis=1)
                tl.store(out_at + (run * num_users + user) * num_items + item, score, mask=known)


def fits(widths: list[int]) -> bool:
    """Whether the layers, of these widths, are such as the kernel has: three, of which two are between."""
    return len(widths) == 3 and all(LEAST <= wide <= MOST and wide & (wide - 1) == 0 for wide in widths)


def two_layers(
    from_users: Tensor, from_items: Tensor, rest: Sequence[tuple[Tensor, Tensor]], out_weight: Tensor
) -> Tensor:
    """Of every pair relu(user + item) [R, B, wide] and [R, I, wide], two layers (weight [R, in, out] and bias [R, out])
    with a relu each, and the product with `out_weight` [R, in, 1]: [R, B, I]."""
    runs, num_users, wide = from_users.shape
    num_items = from_items.shape[1]
    (first, first_bias), (second, second_bias) = rest
    tables = from_users, from_items, first, first_bias, second, second_bias, out_weight
    out = from_users.new_empty(runs, num_users, num_items)
    _two_layers[-(-num_items // ITEMS), -(-num_users // USERS), runs](
        *(table.contiguous() for table in tables), out, num_users, num_items,
        WIDE=wide, HALF=first.shape[2], QUARTER=second.shape[2], USERS=USERS, ITEMS=ITEMS, num_warps=4,
    )  # fmt: skip
    return out
