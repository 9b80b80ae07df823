"""What torch does slowly on a CPU, compiled by numba where it is installed (`accord[fast]`): rows of tables, looked up,
multiplied and changed; the best of many scores. Each has a plain torch form beside its caller, which is its definition
and its test.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]


def usable(tensor: Tensor) -> bool:
    return not tensor.is_cuda and tensor.dtype == torch.float32 and _compiled() is not None


@cache
def _compiled() -> dict[str, Callable[..., None]] | None:
    """The kernels, None without numba. Each works on one run, and holds no lock."""
    try:
        import numba
    except ImportError:
        return None
    # sums may be taken in any order, and row numbers have no sign: both let loops use the processor's full width
    compiled = numba.njit(nogil=True, cache=True, fastmath={"reassoc", "contract"}, error_model="numpy")
    kernels: list[Callable[..., None]] = [
        *(_dot, _dot_slopes, _take, _add_rows, _distinct, _sum, _sum_slopes, _replay, _update, _best, _rank)
    ]
    return {kernel.__name__: compiled(kernel) for kernel in kernels}


def _dot(a: Floats, b: Floats, a_ids: Ints, b_ids: Ints, weight: Floats, out: Floats) -> None:
    """`weight` is empty where there is none."""
    dim = a.shape[1]
    for k in range(len(out)):
        i, j = np.uint64(a_ids[k]), np.uint64(b_ids[k])
        total = np.float32(0)
        if len(weight):
            for d in range(dim):
                total += a[i, d] * b[j, d] * weight[d]
        else:
            for d in range(dim):
                total += a[i, d] * b[j, d]
        out[k] = total


def _dot_slopes(
    a: Floats, b: Floats, a_ids: Ints, b_ids: Ints, weight: Floats,
    slope: Floats, da: Floats, db: Floats, dw: Floats,
) -> None:  # fmt: skip
    # a loop for each array that is written: the compiler cannot know that they do not overlap
    dim = a.shape[1]
    for k in range(len(slope)):
        i, j = np.uint64(a_ids[k]), np.uint64(b_ids[k])
        s = slope[k]
        if len(weight):
            for d in range(dim):
                da[i, d] += s * weight[d] * b[j, d]
            for d in range(dim):
                db[j, d] += s * weight[d] * a[i, d]
            for d in range(dim):
                dw[d] += s * a[i, d] * b[j, d]
        else:
            for d in range(dim):
                da[i, d] += s * b[j, d]
            for d in range(dim):
                db[j, d] += s * a[i, d]


def _take(table: Floats, ids: Ints, out: Floats) -> None:
    dim = table.shape[1]
    for k in range(len(ids)):
        i = np.uint64(ids[k])
        for d in range(dim):
            out[k, d] = table[i, d]


def _add_rows(table: Floats, ids: Ints, rows: Floats) -> None:
    dim = table.shape[1]
    for k in range(len(ids)):
        i = np.uint64(ids[k])
        for d in range(dim):
            table[i, d] += rows[k, d]


def _distinct(ids: Ints, known: npt.NDArray[np.int32], rows: Ints, places: Ints, number: Ints) -> None:
    """`known` is zero, one for each row of the table; `rows` ends in repetitions of its first."""
    found = 0
    for k in range(len(ids)):
        i = np.uint64(ids[k])
        if known[i] == 0:
            rows[found] = ids[k]
            found += 1
            known[i] = found
        places[k] = known[i] - 1
    number[0] = found
    for k in range(found, len(rows)):
        rows[k] = rows[0]


def _sum(a: Floats, b: Floats, a_ids: Ints, b_ids: Ints, out: Floats) -> None:
    dim = a.shape[1]
    for k in range(len(out)):
        i, j = np.uint64(a_ids[k]), np.uint64(b_ids[k])
        for d in range(dim):
            total = a[i, d] + b[j, d]
            out[k, d] = total if total > 0 else np.float32(0)


def _sum_slopes(out: Floats, slope: Floats, a_ids: Ints, b_ids: Ints, da: Floats, db: Floats) -> None:
    dim = out.shape[1]
    for k in range(len(out)):
        i, j = np.uint64(a_ids[k]), np.uint64(b_ids[k])
        for d in range(dim):
            da[i, d] += slope[k, d] if out[k, d] > 0 else np.float32(0)
        for d in range(dim):
            db[j, d] += slope[k, d] if out[k, d] > 0 else np.float32(0)


def _replay(
    weight: Floats, mean: Floats, spread: Floats, last: npt.NDArray[np.int32], rows: Ints, step: int, decay: float,
    beta1: float, beta2: float, eps: float, sizes: Floats, roots: Floats,
) -> None:  # fmt: skip
    """Take the steps that rows have missed since `last`, up to `step`, each with no gradient but the penalty's.

    `sizes[t]` is lr / (1 - beta1^t) and `roots[t]` is 1 / sqrt(1 - beta2^t).
    """
    dim = weight.shape[1]
    b1, b2, rest1, rest2 = np.float32(beta1), np.float32(beta2), np.float32(1 - beta1), np.float32(1 - beta2)
    factor, small = np.float32(decay), np.float32(eps)
    now = np.empty((3, dim), np.float32)  # the row's weight, mean and spread
    for k in range(len(rows)):
        row = np.uint64(rows[k])
        first = last[row] + 1
        last[row] = step
        for d in range(dim):
            now[0, d], now[1, d], now[2, d] = weight[row, d], mean[row, d], spread[row, d]
        if decay != 0:
            for t in range(first, step + 1):
                size, root = sizes[t], roots[t]
                for d in range(dim):
                    g = factor * now[0, d]
                    m = b1 * now[1, d] + rest1 * g
                    v = b2 * now[2, d] + rest2 * g * g
                    now[1, d], now[2, d] = m, v
                    now[0, d] -= size * m / (np.sqrt(v) * root + small)
        else:  # mean and spread only fade, by what is the same for the whole row
            largest = np.float32(0)
            for d in range(dim):
                now[2, d] = np.sqrt(now[2, d])
                largest = max(largest, abs(now[1, d]) / (now[2, d] + small))
            fade, root_fade = np.float64(1), np.float64(1)
            for t in range(first, step + 1):
                fade, root_fade = fade * beta1, root_fade * np.sqrt(beta2)
                size, root = np.float32(sizes[t] * fade), np.float32(roots[t] * root_fade)
                if size * largest < 1e-9 * root:  # moves nothing that float32 could show, nor will any behind it
                    break
                for d in range(dim):
                    now[0, d] -= size * now[1, d] / (now[2, d] * root + small)
            fade, root_fade = beta1 ** (step + 1 - first), beta2 ** (step + 1 - first)
            for d in range(dim):
                now[1, d] = np.float32(now[1, d] * fade)
                now[2, d] = np.float32(spread[row, d] * root_fade)
        for d in range(dim):
            weight[row, d], spread[row, d] = now[0, d], now[2, d]
            mean[row, d] = now[1, d] if abs(now[1, d]) > 1e-30 else np.float32(0)  # what is nearly 0 is slow


def _update(
    weight: Floats, mean: Floats, spread: Floats, last: npt.NDArray[np.int32], rows: Ints, step: int, decay: float,
    beta1: float, beta2: float, eps: float, sizes: Floats, roots: Floats, gradient: Floats,
) -> None:  # fmt: skip
    """One step of Adam on rows that are up to date; their gradient is used up."""
    dim = weight.shape[1]
    b1, b2, rest1, rest2 = np.float32(beta1), np.float32(beta2), np.float32(1 - beta1), np.float32(1 - beta2)
    factor, small, size, root = np.float32(decay), np.float32(eps), sizes[step], roots[step]
    for k in range(len(rows)):
        row = np.uint64(rows[k])
        last[row] = step
        for d in range(dim):
            g = gradient[row, d] + factor * weight[row, d]
            m = b1 * mean[row, d] + rest1 * g
            v = b2 * spread[row, d] + rest2 * g * g
            mean[row, d], spread[row, d], gradient[row, d] = m, v, 0
            weight[row, d] -= size * m / (np.sqrt(v) * root + small)


def _best(
    scores: Floats, ptr: Ints, seen: Ints, owners: Ints, priority: Ints, best: Floats, items: Ints
) -> None:  # fmt: skip
    """The best items of each row, in order: by score, then by priority. What the owner of a row has seen, and what is
    not a number, counts as -inf.

    The items are laid out in columns. The k-th of the columns' largest scores is reached by k items at least, and by
    few more: only those are sorted.
    """
    num_items, k = scores.shape[1], best.shape[1]
    nothing = np.float32(-np.inf)
    columns = max(64, -(-3 * k // 16) * 16)
    own = np.full(-(-num_items // columns) * columns, nothing, np.float32)
    largest = np.empty(columns, np.float32)
    for row in range(len(scores)):
        for item in range(num_items):
            score = scores[row, item]
            own[item] = score if score > nothing else nothing
        for at in range(ptr[owners[row]], ptr[owners[row] + 1]):
            own[np.uint64(seen[at])] = nothing
        for column in range(columns):
            largest[column] = own[column]
        for start in range(columns, len(own), columns):
            for column in range(columns):
                score = own[start + column]
                largest[column] = score if score > largest[column] else largest[column]
        for place in range(k):
            best[row, place] = nothing
        for column in range(columns):
            score, place = largest[column], k
            while place > 0 and best[row, place - 1] < score:
                place -= 1
                if place + 1 < k:
                    best[row, place + 1] = best[row, place]
            if place < k:
                best[row, place] = score
        least, found = best[row, k - 1], 0
        for start in range(0, len(own), 16):
            promising = False
            for item in range(start, start + 16):
                promising |= own[item] >= least
            if not promising:
                continue
            for item in range(start, min(start + 16, num_items)):
                score = own[item]
                if score < least:
                    continue
                place = found  # behind all others, from where it moves up
                while place > 0 and not (
                    best[row, place - 1] > score
                    or (best[row, place - 1] == score and priority[items[row, place - 1]] < priority[item])
                ):
                    place -= 1
                    if place + 1 < k:
                        best[row, place + 1], items[row, place + 1] = best[row, place], items[row, place]
                if place < k:
                    best[row, place], items[row, place] = score, item
                    found = min(found + 1, k)
                if found == k:
                    least = best[row, k - 1]


def _call(name: str, calls: list[tuple[Any, ...]]) -> None:
    """Call a kernel with each of these, on as many threads as torch uses."""
    compiled = _compiled()
    assert compiled is not None
    kernel = compiled[name]
    if len(calls) == 1 or torch.get_num_threads() == 1:
        for arguments in calls:
            kernel(*arguments)
    else:
        list(_threads(torch.get_num_threads()).map(lambda arguments: kernel(*arguments), calls))


@cache
def _threads(number: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(number, "accord")


def _rank(table: Ints, ptr: Ints, rows: Ints, keys: Ints, out: Ints) -> None:
    """How many of `table[ptr[row]:ptr[row + 1]]`, which is sorted, are no larger than the key."""
    for k in range(len(keys)):
        row = np.uint64(rows[k])
        start = ptr[row]
        low, size, key = start, ptr[row + np.uint64(1)] - start, keys[k]
        while size > 0:
            half = (size + 1) // 2
            if table[np.uint64(low + half - 1)] <= key:
                low += half
                size -= half
            else:
                size = half - 1
        out[k] = low - start


def for_each_run(name: str, runs: int, *arrays: Any) -> None:
    """Call a kernel for every run, with each run's part of the arrays."""
    _call(name, [tuple(array[run] for array in arrays) for run in range(runs)])


