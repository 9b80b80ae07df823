"""The processes that train one model together (torch.distributed): what they exchange, and how much.

One process is the ordinary case: it holds all rows, so there is nothing to sum or gather. All that
passes between several is counted here, so that what moves in a step can be looked up, not guessed.
"""

from __future__ import annotations

import json
import os
import signal
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.rendezvous import rendezvous

from accord.errors import Argument, InputError
from accord.random import DRAWN_AT_ONCE, drawn_part

LARGE_TABLE = 100_000  # rows of an item table from which it is split between processes, too
PATIENCE = timedelta(minutes=10)  # a process that does not answer for so long is taken for lost
LOST = (
    "a process of this training failed, was killed or stopped answering, so all of them stop; "
    "run the same command with ",
    Argument("resume", True),
    " to continue.",
)


class LostRank(InputError):
    """Another process is gone, so this one cannot continue."""


class Share(NamedTuple):
    """Rows first, first + 1, … of a table whose other rows, if it has any, are held by other processes."""

    first: int
    size: int
    whole: int
    fetched: bool = False  # whether rows of other processes are asked for too; if not, ids are counted from `first`


Draw = Callable[[int], Tensor]  # so many random numbers from one run's stream


class Ranks:
    """The processes of one training, as one of them sees it. This form is a process that trains alone."""

    rank, size = 0, 1
    recordable = True  # whether a GPU may record a step: one that exchanges nothing

    def share(self, rows: int) -> tuple[int, int]:
        """The first of this process's rows of a table, and how many it has."""
        return 0, rows

    def item_share(self, items: int) -> tuple[int, int] | None:
        """The same of a table by item where it is split, None where every process holds all of it."""
        return None

    def owns(self, share: Share | None) -> bool:
        """Whether no other process has a gradient for the rows of a table that are here."""
        return True

    def sum(self, named: Mapping[str, Tensor]) -> None:
        """Replace tensors by their sums over all processes. They travel as one message."""

    def sum_rows(self, tensor: Tensor, first: int, name: str) -> Tensor:
        """The tensor [R, rows, dim] with the sums over all processes in its rows from `first` on, which every process
        has."""
        return tensor

    def divide_rows(self, tensor: Tensor, first: int) -> None:
        """Divide rows that every process has by the number of processes, since they are summed once more."""

    def draw(self, draws: Sequence[Draw], counts: Sequence[int], device: torch.device) -> Tensor:
        """Numbers of every run's stream, as many as each needs here, end to end."""
        return torch.cat([draw(count) for draw, count in zip(draws, counts, strict=True)])

    def note_batch(self, mask: Tensor | None) -> None:
        """Remember which runs have a pair of the current batch here, before its numbers are drawn."""

    def exchange(self, tensor: Tensor, sizes: list[int], back: list[int], name: str) -> Tensor:
        """Give `sizes[r]` rows, in order, to each process r, and get `back[r]` from it."""
        return tensor

    def gathered(self, tensor: Tensor, name: str) -> Tensor:
        """The tensors of all processes, which have one shape, in the main memory: [size, ...]."""
        return tensor.unsqueeze(0)

    def collect(self, tensor: Tensor, dim: int, name: str) -> Tensor | None:
        """The tensors of all processes joined along `dim`, in the first process; None elsewhere."""
        return tensor

    def joined(self, tensor: Tensor, whole: int, name: str) -> Tensor:
        """Shares of a table [R, rows, dim] as the table, in every process."""
        return tensor

    def from_first(self, value: Any) -> Any:
        """What the first process has here: a word, a number, a decision."""
        return value


ALONE = Ranks()


