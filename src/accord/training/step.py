"""A training step, and its recording on CUDA: hundreds of small kernels, launched as one."""

from __future__ import annotations

import logging
import time
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from accord.data.sampling import Batch
from accord.nn.adam import Adam
from accord.nn.layers import Streams, Trainable, is_recordable

log = logging.getLogger("accord")
MOST_GRAPHS = 16  # shapes beyond these are taken as usual
BLOCK = 4  # steps that are timed together: a method may take steps of two kinds in turn
TURNS = 3  # blocks each way


class Steps:
    """Takes training steps. On CUDA a step of a new kind or shape is taken as usual, the next one like it is recorded
    as a graph, and all others replay that. What cannot be recorded is taken as usual, always."""

    def __init__(self, method: Trainable, optimizer: Adam, l2: Tensor) -> None:
        self.method, self.optimizer, self.l2 = method, optimizer, l2
        self.decays = bool(l2.any())
        self.total = torch.zeros_like(l2)  # [R]: sum of the losses since it was last read
        self.records = l2.is_cuda and is_recordable(method)
        self.ending = False  # whether few steps are left: too few to record what is not recorded yet
        self.seen: set[Hashable] = set()
        self.graphs: dict[Hashable, tuple[torch.cuda.CUDAGraph, Batch]] = {}
        self.pool: Any = None
        if l2.is_cuda and not self.records:
            log.info("steps are not recorded: %s or a model of it does not promise that they can be", type(method))

    @contextmanager
    def apart(self) -> Iterator[None]:
        """Work on a stream of its own, where there are streams: a recording must not meet the default one."""
        if not self.l2.is_cuda:
            yield
            return
        before = torch.cuda.current_stream(self.l2.device)
        stream = torch.cuda.Stream(self.l2.device)  # type: ignore[no-untyped-call]
        stream.wait_stream(before)
        with torch.cuda.stream(stream):
            yield
        before.wait_stream(stream)

    def take(self, batch: Batch, step: int) -> None:
        self._choose(self.method.begin_step(step), batch)
        self.optimizer.taken()

    def _choose(self, kind: str, batch: Batch) -> None:
        if not self.records:
            self._take(batch)
            return
        key = (kind, batch.users.shape, batch.mask is None)
        if key in self.graphs:
            graph, place = self.graphs[key]
            place.copy_(batch)
            graph.replay()
        elif key not in self.seen or self.ending or len(self.graphs) == MOST_GRAPHS:
            self.seen.add(key)
            self._take(batch)
        else:
            self._record(key, batch)

    def _take(self, batch: Batch) -> None:
        self.optimizer.zero_grad()
        losses = self.method.loss(batch)
        torch.autograd.backward(losses, torch.ones_like(losses))
        self.optimizer.step(self.method.decay(self.l2) if self.decays else {})
        self.total += losses.detach()

    def _record(self, key: Hashable, batch: Batch) -> None:
        place = batch.map(torch.clone)
        graph = torch.cuda.CUDAGraph()
        for part in self.method.modules():
            if isinstance(part, Streams):
                for stream in part.on(self.l2.device):
                    graph.register_generator_state(stream)
        self.optimizer.zero_grad()
        try:
            with torch.cuda.graph(graph, pool=self.pool, stream=torch.cuda.current_stream()):
                self._take(place)
        except torch.OutOfMemoryError:
            raise
        except RuntimeError as error:
            log.warning("steps are not recorded (%s); training goes on, slower", str(error).splitlines()[0])
            self.records = False
            self.optimizer.zero_grad()
            self._take(batch)
            return
        self.optimizer.zero_grad()  # what the graph wrote stays its own
        self.pool = self.pool or graph.pool()  # graphs take turns, so one memory serves all
        self.graphs[key] = graph, place
        graph.replay()


class Threads:
    """All that torch was given, or one, where waking the others takes longer than they save: the first steps are
    timed both ways. The number of threads changes no result, only how long it takes."""

    def __init__(self, device: torch.device) -> None:
        self.given = torch.get_num_threads()
        self.chosen = self.given if device.type == "cuda" or self.given == 1 else None
        # the first block is not compared: what is compiled and allocated for the first time is in it
        self.tried = [self.given] * BLOCK + ([1] * BLOCK + [self.given] * BLOCK) * TURNS
        self.seconds: list[float] = []

    @contextmanager
    def step(self) -> Iterator[None]:
        torch.set_num_threads(self.chosen or self.tried[len(self.seconds)])
        began = time.perf_counter()
        try:
            yield
        finally:
            torch.set_num_threads(self.given)
        if self.chosen is None:
            self.seconds.append(time.perf_counter() - began)
            if len(self.seconds) == len(self.tried):
                self.chosen = self._faster()

    def _faster(self) -> int:
        blocks = [sum(self.seconds[start : start + BLOCK]) for start in range(BLOCK, len(self.seconds), BLOCK)]
        return 1 if min(blocks[0::2]) <= min(blocks[1::2]) else self.given
