"""Layers whose parameters carry a leading run dimension R, so that one loop trains R runs at once."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, ClassVar, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from accord.kernels import cpu, cuda
from accord.nn.ranks import Ranks
from accord.nn.remote_rows import fetch
from accord.nn.row_adam import Rows
from accord.random import DRAWN_AT_ONCE, drawn_part

WORTH_ROWS = 4  # times the pairs of a step: a table of more rows is trained row by row


def derive_seed(seed: int, purpose: str) -> int:
    """A seed for one purpose of a run, so that no two streams of a run share their numbers."""
    return int.from_bytes(hashlib.sha256(f"{seed}/{purpose}".encode()).digest()[:8], "big") >> 1


def generators(seeds: Sequence[int], purpose: str, device: torch.device | str = "cpu") -> list[torch.Generator]:
    """One random stream for each run: what a run draws never depends on its neighbours in the stack."""
    return [torch.Generator(device).manual_seed(derive_seed(seed, purpose)) for seed in seeds]


class Trainable(nn.Module):
    """Networks with a loss of each run: all that the training loop knows of a method."""

    recordable: ClassVar[bool] = False  # see `is_recordable`

    def begin_step(self, step: int) -> str:
        """Get ready for a step, by its number. Steps of a kind, which is what comes back, do the same operations."""
        return "step"

    def loss(self, batch: Any) -> Tensor:
        """Loss of each run on a batch: [R]."""
        raise AssertionError("a method gives a loss")

    def decay(self, l2: Tensor) -> dict[nn.Parameter, Tensor]:
        """The penalty, l2 [R], as a factor [R] of each parameter: factor times parameter is its gradient."""
        raise AssertionError("a method says what the penalty is on")


class RunLayer(nn.Module):
    """A layer that can initialise one run's slice of its parameters."""

    def initialise(self, run: int, generator: torch.Generator) -> None:
        raise AssertionError("a layer says how it starts")


class Share(NamedTuple):
    """Rows first, first + 1, … of a table whose other rows, if it has any, lie with other ranks."""

    first: int
    size: int
    whole: int
    fetched: bool = False  # whether rows of other ranks are asked for too; if not, ids are counted from `first`


class Embedding(RunLayer):
    """`weight` [R, rows, dim]; ids [R, B] -> [R, B, dim]. Starts as N(0, std), or uniform within +-bound.

    A table by user is given the users' `Share`: each rank has the rows of its own users, and no other rank sees them.
    A large table by item may be shared out as well; what a batch looks up is then fetched from whoever has it.
    """

    def __init__(self, runs: int, rows: int | Share, dim: int, std: float = 0.01, bound: float | None = None) -> None:
        super().__init__()
        self.share = None if isinstance(rows, int) else rows
        self.weight = nn.Parameter(torch.empty(runs, rows if isinstance(rows, int) else rows.size, dim))
        self.std, self.bound = std, bound
        self.rows: Rows | None = None  # while it is trained row by row
        self.ranks: Ranks | None = None  # those that have the other rows, where these are fetched
        self.every: Tensor | None = None  # see `whole_tables`

    @property
    def fetches(self) -> bool:
        return self.share is not None and self.share.fetched

    @property
    def whole(self) -> Tensor:
        """All rows, to score with."""
        return self.weight if self.every is None else self.every

    def initialise(self, run: int, generator: torch.Generator) -> None:
        start: Callable[[Tensor], Tensor] = partial(nn.init.normal_, std=self.std, generator=generator)
        if self.bound is not None:
            start = partial(nn.init.uniform_, a=-self.bound, b=self.bound, generator=generator)
        if self.share is None or self.share.size == self.share.whole:
            start(self.weight[run])
            return
        dim = self.weight.shape[-1]
        first, size, whole = (rows * dim for rows in self.share[:3])
        # torch draws normal numbers by sixteens
        drawn = drawn_part(lambda n: start(torch.empty(n)), whole, first, first + size, DRAWN_AT_ONCE, last=16)
        self.weight[run] = drawn.view(-1, dim)

    def forward(self, ids: Tensor) -> Tensor:
        if self.share is not None and self.share.fetched:
            assert self.ranks is not None
            return fetch(self.weight, ids, self.share.first, self.share.whole, self.ranks, "items")
        if cuda.usable(self.weight):
            return cuda.take_rows(self.weight, ids, 1, self.weight.shape[1])
        if cpu.usable(self.weight):
            return cpu.take_rows(self.weight, ids, self._looked_up(ids))
        return _rows_of(self.weight, ids)

    def _looked_up(self, ids: Tensor) -> cpu.Floats | None:
        """Bring rows up to date where they are trained row by row; where their gradient then belongs."""
        if self.rows is None:
            return None
        self.rows.look_up(ids, torch.is_grad_enabled())
        return self.rows.gradient


