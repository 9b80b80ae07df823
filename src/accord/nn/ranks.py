"""Several processes that train one model together (torch.distributed): what they say to each other, and how much.

All that passes between them passes here and is counted, so that what moves in a step can be looked up, not guessed.
"""

from __future__ import annotations

import json
import os
import signal
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.rendezvous import rendezvous

from accord.errors import InputError

LARGE_TABLE = 100_000  # rows of an item table from which it is shared out, too, and not held by all
PATIENCE = timedelta(minutes=10)  # a rank that says nothing for so long is taken for lost
LOST = "a rank failed, was killed or stopped answering, so all ranks stop; run the same command with --resume to go on."


class LostRank(InputError):
    """Another process is gone, so this one cannot go on."""


class Ranks:
    """The processes of one training. Rank `rank` of `size` holds the users `first`, `first + 1`, … of each table."""

    def __init__(self, rank: int, size: int) -> None:
        self.rank, self.size = rank, size
        self.sent: Counter[str] = Counter()  # bytes that this rank has sent, by what they are
        self.shapes: dict[str, tuple[int, ...]] = {}  # and their shapes
        self.large = LARGE_TABLE
        self.present: list[bool] | None = None  # runs of which the current batch has a pair here; None: all

    def share(self, everybody: int) -> tuple[int, int]:
        """The first user of this rank, and how many there are: as torch.chunk and DTensor cut. So of items."""
        each = -(-everybody // self.size)
        if each * (self.size - 1) >= everybody:
            raise InputError(
                f"{everybody} users are too few for {self.size} ranks, one of which would have none; start fewer."
            )
        return self.rank * each, min(each, everybody - self.rank * each)

    def sum(self, named: Mapping[str, Tensor]) -> None:
        """Replace tensors by their sums over all ranks. They travel as one message."""
        if not named:
            return
        flat = torch.cat([tensor.reshape(-1) for tensor in named.values()])
        with _answered():
            dist.all_reduce(flat)
        for name, tensor in named.items():
            # a ring passes each element on when it is summed and when the sum is told
            self._count(name, tensor, 2 * (self.size - 1) / self.size)
        parts = torch.split(flat, [tensor.numel() for tensor in named.values()])
        for tensor, part in zip(named.values(), parts, strict=True):
            tensor.copy_(part.view_as(tensor))

    def spans(self, counts: Sequence[int], what: str) -> list[tuple[int, int, int]]:
        """For numbers that are laid end to end in the order of the ranks: all of them, where ours begin and end."""
        own = torch.tensor(counts, dtype=torch.long)
        every = self.gathered(own, what)  # [size, n]
        begin = every[: self.rank].sum(0)
        return list(zip(every.sum(0).tolist(), begin.tolist(), (begin + own).tolist(), strict=True))

    def exchange(self, own: Tensor, sizes: list[int], back: list[int], what: str) -> Tensor:
        """Give `sizes[r]` rows, in order, to each rank r, and get `back[r]` from it."""
        got = own.new_empty(sum(back), *own.shape[1:])
        with _answered():
            dist.all_to_all_single(got, own.contiguous(), back, sizes)
        away = own.numel() // max(1, len(own)) * (len(own) - sizes[self.rank])
        self._count(what, own, away / max(1, own.numel()))
        return got

    def gathered(self, own: Tensor, what: str) -> Tensor:
        """The tensors of all ranks, which have one shape, in the main memory: [size, ...]."""
        every = [torch.empty_like(own) for _ in range(self.size)]
        with _answered():
            dist.all_gather(every, own)
        self._count(what, own, self.size - 1)
        return torch.stack(every)

    def collect(self, own: Tensor, dim: int, what: str) -> Tensor | None:
        """The tensors of all ranks, joined along `dim`, at rank 0; None elsewhere. They may differ in length there."""
        own = own.detach().cpu().movedim(dim, 0).contiguous()
        lengths = self.gathered(torch.tensor([len(own)]), f"length of {what}").flatten().tolist()
        room = own.new_zeros(max(lengths), *own.shape[1:])
        room[: len(own)] = own
        every = [torch.empty_like(room) for _ in range(self.size)] if self.rank == 0 else None
        with _answered():
            dist.gather(room, every)
        self._count(what, room, 1 if self.rank else 0)
        if every is None:
            return None
        return torch.cat([part[:length] for part, length in zip(every, lengths, strict=True)]).movedim(0, dim)

    def joined(self, own: Tensor, whole: int, what: str) -> Tensor:
        """Shares of a table [R, rows, dim] as the table, at every rank."""
        each = -(-whole // self.size)
        room = own.new_zeros(own.shape[0], each, own.shape[2])
        room[:, : own.shape[1]] = own.detach()
        every = self.gathered(room, what)  # [size, R, each, dim]
        return every.transpose(0, 1).flatten(1, 2)[:, :whole]

    def said_by_first(self, what: Any) -> Any:
        """What rank 0 has here: a word, a number, a decision."""
        text = torch.tensor(list(json.dumps(what).encode()), dtype=torch.uint8)
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
    """Whatever a collective fails with, another rank is gone."""
    try:
        yield
    except RuntimeError as error:
        raise LostRank(LOST) from error


_store: Any = None  # what all ranks can read and write, from when they have met


def may_speak() -> bool:
    """Whether this process is the one to say why all stop: the first of the ranks that asks."""
    if _store is None:
        return True
    try:
        return bool(_store.add("accord/said", 1) == 1)
    except RuntimeError:
        return True


def _told_to_stop(*_: Any) -> None:
    """torchrun ends the other ranks when one has failed."""
    raise LostRank(LOST)


def _share_gpus() -> bool:
    """Whether this machine has more ranks than GPUs, which NCCL does not allow; gloo does."""
    ranks, gpus = int(os.environ.get("LOCAL_WORLD_SIZE", "1")), torch.cuda.device_count()
    if ranks <= gpus:
        return False
    if os.environ.get("LOCAL_RANK", "0") == "0":
        shared = f"{ranks} ranks share {gpus} GPU{'s' if gpus > 1 else ''}"
        warnings.warn(f"{shared}, so they exchange through the main memory, which is slow.", stacklevel=2)
    return True


@contextmanager
def joined() -> Iterator[Ranks | None]:
    """The ranks that this process was started as one of, by torchrun or with its environment variables; None where it
    was started alone."""
    global _store
    if dist.is_available() and dist.is_initialized():
        yield Ranks(dist.get_rank(), dist.get_world_size())
        return
    if "RANK" not in os.environ or "WORLD_SIZE" not in os.environ:
        yield None
        return
    on_gpu = torch.cuda.is_available()
    if on_gpu:
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")) % torch.cuda.device_count())
    with suppress(ValueError):  # in a thread, where whoever started it says when to stop
        signal.signal(signal.SIGTERM, _told_to_stop)
    try:
        _store, rank, size = next(rendezvous("env://", timeout=PATIENCE))
        backend = "cpu:gloo,cuda:nccl" if on_gpu and not _share_gpus() else "gloo"
        dist.init_process_group(backend, store=_store, rank=rank, world_size=size, timeout=PATIENCE)
    except (ValueError, RuntimeError) as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"the ranks cannot meet ({reason}); start them with torchrun.") from error
    if rank:
        warnings.simplefilter("ignore")  # rank 0 says them
    yield Ranks(rank, size)
    dist.destroy_process_group()  # not where something failed: there it would wait for the others