def for_rows(
    name: str, weight: Floats, mean: Floats, spread: Floats, last: npt.NDArray[np.int32], rows: list[Ints], step: int,
    decay: list[float], beta1: float, beta2: float, eps: float, sizes: Floats, roots: Floats, *gradient: Floats,
) -> None:  # fmt: skip
    """Call a kernel on the rows of every run, which are in no order of importance and may be shared out."""
    shares = torch.get_num_threads()
    _call(name, [
        (weight[run], mean[run], spread[run], last[run], part, step, decay[run], beta1, beta2, eps, sizes, roots,
         *(array[run] for array in gradient))
        for run, own in enumerate(rows) for part in np.array_split(own, shares if len(own) > 64 else 1) if len(part)
    ])  # fmt: skip


def _array(tensor: Tensor) -> Any:
    return tensor.detach().contiguous().numpy()


class _TakeRows(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, table: Tensor, ids: Tensor, gradient: Floats | None) -> Tensor:
        out = table.new_empty(*ids.shape, table.shape[-1])
        for_each_run("_take", len(ids), _array(table), _array(ids), out.numpy())
        ctx.save_for_backward(ids)
        ctx.shape, ctx.gradient = table.shape, gradient
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (ids,) = ctx.saved_tensors
        table = gradients[0].new_zeros(ctx.shape) if ctx.gradient is None else None
        kept = ctx.gradient if table is None else table.numpy()
        for_each_run("_add_rows", len(ids), kept, _array(ids), _array(gradients[0]))
        return table, None, None


