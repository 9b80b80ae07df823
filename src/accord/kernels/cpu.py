"""What torch does slowly on a CPU, compiled by numba where it is installed (`accord[fast]`). The loops are in
`cpu_loops` and `neighbour_loops`; a function called `reference_...`, or the torch code next to the
caller, defines what each of them computes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache, partial
from itertools import count, pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor

from accord.kernels import cpu_loops, neighbour_loops

_left_out: ContextVar[bool] = ContextVar("left_out", default=False)


def usable(tensor: Tensor) -> bool:
    return not tensor.is_cuda and tensor.dtype == torch.float32 and compiled()


def compiled() -> bool:
    return not _left_out.get() and _compiled() is not None


@contextmanager
def left_out(few: bool = True) -> Iterator[None]:
    """Within it, plain torch as without numba: for a few users, loading the kernels takes longer than ranking."""
    before = _left_out.set(few)
    try:
        yield
    finally:
        _left_out.reset(before)


@cache
def _compiled() -> dict[str, Callable[..., object]] | None:
    """The kernels, None without numba. Each works on one run and releases Python's lock."""
    try:
        import numba
    except ImportError:
        return None
    # sums may be taken in any order, and row numbers have no sign: both let loops use the processor's full width
    compile_loop = partial(numba.njit, nogil=True, fastmath={"reassoc", "contract"}, error_model="numpy")
    loops = (*cpu_loops.ALL, *neighbour_loops.ALL)
    try:  # cached next to the source, or where that cannot be written in a folder of the user's, or $NUMBA_CACHE_DIR
        return {loop.__name__: compile_loop(cache=True)(loop) for loop in loops}
    except RuntimeError:  # nothing can be written: every process compiles
        return {loop.__name__: compile_loop()(loop) for loop in loops}


def call(
    name: str, calls: list[tuple[Any, ...]], threads: int | None = None,
    on_progress: Callable[[float], None] | None = None,
) -> None:  # fmt: skip
    """Call a kernel with each of these arguments, on as many threads as torch uses, or on so many. `on_progress` gets
    the share of the calls that are done."""
    kernels, finished = _compiled(), count(1)
    assert kernels is not None
    kernel = kernels[name]

    def work(*arguments: Any) -> None:
        kernel(*arguments)
        if on_progress is not None:
            on_progress(next(finished) / len(calls))

    in_threads(work if on_progress is not None else kernel, calls, threads)


def in_threads(work: Callable[..., object], calls: list[tuple[Any, ...]], threads: int | None = None) -> None:
    """The same for any function that releases Python's lock."""
    number = threads or torch.get_num_threads()
    if len(calls) == 1 or number == 1:
        for arguments in calls:
            work(*arguments)
    else:
        list(_threads(number).map(lambda arguments: work(*arguments), calls))


@cache
def _threads(number: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(number, "accord")


def for_each_run(name: str, *arrays: Any) -> None:
    call(name, list(zip(*arrays, strict=True)))


def as_array(tensor: Tensor) -> Any:
    return (tensor.detach() if tensor.requires_grad else tensor).contiguous().numpy()


def dot(a: Tensor, b: Tensor, a_ids: Tensor, b_ids: Tensor, weight: Tensor | None) -> Tensor:
    """`lookups.reference_dot`."""
    weight = a.new_empty(len(a), 0) if weight is None else weight
    dots = a.new_empty(a_ids.shape)
    for_each_run("dot", *map(as_array, (a, b, a_ids, b_ids, weight, dots)))
    return dots


def add_dot_slopes(
    a: Tensor, b: Tensor, a_ids: Tensor, b_ids: Tensor, weight: Tensor | None, slopes: Tensor,
    into_a: Tensor, into_b: Tensor, into_weight: Tensor | None,
) -> None:  # fmt: skip
    none = a.new_empty(len(a), 0)
    weight, into_weight = (none if x is None else x for x in (weight, into_weight))
    arrays = a, b, a_ids, b_ids, weight, slopes, into_a, into_b, into_weight
    for_each_run("dot_slopes", *map(as_array, arrays))


def fade(
    weight: Tensor, spread: Tensor, last: Tensor, ids: Tensor | None, step: Tensor, decay: Tensor, base: Tensor,
    sums: Tensor, roots: Tensor, eps: float,
) -> None:  # fmt: skip
    """`cpu_loops.fade` on rows [R, B] of a table, or on all, in place."""
    rows = torch.arange(weight.shape[1]).expand(len(weight), -1) if ids is None else ids
    _on_rows("fade", (weight, spread, last, rows), step, decay, int(base), as_array(sums), as_array(roots), eps)


def move(
    weight: Tensor, spread: Tensor, last: Tensor, ids: Tensor, step: Tensor, decay: Tensor, gradient: Tensor,
    lr: float, beta: float, eps: float,
) -> None:  # fmt: skip
    """`cpu_loops.move` on rows [R, B] of a table, in place."""
    _on_rows("move", (weight, spread, last, ids), step, decay, gradient, lr, beta, eps)


def _on_rows(name: str, tables: tuple[Tensor, ...], step: Tensor, decay: Tensor, *rest: Any) -> None:
    runs = len(decay)
    threads = max(1, torch.get_num_threads() // runs)
    calls = [
        (*(as_array(table[run]) for table in tables), int(step), float(decay[run]),
         *(as_array(x[run]) if isinstance(x, Tensor) else x for x in rest), thread, threads)
        for run in range(runs) for thread in range(threads)
    ]  # fmt: skip
    call(name, calls)


def add_standardised(scores: Tensor, out: Tensor, weight: float) -> None:
    """Add scores [R, B, I], standardised over the items, to out [B, I], each run's `weight` times."""
    array, users, threads = as_array(scores), len(out), torch.get_num_threads()
    bounds = pairwise(users * number // threads for number in range(threads + 1))
    given = array, array.view(np.int32), out.numpy(), weight
    call("add_standardised", [(*given, *part) for part in bounds if part[0] < part[1]])


def top_k(
    scores: Tensor, k: int, priority: Tensor, seen: tuple[Tensor, Tensor, Tensor] | None = None
) -> tuple[Tensor, Tensor]:
    """The k best of each row [n, I] and their scores: [n, k]. `seen`: as `top_k.Seen`, the owners being [n]."""
    best, items = scores.new_empty(len(scores), k), torch.empty(len(scores), k, dtype=torch.long)
    if seen is None:
        nobody, nothing = torch.zeros(len(scores), dtype=torch.long), torch.zeros(0, dtype=torch.int32)
        seen = torch.zeros(2, dtype=torch.long), nothing, nobody
    ptr, seen_items, order = (as_array(x) for x in (seen[0], seen[1], priority))
    parts = min(torch.get_num_threads(), max(1, -(-len(scores) // 64)))
    arrays = (np.array_split(as_array(x), parts) for x in (scores, seen[2], best, items))
    call(
        "best_items", [(rows, ptr, seen_items, owners, order, *out) for rows, owners, *out in zip(*arrays, strict=True)]
    )
    return best, items