def pair_dot(user: Embedding, item: Embedding, users: Tensor, items: Tensor, weight: Tensor | None = None) -> Tensor:
    """Dot products of user and item vectors, each dimension weighted by [R, dim] if given: ids [R, B] -> [R, B]."""
    if item.fetches:
        product: Tensor = user(users) * item(items)
        return product.sum(-1) if weight is None else (product @ weight.unsqueeze(-1)).squeeze(-1)
    gradients = user._looked_up(users), item._looked_up(items)
    return dots(user.weight, item.weight, users, items, weight, gradients)


def dots(
    a: Tensor, b: Tensor, a_ids: Tensor, b_ids: Tensor, weight: Tensor | None = None,
    gradients: tuple[cpu.Floats | None, cpu.Floats | None] = (None, None),
) -> Tensor:  # fmt: skip
    """The same of any two [R, rows, dim]; with `gradients`, those of the rows are added there."""
    if cuda.usable(a):
        return cuda.pair_dot(a, b, a_ids, b_ids, weight, (1, a.shape[1], b.shape[1], 0))
    if cpu.usable(a):
        return cpu.pair_dot(a, b, a_ids, b_ids, weight, gradients)
    product = _rows_of(a, a_ids) * _rows_of(b, b_ids)
    return product.sum(-1) if weight is None else (product @ weight.unsqueeze(-1)).squeeze(-1)


def _rows_of(table: Tensor, ids: Tensor) -> Tensor:
    runs, rows, dim = table.shape
    flat = ids if runs == 1 else ids + run_offsets(runs, rows, ids.device)
    # not F.embedding: the gradient of index_select is a plain index_add, a third of the cost of embedding's own
    return table.reshape(runs * rows, dim).index_select(0, flat.view(-1)).view(*ids.shape, dim)


class Linear(RunLayer):
    """`weight` [R, in, out], `bias` [R, out]; [R, B, in] -> [R, B, out].

    `start`: 'xavier' (zero bias), 'kaiming' (a=1, zero bias) or 'torch' (what nn.Linear does).
    """

    def __init__(self, runs: int, num_in: int, num_out: int, start: str = "xavier") -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(runs, num_in, num_out))
        self.bias = nn.Parameter(torch.empty(runs, num_out))
        self.start = start

    def initialise(self, run: int, generator: torch.Generator) -> None:
        _, num_in, num_out = self.weight.shape
        bound = {"xavier": 6 / (num_in + num_out), "kaiming": 3 / num_in, "torch": 1 / num_in}[self.start] ** 0.5
        nn.init.uniform_(self.weight[run], -bound, bound, generator=generator)
        if self.start == "torch":
            nn.init.uniform_(self.bias[run], -bound, bound, generator=generator)
        else:
            nn.init.zeros_(self.bias[run])

    def forward(self, x: Tensor) -> Tensor:
        return torch.baddbmm(self.bias.unsqueeze(1), x, self.weight)


class Streams(nn.Module):
    """Random streams of a stochastic layer, one a run. Their states travel with the training checkpoint."""

    def __init__(self, seeds: Sequence[int], purpose: str) -> None:
        super().__init__()
        self.seeds, self.purpose = list(seeds), purpose
        self.streams = generators(self.seeds, purpose)
        self.ranks: Ranks | None = None  # those who draw from the same streams, each for its own users

    def uniform(self, counts: list[int], device: torch.device) -> Tensor:
        """Numbers from 0 to 1, as many as each run needs, end to end."""
        draws = [partial(torch.rand, generator=stream, device=device) for stream in self.on(device)]
        if self.ranks is None:
            return torch.cat([draw(count) for draw, count in zip(draws, counts, strict=True)])
        at_once = None if device.type == "cuda" else DRAWN_AT_ONCE
        needed = (
            counts
            if at_once is None or self.ranks.present is None
            else [count * here for count, here in zip(counts, self.ranks.present, strict=True)]
        )
        spans = self.ranks.spans(needed, "how many numbers are drawn")
        drawn = [drawn_part(draw, *span, at_once or max(1, span[0])) for draw, span in zip(draws, spans, strict=True)]
        # who fills up a batch that has nobody here draws nothing
        return torch.cat([own if len(own) == n else own.new_zeros(n) for own, n in zip(drawn, counts, strict=True)])

    def on(self, device: torch.device) -> list[torch.Generator]:
        if self.streams[0].device.type != device.type:
            self.streams = generators(self.seeds, self.purpose, device)
        return self.streams


def run_offsets(runs: int, rows: int, device: torch.device) -> Tensor:
    """[R, 1]: where each run's rows begin in the [R * rows, dim] view."""
    return torch.arange(0, runs * rows, rows, device=device).unsqueeze(1)