def take_rows(table: Tensor, ids: Tensor, gradient: Floats | None = None) -> Tensor:
    """table [R, rows, dim], ids [R, B] -> [R, B, dim]. With `gradient`, that is where the table's is added."""
    rows: Tensor = _TakeRows.apply(table, ids, gradient)  # type: ignore[no-untyped-call]
    return rows


class _PairDot(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, a: Tensor, b: Tensor, weight: Tensor, a_ids: Tensor, b_ids: Tensor,
        gradients: tuple[Floats | None, Floats | None],
    ) -> Tensor:  # fmt: skip
        out = a.new_empty(a_ids.shape)
        arrays = [_array(x) for x in (a, b, a_ids, b_ids, weight)]
        for_each_run("_dot", len(a), *arrays, out.numpy())
        ctx.save_for_backward(a, b, weight, a_ids, b_ids)
        ctx.gradients = gradients
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        a, b, weight, a_ids, b_ids = ctx.saved_tensors
        kept = [*ctx.gradients, None]
        slopes = [torch.zeros_like(x) if k is None else None for x, k in zip((a, b, weight), kept, strict=True)]
        into = [k if slope is None else slope.numpy() for k, slope in zip(kept, slopes, strict=True)]
        arrays = [_array(x) for x in (a, b, a_ids, b_ids, weight, gradients[0])]
        for_each_run("_dot_slopes", len(a), *arrays, *into)
        return (*slopes, None, None, None)


