"""What torch does slowly on a CPU, compiled by numba where it is installed (`accord[fast]`): rows of tables, looked up,
multiplied and changed; the best of many scores. The loops themselves are in `cpu_loops`, `batch_loops`,
`optimiser_loops` and `neighbour_loops`, which calls `row_sums`. The plain torch in `lookups` and `top_k`, or beside the
caller, defines each and is its test.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from itertools import count, pairwise, product
from typing import Any

import numpy as np
import torch
from torch import Tensor

from accord.kernels import batch_loops, cpu_loops, neighbour_loops, optimiser_loops
from accord.kernels.cpu_loops import Floats as Floats
from accord.kernels.cpu_loops import Ints as Ints
from accord.kernels.row_sums import compile_row_sums

Into = tuple[Floats, Ints]  # where gradients belong: an array [R, n, dim], and the place in it of each id [R, B]
PAIRS_WITHIN_CACHE = 1_024  # scored at once by the layers of an MLP


def usable(tensor: Tensor) -> bool:
    return not tensor.is_cuda and tensor.dtype == torch.float32 and _compiled() is not None


@cache
def _compiled() -> dict[str, Callable[..., object]] | None:
    """The kernels, None without numba. Each works on one run, and holds no lock."""
    try:
        import numba
    except ImportError:
        return None
    compile_row_sums()
    # sums may be taken in any order, and row numbers have no sign: both let loops use the processor's full width
    compiled = partial(numba.njit, nogil=True, fastmath={"reassoc", "contract"}, error_model="numpy")
    kernels = (*cpu_loops.ALL, *batch_loops.ALL, *optimiser_loops.ALL, *neighbour_loops.ALL)
    try:  # kept beside the source, or where that cannot be written in a folder of the user's, or in $NUMBA_CACHE_DIR
        return {kernel.__name__: compiled(cache=True)(kernel) for kernel in kernels}
    except RuntimeError:  # nothing can be written: compiled by each process anew
        return {kernel.__name__: compiled()(kernel) for kernel in kernels}


def compiled() -> bool:
    """Whether there are kernels."""
    return _compiled() is not None


def call(name: str, calls: list[tuple[Any, ...]], threads: int | None = None) -> None:
    """Call a kernel with each of these, on as many threads as torch uses, or on so many."""
    compiled = _compiled()
    assert compiled is not None
    in_threads(compiled[name], calls, threads)


def share_out(name: str, calls: list[tuple[Any, ...]], done: Callable[[float], None] | None = None) -> None:
    """The same, `done` being told after each what share of them is finished."""
    compiled = _compiled()
    assert compiled is not None
    kernel, finished = compiled[name], count(1)

    def work(*arguments: Any) -> None:
        kernel(*arguments)
        if done is not None:
            done(next(finished) / len(calls))

    in_threads(work, calls)


def in_threads(work: Callable[..., object], calls: list[tuple[Any, ...]], threads: int | None = None) -> None:
    """The same of anything that holds no lock for long; on so many threads, where torch is to have one in each."""
    number = threads or torch.get_num_threads()
    if len(calls) == 1 or number == 1:
        for arguments in calls:
            work(*arguments)
    else:
        list(_threads(number).map(lambda arguments: work(*arguments), calls))


@cache
def _threads(number: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(number, "accord")


def for_each_run(name: str, runs: int, *arrays: Any) -> None:
    """Call a kernel for every run, with each run's part of the arrays."""
    call(name, [tuple(array[run] for array in arrays) for run in range(runs)])


def for_pairs_of_each_run(name: str, runs: int, a: Any, b: Any, ids: Any, *arrays: Any) -> None:
    """The same of a kernel that looks up rows of two tables by ids. The tables of many runs do not stay in the cache:
    those of each are read through first, where there are more lookups than rows."""
    compiled = _compiled()
    assert compiled is not None
    read, kernel = compiled["read_through"], compiled[name]

    def work(*arguments: Any) -> None:
        for table in arguments[:2]:
            read(table)
        kernel(*arguments)

    cold = runs > 1 and a.shape[1] + b.shape[1] <= ids.shape[1]
    in_threads(work if cold else kernel, [tuple(x[run] for x in (a, b, ids, *arrays)) for run in range(runs)])


