"""What runs as one kernel on CUDA. `lookups`, `agreement` and `nn.graph` define them in torch.

A step of a small model is bound by the number of its kernels, a step of a large one by the bytes that they move: both
are fewer here. Without Triton (a CPU, or torch without it) nothing of this is used."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor

try:
    import triton
    import triton.language as tl
except ImportError:
    triton = None

PAIRS = 32  # of a block
PLACES = 1024  # of a block, element by element
SHORT = 16  # entries of a list, at most, that are taken one after another, with those of other lists
FEW = 2**14  # lists: of so few none is short, as a GPU waits for the longest of them, and not for its memory
ENTRIES = 16  # of a longer one, at once
LONGEST = 128  # part of a list that is summed by itself
COLUMNS = 128  # of a row, at most, at once
NUMBERS = 1024  # of the rows of short lists, at once


def usable(tensor: Tensor) -> bool:
    """Whether the kernels can work on this; where results must repeat to the bit, sums in any order may not."""
    on_cuda = triton is not None and tensor.is_cuda and tensor.dtype == torch.float32
    return on_cuda and not torch.are_deterministic_algorithms_enabled()


if triton is not None:

    @triton.jit  # type: ignore[untyped-decorator]
    def _dot(  # type: ignore[no-untyped-def]
        a_at, b_at, a_ids_at, b_ids_at, w_at, out_at, da_at, db_at, dw_at,
        size, num_a, num_b, dim,
        WEIGHTED: tl.constexpr, BACKWARD: tl.constexpr, DIM: tl.constexpr, PAIRS: tl.constexpr,
    ):  # fmt: skip
        run = tl.program_id(1).to(tl.int64)
        place = tl.program_id(0) * PAIRS + tl.arange(0, PAIRS)
        inside = place < size
        column = tl.arange(0, DIM)
        a_rows = tl.load(a_ids_at + run * size + place, mask=inside, other=0) + run * num_a
        b_rows = tl.load(b_ids_at + run * size + place, mask=inside, other=0) + run * num_b
        mask = inside[:, None] & (column < dim)[None, :]
        a_there, b_there = a_rows[:, None] * dim + column[None, :], b_rows[:, None] * dim + column[None, :]
        a = tl.load(a_at + a_there, mask=mask, other=0.0)
        b = tl.load(b_at + b_there, mask=mask, other=0.0)
        if WEIGHTED:
            w = tl.load(w_at + run * dim + column, mask=column < dim, other=0.0)[None, :]
        if BACKWARD:
            slope = tl.load(out_at + run * size + place, mask=inside, other=0.0)[:, None]
            if WEIGHTED:
                dw = tl.sum(slope * a * b, axis=0)
                tl.atomic_add(dw_at + run * dim + column, dw, mask=column < dim, sem="relaxed")
                slope = slope * w
            tl.atomic_add(da_at + a_there, slope * b, mask=mask, sem="relaxed")
            tl.atomic_add(db_at + b_there, slope * a, mask=mask, sem="relaxed")
        else:
            product = a * b
            if WEIGHTED:
                product = product * w
            tl.store(out_at + run * size + place, tl.sum(product, axis=1), mask=inside)

    @triton.jit  # type: ignore[untyped-decorator]
    def _agreement(  # type: ignore[no-untyped-def]
        f_at, p_at, h_at, alpha_at, c_at, value_at, df_at, dp_at, dh_at, size, num_positives,
        DP: tl.constexpr, GUARD: tl.constexpr, PLACES: tl.constexpr,
    ):  # fmt: skip
        run = tl.program_id(1).to(tl.int64)
        column = tl.program_id(0) * PLACES + tl.arange(0, PLACES)
        inside = column < size
        at = run * size + column
        f = tl.sigmoid(tl.load(f_at + at, mask=inside, other=0.0))
        p = tl.sigmoid(tl.load(p_at + at, mask=inside, other=0.0))
        h = tl.sigmoid(tl.load(h_at + at, mask=inside, other=0.0))
        alpha, c = tl.load(alpha_at + run), tl.load(c_at + run)
        positive = column < num_positives

        # K and its slopes in f and p
        weight = alpha * p - (1 - alpha) * f
        rest = 2 * alpha - 1 - weight
        real = tl.log(p + GUARD) - tl.log(f + GUARD)
        noise = tl.log(1 - p + GUARD) - tl.log(1 - f + GUARD)
        value = weight * real + rest * noise
        df = (1 - alpha) * (noise - real) - weight / (f + GUARD) + rest / (1 - f + GUARD)
        dp = alpha * (real - noise) + weight / (p + GUARD) - rest / (1 - p + GUARD)

        # less the likelihood of what was observed, of a pair that is noise (DP) or real (DN)
        observed = tl.where(positive, h, 1 - h) + GUARD
        likelihood = tl.log(observed)
        slope = tl.where(positive, 1.0, -1.0) / observed
        if DP:
            penalty = tl.where(positive, 0.0, c)
            value -= likelihood * (1 - f) - penalty * f
            df += likelihood + penalty
            dh = -slope * (1 - f)
        else:
            penalty = tl.where(positive, c, 0.0)
            value -= likelihood * f - penalty * (1 - f)
            df -= likelihood + penalty
            dh = -slope * f

        tl.store(value_at + at, value, mask=inside)
        tl.store(df_at + at, df * f * (1 - f), mask=inside)
        tl.store(dp_at + at, dp * p * (1 - p), mask=inside)
        tl.store(dh_at + at, dh * h * (1 - h), mask=inside)

    @triton.jit  # type: ignore[untyped-decorator]
    def _adam(  # type: ignore[no-untyped-def]
        w_at, g_at, m_at, v_at, step_at, decay_at, size, lr, eps,
        BETA1: tl.constexpr, BETA2: tl.constexpr, LOG1: tl.constexpr, LOG2: tl.constexpr,
        DECAYED: tl.constexpr, DECOUPLED: tl.constexpr, PLACES: tl.constexpr,
    ):  # fmt: skip
        run = tl.program_id(1).to(tl.int64)
        place = tl.program_id(0).to(tl.int64) * PLACES + tl.arange(0, PLACES)
        inside = place < size
        at = run * size + place
        w, g = tl.load(w_at + at, mask=inside), tl.load(g_at + at, mask=inside)
        v = tl.load(v_at + at, mask=inside)
        if DECAYED:
            factor = tl.load(decay_at + run)
            if not DECOUPLED:
                g += factor * w
        step = tl.load(step_at).to(tl.float64)
        v = BETA2 * v + (1 - BETA2) * g * g
        spread = tl.sqrt(v) / tl.sqrt((1 - tl.exp(step * LOG2)).to(tl.float32))
        if DECOUPLED:
            spread = tl.maximum(spread, eps)
            if DECAYED:
                w *= tl.exp(-lr * factor / spread)
        else:
            spread += eps
            g = BETA1 * tl.load(m_at + at, mask=inside) + (1 - BETA1) * g
            tl.store(m_at + at, g, mask=inside)
            lr = lr / (1 - tl.exp(step * LOG1)).to(tl.float32)
        tl.store(w_at + at, w - lr * g / spread, mask=inside)
        tl.store(v_at + at, v, mask=inside)

    @triton.jit  # type: ignore[untyped-decorator]
    def _fade(  # type: ignore[no-untyped-def]
        w_at, v_at, last_at, ids_at, step_at, decay_at, base_at, sums_at, roots_at, size, num_rows, dim, eps,
        EVERY: tl.constexpr, DIM: tl.constexpr,
    ):  # fmt: skip
        run, place = tl.program_id(1).to(tl.int64), tl.program_id(0).to(tl.int64)
        row = run * num_rows + (place if EVERY else tl.load(ids_at + run * size + place))
        step = tl.load(step_at).to(tl.int32)
        last = tl.atomic_xchg(last_at + row, step)
        if last < step:  # of those that look up the same row, the first
            base = tl.load(base_at).to(tl.int32)
            root, decay = tl.load(roots_at + last - base), tl.load(decay_at + run)
            missed = tl.load(sums_at + step - base) - tl.load(sums_at + last - base)
            shrunk = tl.load(roots_at + step - base) / root
            column = tl.arange(0, DIM)
            at, inside = row * dim + column, column < dim
            w, v = tl.load(w_at + at, mask=inside), tl.load(v_at + at, mask=inside)
            rate = (decay * missed * root).to(tl.float32) / tl.maximum(tl.sqrt(v), 1e-30)
            w *= tl.exp(-tl.minimum(rate, decay * (step - last) / eps))
            v *= (shrunk * shrunk).to(tl.float32)
            tl.store(w_at + at, w, mask=inside)
            tl.store(v_at + at, tl.where(v > 1e-30, v, 0.0), mask=inside)

    @triton.jit  # type: ignore[untyped-decorator]
    def _move(  # type: ignore[no-untyped-def]
        w_at, v_at, last_at, ids_at, step_at, decay_at, g_at, size, num_rows, dim, lr, eps,
        BETA: tl.constexpr, LOG: tl.constexpr, DIM: tl.constexpr,
    ):  # fmt: skip
        run, place = tl.program_id(1).to(tl.int64), tl.program_id(0).to(tl.int64)
        row = run * num_rows + tl.load(ids_at + run * size + place)
        step = tl.load(step_at)
        if tl.atomic_xchg(last_at + row, step.to(tl.int32)) < step.to(tl.int32):
            column = tl.arange(0, DIM)
            at, inside = row * dim + column, column < dim
            w, g = tl.load(w_at + at, mask=inside), tl.load(g_at + at, mask=inside)
            v = BETA * tl.load(v_at + at, mask=inside) + (1 - BETA) * g * g
            spread = tl.sqrt(v) / tl.sqrt((1 - tl.exp(step.to(tl.float64) * LOG)).to(tl.float32))
            spread = tl.maximum(spread, eps)
            w = w * tl.exp(-tl.load(decay_at + run) / spread) - lr * g / spread
            tl.store(w_at + at, w, mask=inside)
            tl.store(v_at + at, v, mask=inside)
            tl.store(g_at + at, tl.zeros_like(g), mask=inside)

    @triton.jit  # type: ignore[untyped-decorator]
    def _over_lists(  # type: ignore[no-untyped-def]
        table_at, columns_at, factors_at, lists_at, more_at, out_at, num_lists, num_rows, dim, divisor,
        MORE: tl.constexpr, DIM: tl.constexpr, LISTS: tl.constexpr,
    ):  # fmt: skip
        """Short lists, many at once, an entry of each after another."""
        run = tl.program_id(1).to(tl.int64) * num_rows
        lists = tl.program_id(0) * LISTS + tl.arange(0, LISTS)
        exists = lists < num_lists
        list_at = lists_at + 3 * lists
        here = run + tl.load(list_at, mask=exists, other=0)
        start = tl.load(list_at + 1, mask=exists, other=0)
        stop = tl.load(list_at + 2, mask=exists, other=0)
        column = tl.program_id(2) * DIM + tl.arange(0, DIM)
        inside = (column < dim)[None, :]
        place = here[:, None] * dim + column[None, :]
        total = tl.zeros([LISTS, DIM], tl.float32)
        for number in range(0, tl.max(stop - start, axis=0)):
            entry = start + number
            left = entry < stop
            factor = tl.load(factors_at + entry, mask=left, other=0.0)[:, None]
            row = run + tl.load(columns_at + entry, mask=left, other=0)
            there = table_at + row[:, None] * dim + column[None, :]
            total += factor * tl.load(there, mask=left[:, None] & inside, other=0.0)
        mask = exists[:, None] & inside
        if MORE:
            total += tl.load(more_at + place, mask=mask, other=0.0)
        tl.store(out_at + place, total / divisor, mask=mask)

    @triton.jit  # type: ignore[untyped-decorator]
    def _over_parts(  # type: ignore[no-untyped-def]
        table_at, columns_at, factors_at, part_at, out_at, num_rows, dim, divisor,
        DIM: tl.constexpr, ENTRIES: tl.constexpr,
    ):  # fmt: skip
        """A part of a long list, many entries at once."""
        run = tl.program_id(1).to(tl.int64) * num_rows
        part = part_at + 3 * tl.program_id(0)
        here, start, stop = run + tl.load(part), tl.load(part + 1), tl.load(part + 2)
        column = tl.program_id(2) * DIM + tl.arange(0, DIM)
        inside = column < dim
        total = tl.zeros([DIM], tl.float32)
        for first in range(start, stop, ENTRIES):
            entry = first + tl.arange(0, ENTRIES)
            inside_list = entry < stop
            factor = tl.load(factors_at + entry, mask=inside_list, other=0.0)[:, None]
            row = run + tl.load(columns_at + entry, mask=inside_list, other=0)
            there = table_at + row[:, None] * dim + column[None, :]
            total += tl.sum(factor * tl.load(there, mask=inside_list[:, None] & inside[None, :], other=0.0), axis=0)
        tl.atomic_add(out_at + here * dim + column, total / divisor, mask=inside, sem="relaxed")


def _grid(runs: int, size: int, block: int) -> tuple[int, int]:
    return -(-size // block), runs


def padded(dim: int) -> int:
    return int(triton.next_power_of_2(dim))


def dot(a: Tensor, b: Tensor, a_ids: Tensor, b_ids: Tensor, weight: Tensor | None) -> Tensor:
    """`lookups.reference_dot`."""
    dots = a.new_empty(a_ids.shape)
    _launch_dot(a, b, a_ids, b_ids, weight, dots, (dots, dots, dots), backward=False)
    return dots


def add_dot_slopes(
    a: Tensor, b: Tensor, a_ids: Tensor, b_ids: Tensor, weight: Tensor | None, slopes: Tensor,
    into_a: Tensor, into_b: Tensor, into_weight: Tensor | None,
) -> None:  # fmt: skip
    into = into_a, into_b, slopes if into_weight is None else into_weight
    _launch_dot(a, b, a_ids, b_ids, weight, slopes, into, backward=True)


def _launch_dot(
    a: Tensor, b: Tensor, a_ids: Tensor, b_ids: Tensor, weight: Tensor | None, dots: Tensor,
    into: tuple[Tensor, Tensor, Tensor], backward: bool,
) -> None:  # fmt: skip
    runs, size = a_ids.shape
    dim = a.shape[-1]
    _dot[_grid(runs, size, PAIRS)](
        a, b, a_ids, b_ids, a if weight is None else weight, dots, *into, size, a.shape[1], b.shape[1], dim,
        WEIGHTED=weight is not None, BACKWARD=backward, DIM=padded(dim), PAIRS=PAIRS,
    )  # fmt: skip


class _AgreementTerms(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, f: Tensor, p: Tensor, h: Tensor, alpha: Tensor, c: Tensor, num_positives: int, dp: bool, guard: float
    ) -> Tensor:
        runs, size = f.shape
        value, slopes = torch.empty_like(f), f.new_empty(3, runs, size)
        _agreement[_grid(runs, size, PLACES)](
            f, p, h, alpha, c, value, *slopes, size, num_positives, DP=dp, GUARD=guard, PLACES=PLACES
        )
        ctx.save_for_backward(slopes)
        return value

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (slopes,) = ctx.saved_tensors
        return (*(gradients[0] * slopes), *[None] * 5)


def agreement_terms(
    f: Tensor, p: Tensor, h: Tensor, alpha: Tensor, c: Tensor, num_positives: int, dp: bool, guard: float
) -> Tensor:
    """K − L of each pair from logits [R, P + N] and options [R, 1]: `agreement.reference_terms`."""
    f, p, h = f.contiguous(), p.contiguous(), h.contiguous()
    terms: Tensor = _AgreementTerms.apply(f, p, h, alpha, c, num_positives, dp, guard)  # type: ignore[no-untyped-call]
    return terms


def adam(
    weight: Tensor, gradient: Tensor, mean: Tensor | None, spread: Tensor, step: Tensor, decay: Tensor | None,
    lr: float, betas: tuple[float, float], eps: float,
) -> None:  # fmt: skip
    """One step of Adam on [R, ...] in place; `decay` [R] times the weight is added to the gradient first. Without a
    `mean`, it is the decoupled form."""
    runs, size, decoupled = len(weight), weight[0].numel(), mean is None
    _adam[_grid(runs, size, PLACES)](
        weight, gradient, spread if mean is None else mean, spread, step, step if decay is None else decay, size, lr,
        eps, BETA1=betas[0], BETA2=betas[1], LOG1=0.0 if decoupled else math.log(betas[0]), LOG2=math.log(betas[1]),
        DECAYED=decay is not None, DECOUPLED=decoupled, PLACES=PLACES,
    )  # fmt: skip


def fade(
    weight: Tensor, spread: Tensor, last: Tensor, ids: Tensor | None, step: Tensor, decay: Tensor, base: Tensor,
    sums: Tensor, roots: Tensor, eps: float,
) -> None:  # fmt: skip
    """Bring rows [R, B] of a table, or all, up to date in place: `cpu_loops.fade`, with the number of the step
    on the device. `last` [R, rows]: the step up to which each row is."""
    runs, num_rows, dim = weight.shape
    size = num_rows if ids is None else ids.shape[1]
    _fade[size, runs](
        weight, spread, last, last if ids is None else ids, step, decay, base, sums, roots, size, num_rows, dim, eps,
        EVERY=ids is None, DIM=padded(dim), num_warps=1,
    )  # fmt: skip


def move(
    weight: Tensor, spread: Tensor, last: Tensor, ids: Tensor, step: Tensor, decay: Tensor, gradient: Tensor,
    lr: float, beta: float, eps: float,
) -> None:  # fmt: skip
    """A step of the decoupled form on rows [R, B] that are up to date, each once; their gradient is used up."""
    runs, num_rows, dim = weight.shape
    size = ids.shape[1]
    _move[size, runs](
        weight, spread, last, ids, step, decay, gradient, size, num_rows, dim, lr, eps,
        BETA=beta, LOG=math.log(beta), DIM=padded(dim), num_warps=1,
    )  # fmt: skip


class Lists(NamedTuple):
    """The lists of a CSR as two kernels take them: [n, 3] are the list, where it starts and where it ends."""

    short: Tensor  # whole lists, the shorter first, so that those at once are about as long; empty ones are among them
    parts: Tensor  # of long lists
    long: Tensor  # the long lists themselves


def lists_of(ptr: Tensor) -> Lists:
    """The lists of which each is cut into parts that are short enough to be summed by themselves."""
    counts = ptr.diff()
    most = SHORT if len(counts) > FEW else -1
    short = torch.stack([torch.arange(len(counts), device=ptr.device), ptr[:-1], ptr[1:]], 1)
    short = short[counts.argsort(stable=True)][: int((counts <= most).sum())]
    long = (counts > most).nonzero().view(-1)
    parts = (counts[long] + LONGEST - 1) // LONGEST
    lists = torch.repeat_interleave(long, parts)
    number = torch.arange(len(lists), device=ptr.device) - torch.repeat_interleave(parts.cumsum(0) - parts, parts)
    starts = ptr[lists] + LONGEST * number
    return Lists(short, torch.stack([lists, starts, torch.minimum(starts + LONGEST, ptr[lists + 1])], 1), long)


def neighbour_sums(
    table: Tensor, columns: Tensor, factors: Tensor, lists: Lists, more: Tensor | None, divisor: float
) -> Tensor:
    """Rows of a table [R, rows, dim], times `factors` [n], summed over as many lists of `columns` [n], as `lists_of`
    gives them; with `more` [R, rows, dim], if given, added to them, and divided: [R, rows, dim]. It has no gradient."""
    table, more = table.contiguous(), None if more is None else more.contiguous()
    runs, num_rows, dim = table.shape
    wide = min(COLUMNS, padded(dim))
    if not len(lists.short):
        out = torch.zeros_like(table) if more is None else more / divisor
    else:
        out = torch.empty_like(table)
        out[:, lists.long] = 0 if more is None else more[:, lists.long] / divisor
        at_once = NUMBERS // wide
        _over_lists[-(-len(lists.short) // at_once), runs, -(-dim // wide)](
            table, columns, factors, lists.short, table if more is None else more, out, len(lists.short), num_rows, dim,
            float(divisor), MORE=more is not None, DIM=wide, LISTS=at_once, num_warps=4,
        )  # fmt: skip
    if len(lists.parts):
        _over_parts[len(lists.parts), runs, -(-dim // wide)](
            table, columns, factors, lists.parts, out, num_rows, dim, float(divisor),
            DIM=wide, ENTRIES=ENTRIES, num_warps=1,
        )  # fmt: skip
    return out