def tables_by_rows(module: nn.Module, pairs: int) -> list[Embedding]:
    """Tables that are worth training row by row when a step looks up so many pairs: large, on a CPU, and read by
    lookups alone, which a model promises by `only_looks_up = True` in its own body (not inherited).
    """
    found = []
    for model in module.modules():
        if type(model).__dict__.get("only_looks_up", False):
            found += [layer for layer in model.children() if isinstance(layer, Embedding)]
    return [table for table in found if table.weight.shape[1] >= WORTH_ROWS * pairs and cpu.usable(table.weight)]


def shared_out(module: nn.Module) -> dict[str, Share]:
    """Names of the tables whose rows are shared out among ranks, and the rows of them that are here."""
    return {
        f"{name}.weight": layer.share
        for name, layer in module.named_modules()
        if isinstance(layer, Embedding) and layer.share is not None
    }


@contextmanager
def whole_tables(module: nn.Module) -> Iterator[None]:
    """A time in which all items can be scored: tables that are fetched by rows are held whole, for reading."""
    tables = [layer for layer in module.modules() if isinstance(layer, Embedding) and layer.fetches]
    for table in tables:
        assert table.ranks is not None
        assert table.share is not None
        table.every = table.ranks.joined(table.weight, table.share.whole, "item table")
    try:
        yield
    finally:
        for table in tables:
            table.every = None


def is_recordable(module: nn.Module) -> bool:
    """Whether a GPU may record a step of this module once and repeat it: always the same operations on tensors of the
    same shapes, nothing decided on the host. A class promises that by `recordable = True` in its own body; the promise
    is not inherited, since a subclass may do anything.
    """
    kinds = {type(part) for part in module.modules()}
    return all(kind.__dict__.get("recordable", False) for kind in kinds if hasattr(kind, "recordable"))


def initialise(module: nn.Module, seeds: Sequence[int], purpose: str) -> None:
    """Give every run-stacked layer its start, each run from its own stream."""
    layers = [layer for layer in module.modules() if isinstance(layer, RunLayer)]
    with torch.no_grad():
        for run, generator in enumerate(generators(seeds, purpose)):
            for layer in layers:
                layer.initialise(run, generator)


class _Propagate(torch.autograd.Function):
    """Mean of E, AE, A²E, … in Horner form. A is symmetric, so the gradient is the same function of the gradient."""

    @staticmethod
    def forward(ctx: Any, graph: Tensor, nodes: Tensor, num_layers: int, ranks: Ranks | None, num_users: int) -> Tensor:
        ctx.graph, ctx.settings = graph, (num_layers, ranks, num_users)
        return _horner(graph, nodes, num_layers, ranks, num_users)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[None, Tensor, None, None, None]:
        gradient, (_, ranks, num_users) = gradients[0].contiguous(), ctx.settings
        if ranks is not None:
            gradient = gradient.clone()
            ranks.sum({"gradients of items": gradient[num_users:]})
        gradient = _horner(ctx.graph, gradient, *ctx.settings)
        if ranks is not None:
            gradient[num_users:] /= ranks.size  # each rank has all of it, and they are summed once more
        return None, gradient, None, None, None


def _horner(graph: Tensor, nodes: Tensor, num_layers: int, ranks: Ranks | None, num_users: int) -> Tensor:
    z = nodes
    for _ in range(num_layers):
        z = _times(graph, z)
        if ranks is not None:  # what its own users send to the items
            ranks.sum({"items of a layer": z[num_users:]})
        z.add_(nodes)
    return z / (num_layers + 1)


def _times(graph: Tensor, nodes: Tensor) -> Tensor:
    """torch's own product is the slower on a CPU; on a GPU it is faster, but adds up in any order, and does not say."""
    if nodes.is_cuda and not torch.are_deterministic_algorithms_enabled():
        product: Tensor = torch.sparse.mm(graph, nodes)
        return product
    starts, columns, values = graph.crow_indices(), graph.col_indices(), graph.values()
    return F.embedding_bag(columns, nodes, starts[:-1], mode="sum", per_sample_weights=values)


def propagate(graph: Tensor, nodes: Tensor, num_layers: int, ranks: Ranks | None = None, num_users: int = 0) -> Tensor:
    """LightGCN's propagation: graph [N, N] symmetric CSR, nodes [R, N, dim] -> [R, N, dim].

    On a GPU the graph is read once for all runs. On a CPU each run's vectors stay in the cache if they go alone.
    With `ranks` the first `num_users` nodes are this rank's own; what is sent to the others, the items, is summed.
    """
    runs, num_nodes, dim = nodes.shape
    rest = num_layers, ranks, num_users
    if not nodes.is_cuda:
        found = [_Propagate.apply(graph, own, *rest) for own in nodes]  # type: ignore[no-untyped-call]
        return found[0].unsqueeze(0) if runs == 1 else torch.stack(found)
    flat = nodes.transpose(0, 1).reshape(num_nodes, runs * dim)
    out: Tensor = _Propagate.apply(graph, flat, *rest)  # type: ignore[no-untyped-call]
    return out.view(num_nodes, runs, dim).transpose(0, 1)