class SeveralRanks(Ranks):
    """Process `rank` of `size`, which holds its own users' rows of each table."""

    recordable = False

    def __init__(self, rank: int, size: int) -> None:
        self.rank, self.size = rank, size
        self.sent: Counter[str] = Counter()  # bytes that this process has sent, by name
        self.shapes: dict[str, tuple[int, ...]] = {}  # and their shapes
        self.large = LARGE_TABLE
        self.present: list[bool] | None = None  # runs of which the current batch has a pair here; None: all

    def share(self, rows: int) -> tuple[int, int]:
        """As torch.chunk and DTensor cut."""
        each = -(-rows // self.size)
        if each * (self.size - 1) >= rows:
            raise InputError(
                f"{rows} users are too few for {self.size} processes, one of which would have none; start fewer."
            )
        return self.rank * each, min(each, rows - self.rank * each)

    def item_share(self, items: int) -> tuple[int, int] | None:
        return self.share(items) if items >= self.large else None

    def owns(self, share: Share | None) -> bool:
        return share is not None and not share.fetched

    def sum(self, named: Mapping[str, Tensor]) -> None:
        if not named:
            return
        flat = torch.cat([tensor.reshape(-1) for tensor in named.values()])
        with _answered():
            dist.all_reduce(flat)
        for name, tensor in named.items():
            # a ring passes each element on when it is summed and when the sum is passed back
            self._count(name, tensor, 2 * (self.size - 1) / self.size)
        parts = torch.split(flat, [tensor.numel() for tensor in named.values()])
        for tensor, part in zip(named.values(), parts, strict=True):
            tensor.copy_(part.view_as(tensor))

    def sum_rows(self, tensor: Tensor, first: int, name: str) -> Tensor:
        tensor = tensor.clone()
        self.sum({name: tensor[:, first:]})
        return tensor

    def divide_rows(self, tensor: Tensor, first: int) -> None:
        tensor[:, first:] /= self.size

    def draw(self, draws: Sequence[Draw], counts: Sequence[int], device: torch.device) -> Tensor:
        """Every process draws what one would draw alone, and keeps what belongs to its own users."""
        at_once = None if device.type == "cuda" else DRAWN_AT_ONCE
        needed = list(counts)
        if at_once is not None and self.present is not None:
            needed = [count * here for count, here in zip(counts, self.present, strict=True)]
        spans = self.spans(needed, "how many numbers are drawn")
        drawn = [drawn_part(draw, *span, at_once or max(1, span[0])) for draw, span in zip(draws, spans, strict=True)]
        # a process that only fills up a batch draws nothing for it
        return torch.cat([part if len(part) == n else part.new_zeros(n) for part, n in zip(drawn, counts, strict=True)])

    def note_batch(self, mask: Tensor | None) -> None:
        self.present = None if mask is None else mask.any(1).tolist()

    def spans(self, counts: Sequence[int], name: str) -> list[tuple[int, int, int]]:
        """For numbers laid end to end in the order of the processes: how many, and where ours begin and end."""
        here = torch.tensor(counts, dtype=torch.long)
        every = self.gathered(here, name)  # [size, n]
        begin = every[: self.rank].sum(0)
        return list(zip(every.sum(0).tolist(), begin.tolist(), (begin + here).tolist(), strict=True))

    def exchange(self, tensor: Tensor, sizes: list[int], back: list[int], name: str) -> Tensor:
        got = tensor.new_empty(sum(back), *tensor.shape[1:])
        with _answered():
            dist.all_to_all_single(got, tensor.contiguous(), back, sizes)
        away = tensor.numel() // max(1, len(tensor)) * (len(tensor) - sizes[self.rank])
        self._count(name, tensor, away / max(1, tensor.numel()))
        return got

    def gathered(self, tensor: Tensor, name: str) -> Tensor:
        every = [torch.empty_like(tensor) for _ in range(self.size)]
        with _answered():
            dist.all_gather(every, tensor)
        self._count(name, tensor, self.size - 1)
        return torch.stack(every)

    def collect(self, tensor: Tensor, dim: int, name: str) -> Tensor | None:
        """They may differ in length along `dim`."""
        tensor = tensor.detach().cpu().movedim(dim, 0).contiguous()
        lengths = self.gathered(torch.tensor([len(tensor)]), f"length of {name}").flatten().tolist()
        room = tensor.new_zeros(max(lengths), *tensor.shape[1:])
        room[: len(tensor)] = tensor
        every = [torch.empty_like(room) for _ in range(self.size)] if self.rank == 0 else None
        with _answered():
            dist.gather(room, every)
        self._count(name, room, 1 if self.rank else 0)
        if every is None:
            return None
        return torch.cat([part[:length] for part, length in zip(every, lengths, strict=True)]).movedim(0, dim)

    def joined(self, tensor: Tensor, whole: int, name: str) -> Tensor:
        each = -(-whole // self.size)
        room = tensor.new_zeros(tensor.shape[0], each, tensor.shape[2])
        room[:, : tensor.shape[1]] = tensor.detach()
        every = self.gathered(room, name)  # [size, R, each, dim]
        return every.transpose(0, 1).flatten(1, 2)[:, :whole]

    def from_first(self, value: Any) -> Any:
        text = torch.tensor(list(json.dumps(value).encode()), dtype=torch.uint8)
        length = torch.tensor([len(text)])
        with _answered():
            dist.broadcast(length, src=0)
            text = text if self.rank == 0 else torch.empty(int(length), dtype=torch.uint8)
            dist.broadcast(text, src=0)
        return json.loads(bytes(text.tolist()))

    def _count(self, name: str, tensor: Tensor, times: float) -> None:
        self.sent[name] += round(tensor.numel() * tensor.element_size() * times)
        self.shapes[name] = tuple(tensor.shape)


@contextmanager
def _answered() -> Iterator[None]:
    """Whatever a collective fails with, another process is gone."""
    try:
        yield
    except RuntimeError as error:
        raise LostRank(*LOST) from error


_store: Any = None  # what all processes can read and write, once they have met


def reports_failure() -> bool:
    """Whether this process is the one to report why all stop: the first that asks, and any that can ask nobody, as the
    first process has gone: rather twice than not at all."""
    if _store is None:
        return True
    try:
        return bool(_store.add("accord/reported", 1) == 1)
    except RuntimeError:
        return True


def _stop(*_: Any) -> None:
    """torchrun ends the other processes when one has failed."""
    raise LostRank(*LOST)


def _share_gpus() -> bool:
    """Whether this machine has more processes than GPUs, which NCCL does not allow; gloo does."""
    processes, gpus = int(os.environ.get("LOCAL_WORLD_SIZE", "1")), torch.cuda.device_count()
    if processes <= gpus:
        return False
    if os.environ.get("LOCAL_RANK", "0") == "0":
        shared = f"{processes} processes share {gpus} GPU{'s' if gpus > 1 else ''}"
        warnings.warn(f"{shared}, so they exchange through the main memory, which is slow.", stacklevel=2)
    return True


@contextmanager
def joined() -> Iterator[Ranks]:
    """The processes that this one was started with, by torchrun or with its environment variables."""
    global _store
    if dist.is_available() and dist.is_initialized():
        yield SeveralRanks(dist.get_rank(), dist.get_world_size())
        return
    if "RANK" not in os.environ or "WORLD_SIZE" not in os.environ:
        yield ALONE
        return
    on_gpu = torch.cuda.is_available()
    if on_gpu:
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")) % torch.cuda.device_count())
    with suppress(ValueError):  # in a thread, where whoever started it says when to stop
        signal.signal(signal.SIGTERM, _stop)
    try:
        _store, rank, size = next(rendezvous("env://", timeout=PATIENCE))
        backend = "cpu:gloo,cuda:nccl" if on_gpu and not _share_gpus() else "gloo"
        dist.init_process_group(backend, store=_store, rank=rank, world_size=size, timeout=PATIENCE)
    except (ValueError, RuntimeError) as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"the processes cannot meet ({reason}); start them with torchrun.") from error
    if rank:
        warnings.simplefilter("ignore")  # the first process shows them
    yield SeveralRanks(rank, size)
    dist.destroy_process_group()  # not where something failed: there it would wait for the others