def shares(rows: list[Ints]) -> Iterator[tuple[int, slice]]:
    """The rows of every run in parts, as many as torch uses threads: the run, and where in its rows a part is."""
    for run, own in enumerate(rows):
        size = max(64, -(-len(own) // torch.get_num_threads()))
        for start in range(0, len(own), size):
            yield run, slice(start, min(start + size, len(own)))


def _array(tensor: Tensor) -> Any:
    return (tensor.detach() if tensor.requires_grad else tensor).contiguous().numpy()


class _TakeRows(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, table: Tensor, ids: Tensor, into: Into | None) -> Tensor:
        out = table.new_empty(*ids.shape, table.shape[-1])
        ctx.shape, ctx.into, ctx.ids = table.shape, into, _array(ids)
        for_each_run("take", len(ids), _array(table), ctx.ids, out.numpy())
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        table = gradients[0].new_zeros(ctx.shape) if ctx.into is None else None
        kept, places = (table.numpy(), ctx.ids) if table is not None else ctx.into
        for_each_run("add_rows", len(places), kept, places, _array(gradients[0]))
        return table, None, None


def take_rows(table: Tensor, ids: Tensor, into: Into | None = None) -> Tensor:
    """table [R, rows, dim], ids [R, B] -> [R, B, dim]. With `into`, that is where the table's gradient is added."""
    rows: Tensor = _TakeRows.apply(table, ids, into)  # type: ignore[no-untyped-call]
    return rows


class _PairDot(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, a: Tensor, b: Tensor | None, weight: Tensor, a_ids: Tensor, b_ids: Tensor,
        into: tuple[Into | None, Into | None],
    ) -> Tensor:  # fmt: skip
        out = a.new_empty(a_ids.shape)
        ctx.arrays = [_array(x) for x in (a, a if b is None else b, a_ids, b_ids, weight)]
        for_pairs_of_each_run("dot", len(a), *ctx.arrays, out.numpy())
        ctx.save_for_backward(a, b, weight)
        ctx.into = into
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        a, b, weight = ctx.saved_tensors
        of_a = torch.zeros_like(a) if ctx.into[0] is None else None
        of_b = of_a if b is None else torch.zeros_like(b) if ctx.into[1] is None else None
        into: list[Any] = []
        for slope, ids, kept in zip((of_a, of_b), ctx.arrays[2:4], ctx.into, strict=True):
            into += kept if slope is None else (slope.numpy(), ids)
        own = torch.zeros_like(weight)
        for_pairs_of_each_run("dot_slopes", len(a), *ctx.arrays, _array(gradients[0]), *into, own.numpy())
        return of_a, None if b is None else of_b, own, None, None, None


def pair_dot(
    a: Tensor, b: Tensor, a_ids: Tensor, b_ids: Tensor, weight: Tensor | None,
    into: tuple[Into | None, Into | None] = (None, None),
) -> Tensor:  # fmt: skip
    """Dot products of rows of [R, rows, dim], weighted by [R, dim]: ids [R, B] -> [R, B].

    With `into`, that is where the gradients of the tables are added.
    """
    if weight is None:
        weight = a.new_empty(len(a), 0)
    other = None if b is a else b
    out: Tensor = _PairDot.apply(a, other, weight, a_ids, b_ids, into)  # type: ignore[no-untyped-call]
    return out


class _HistorySums(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, table: Tensor, log: Sequence[Tensor], users: Sequence[Tensor], kept: Sequence[Tensor]) -> Any:
        out = table.new_zeros(sum(map(len, users)), table.shape[-1])
        ctx.shape, ctx.given = table.shape, (log, users, kept)
        _over_histories(table, log, users, kept, out, backward=False)
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        table, (log, users, kept) = gradients[0].new_zeros(ctx.shape), ctx.given
        _over_histories(table, log, users, kept, gradients[0], backward=True)
        return table, None, None, None


def _over_histories(
    table: Tensor, log: Sequence[Tensor], users: Sequence[Tensor], kept: Sequence[Tensor], sums: Tensor, backward: bool
) -> None:
    arrays = [_array(x) for x in log]
    own = zip(table, users, kept, torch.split(sums, [len(part) for part in users]), strict=True)
    call("sum_histories", [(_array(rows), *arrays, *map(_array, rest), backward) for rows, *rest in own])


def history_sums(
    table: Tensor, ptr: Tensor, items: Tensor, factors: Tensor, users: Sequence[Tensor], kept: Sequence[Tensor]
) -> Tensor:
    """Rows of [R, rows, dim] times factors [n], summed over the histories of each run's users, which are
    items[ptr[u]:ptr[u + 1]]: [users of all runs, dim]. `kept` of each run is one more factor for each entry of its
    users, end to end, or empty.
    """
    sums: Tensor = _HistorySums.apply(table, (ptr, items, factors), users, kept)  # type: ignore[no-untyped-call]
    return sums


def neighbour_sums(
    table: Tensor, starts: Tensor, columns: Tensor, factors: Tensor, more: Tensor | None, divisor: float
) -> Tensor:
    """Rows of [R, rows, dim] times factors [n], summed over each list, columns[starts[k]:starts[k + 1]], with `more`
    added, and divided: [R, lists, dim]."""
    found = table.new_empty(len(table), len(starts) - 1, table.shape[-1])
    ends, *log = (_array(x) for x in (starts, columns, factors))
    number = torch.get_num_threads()
    inner = np.searchsorted(ends, np.arange(1, number) * len(columns) // number)  # as many entries for each thread
    cuts = [0, *inner.tolist(), found.shape[1]]
    tables, added, sums = _array(table), _array(found[:, :0] if more is None else more), _array(found)
    call(
        "sum_neighbours",
        [(tables[run], ends[start : end + 1], *log, added[run, start:end], divisor, sums[run, start:end])
         for run in range(len(table)) for start, end in pairwise(cuts)],
    )  # fmt: skip
    return found


def unseen(
    rows: Tensor, numbers: Tensor, free: Tensor, ptr: Tensor, cuts: Tensor, skipped: Tensor, total: int
) -> Tensor:
    """`Negatives.at` without popularity, of rows [n] or [R, n] and numbers [R, n]: [R, n]."""
    out = torch.empty_like(numbers)
    log = [_array(x) for x in (free, ptr, cuts, skipped)]
    size = max(4_096, -(-numbers.shape[1] // torch.get_num_threads()))
    parts = (torch.split(x, size, 1) for x in (rows.expand_as(numbers), numbers, out))
    call(
        "unseen",
        [(_array(own), _array(drawn), *log, total, found.numpy())
         for part in zip(*parts, strict=True) for own, drawn, found in zip(*part, strict=True)],
    )  # fmt: skip
    return out


def end_to_end(users: Tensor, ptr: Tensor, length: int) -> tuple[Tensor, Tensor]:
    """The owner and the place in a CSR of each entry of users [R, B], the last repeated up to a length: [R, length]."""
    owners, places = (torch.empty(len(users), length, dtype=torch.long) for _ in range(2))
    starts = _array(ptr)
    call("end_to_end", [(starts, *map(_array, own)) for own in zip(users, owners, places, strict=True)])
    return owners, places


def distinct(ids: Tensor, num_rows: int) -> tuple[Tensor, Tensor]:
    """The different ids of each run, and which of them each is: [R, B] -> [R, most of any run], [R, B]."""
    rows, places, number = torch.empty_like(ids), torch.empty_like(ids), ids.new_empty(len(ids), 1)
    known = torch.zeros(len(ids), num_rows, dtype=torch.int32)
    for_each_run("distinct", len(ids), *(_array(x) for x in (ids, known, rows, places, number)))
    return rows[:, : int(number.max())], places


def distinct_ascending(ids: Tensor, num_rows: int) -> tuple[list[Tensor], Tensor]:
    """The same in ascending order, each run's own: [R, B] -> R times [n], [R, B]."""
    rows = torch.empty(len(ids), min(ids.shape[1], num_rows), dtype=torch.long)
    places, number = torch.empty_like(ids), ids.new_empty(len(ids), 1)
    known = torch.zeros(len(ids), num_rows, dtype=torch.int32)
    for_each_run("distinct_ascending", len(ids), *(_array(x) for x in (ids, known, rows, places, number)))
    return [own[:size] for own, size in zip(rows, number.view(-1).tolist(), strict=True)], places


class _PairSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor, a_ids: Tensor, b_ids: Tensor) -> Tensor:
        out = a.new_empty(*a_ids.shape, a.shape[-1])
        ctx.ids, ctx.shapes = (_array(a_ids), _array(b_ids)), (a.shape, b.shape)
        for_each_run("add", len(a), _array(a), _array(b), *ctx.ids, out.numpy())
        ctx.save_for_backward(out)
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (out,) = ctx.saved_tensors
        slopes = [out.new_zeros(shape) for shape in ctx.shapes]
        for_each_run(
            "add_slopes", len(out), _array(out), _array(gradients[0]), *ctx.ids, *(slope.numpy() for slope in slopes)
        )
        return (*slopes, None, None)


def pair_sum(a: Tensor, b: Tensor, a_ids: Tensor, b_ids: Tensor) -> Tensor:
    """ReLU of sums of rows of [R, rows, dim]: ids [R, B] -> [R, B, dim]."""
    out: Tensor = _PairSum.apply(a, b, a_ids, b_ids)  # type: ignore[no-untyped-call]
    return out


def mlp_of_all(
    from_users: Tensor, from_items: Tensor, layers: Sequence[tuple[Tensor, Tensor]], last: Tensor
) -> Tensor:  # fmt: skip
    """ReLU of each row of [R, B, dim] plus each of [R, I, dim], through layers with a ReLU behind each, times `last`
    [R, dim, 1]: [R, B, I].

    So few pairs at once that all layers work on what is in the cache, in memory that is used again. These parts are
    shared out among the threads, within which torch uses one.
    """
    compiled = _compiled()
    assert compiled is not None
    first, others = compiled["relu_of_sums"], compiled["relu_of_sum"]
    (runs, num_users, wide), num_items = from_users.shape, from_items.shape[1]
    own, items, biases = _array(from_users), _array(from_items), [_array(bias) for _, bias in layers]
    widths = [wide, *(bias.shape[-1] for bias in biases)]
    found = from_users.new_empty(runs, num_users, num_items)

    @torch.inference_mode()
    def score(run: int, start: int, users: Ints) -> None:
        torch.set_num_threads(1)
        rows = items[run, start : start + PAIRS_WITHIN_CACHE]
        xs = [torch.empty(len(rows), width) for width in widths]
        arrays = [x.numpy() for x in xs]
        steps = [
            (xs[k], weight[run], xs[k + 1], arrays[k + 1], bias[run])
            for k, ((weight, _), bias) in enumerate(zip(layers, biases, strict=True))
        ]
        to_score, out = last[run, :, 0], found[run, :, start : start + len(rows)]
        for user in users:
            first(own[run, user], rows, arrays[0])
            for x, weight, y, array, bias in steps:
                torch.mm(x, weight, out=y)
                others(array, bias)
            torch.mv(xs[-1], to_score, out=out[user])

    threads = torch.get_num_threads()
    shares = [part for part in np.array_split(np.arange(num_users), threads) if len(part)]
    try:
        in_threads(score, list(product(range(runs), range(0, num_items, PAIRS_WITHIN_CACHE), shares)))
    finally:
        torch.set_num_threads(threads)
    return found


def add_standardised(scores: Tensor, out: Tensor, weight: float) -> None:
    """Add scores [R, B, I], standardised over the items, to out [B, I], each run's `weight` times: users are shared
    out among the threads."""
    array, users, threads = _array(scores), len(out), torch.get_num_threads()
    bounds = pairwise(users * number // threads for number in range(threads + 1))
    given = array, array.view(np.int32), out.numpy(), weight
    call("add_standardised", [(*given, *part) for part in bounds if part[0] < part[1]])


def top_k(
    scores: Tensor, k: int, priority: Tensor, seen: tuple[Tensor, Tensor, Tensor] | None = None
) -> tuple[Tensor, Tensor]:
    """The few best of each row [n, I] and their scores: [n, k]. `seen`: as in `ranking.Seen`, the owners being [n]."""
    best, items = scores.new_empty(len(scores), k), torch.empty(len(scores), k, dtype=torch.long)
    if seen is None:
        nobody, nothing = torch.zeros(len(scores), dtype=torch.long), torch.zeros(0, dtype=torch.int32)
        seen = torch.zeros(2, dtype=torch.long), nothing, nobody
    shares = min(torch.get_num_threads(), -(-len(scores) // 64))
    arrays = [_array(x) for x in (scores, seen[2], best, items)]
    parts = (np.array_split(x, shares) if shares > 1 else [x] for x in arrays)
    tables = [_array(x) for x in (seen[0], seen[1], priority)]
    call(
        "best_items", [(rows, *tables[:2], owners, tables[2], *out) for rows, owners, *out in zip(*parts, strict=True)]
    )
    return best, items
