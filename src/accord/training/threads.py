"""How many threads of the processor a training step gets."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import torch

BLOCK = 4  # steps that are timed together: a method may take steps of two kinds in turn
TURNS = 3  # blocks each way


class Threads:
    """All that torch was given, or one, where waking the others takes longer than they save: the first steps are
    timed both ways. The number of threads changes no result, only how long it takes.
    """

    def __init__(self, device: torch.device) -> None:
        self.given = torch.get_num_threads()
        self.chosen = self.given if device.type == "cuda" or self.given == 1 else None
        # the first block is not compared: what is compiled and allocated for the first time is in it
        self.tried = [self.given] * BLOCK + ([1] * BLOCK + [self.given] * BLOCK) * TURNS
        self.seconds: list[float] = []

    @contextmanager
    def step(self) -> Iterator[None]:
        """Within it, torch has the threads for one step."""
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