def pair_dot(
    a: Tensor, b: Tensor, a_ids: Tensor, b_ids: Tensor, weight: Tensor | None,
    gradients: tuple[Floats | None, Floats | None] = (None, None),
) -> Tensor:  # fmt: skip
    """Dot products of rows of [R, rows, dim], weighted by [R, dim]: ids [R, B] -> [R, B].

    With `gradients`, those of the tables are added there.
    """
    if weight is None:
        weight = a.new_empty(len(a), 0)
    out: Tensor = _PairDot.apply(a, b, weight, a_ids, b_ids, gradients)  # type: ignore[no-untyped-call]
    return out


def rank_in_rows(table: Tensor, ptr: Tensor, rows: Tensor, keys: Tensor) -> Tensor:
    """How many of `table[ptr[row]:ptr[row + 1]]` are <= each key [R, n], of rows [n] or [R, n]; the whole is sorted."""
    if keys.is_cuda or _compiled() is None:
        return torch.searchsorted(table, keys, right=True) - ptr[rows]
    out = torch.empty_like(keys)
    sorted_table, starts = _array(table), _array(ptr)
    own = (_array(x) for x in (rows.expand_as(keys), keys, out))
    _call("_rank", [(sorted_table, starts, *run) for run in zip(*own, strict=True)])
    return out


def distinct(ids: Tensor, num_rows: int) -> tuple[Tensor, Tensor]:
    """The different ids of each run, and which of them each is: [R, B] -> [R, most of any run], [R, B]."""
    rows, places, number = torch.empty_like(ids), torch.empty_like(ids), ids.new_empty(len(ids), 1)
    known = torch.zeros(len(ids), num_rows, dtype=torch.int32)
    for_each_run("_distinct", len(ids), *(_array(x) for x in (ids, known, rows, places, number)))
    return rows[:, : int(number.max())], places


class _PairSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor, a_ids: Tensor, b_ids: Tensor) -> Tensor:
        out = a.new_empty(*a_ids.shape, a.shape[-1])
        for_each_run("_sum", len(a), *(_array(x) for x in (a, b, a_ids, b_ids, out)))
        ctx.save_for_backward(out, a_ids, b_ids)
        ctx.shapes = a.shape, b.shape
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        out, a_ids, b_ids = ctx.saved_tensors
        slopes = [out.new_zeros(shape) for shape in ctx.shapes]
        for_each_run("_sum_slopes", len(out), *(_array(x) for x in (out, gradients[0], a_ids, b_ids, *slopes)))
        return (*slopes, None, None)


def pair_sum(a: Tensor, b: Tensor, a_ids: Tensor, b_ids: Tensor) -> Tensor:
    """ReLU of sums of rows of [R, rows, dim]: ids [R, B] -> [R, B, dim]."""
    out: Tensor = _PairSum.apply(a, b, a_ids, b_ids)  # type: ignore[no-untyped-call]
    return out


def top_k(
    scores: Tensor, k: int, priority: Tensor, seen: tuple[Tensor, Tensor, Tensor] | None = None
) -> tuple[Tensor, Tensor]:
    """The few best of each row [n, I] and their scores: [n, k]. `seen`: as in `ranking.Seen`, the owners being [n]."""
    best, items = scores.new_empty(len(scores), k), torch.empty(len(scores), k, dtype=torch.long)
    if seen is None:
        nobody, nothing = torch.zeros(len(scores), dtype=torch.long), torch.zeros(0, dtype=torch.int32)
        seen = torch.zeros(2, dtype=torch.long), nothing, nobody
    shares = min(torch.get_num_threads(), -(-len(scores) // 64))
    parts = (np.array_split(_array(x), shares) for x in (scores, seen[2], best, items))
    tables = [_array(x) for x in (seen[0], seen[1], priority)]
    _call("_best", [(rows, *tables[:2], owners, tables[2], *out) for rows, owners, *out in zip(*parts, strict=True)])
    return best, items
