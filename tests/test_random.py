"""Every stream of random numbers: by purpose, by run, and in parts."""

from __future__ import annotations

import torch

from accord.random import drawn_part, generators


def test_drawn_parts():
    stream = generators([3], "test")[0]
    every = torch.rand(100, generator=generators([3], "test")[0])
    drawn = drawn_part(lambda size: torch.rand(size, generator=stream), 100, 30, 71, at_once=13)
    assert torch.equal(drawn, every[30:71])
    rest = torch.rand(3, generator=stream)
    again = generators([3], "test")[0]
    assert torch.equal(rest, torch.rand(103, generator=again)[100:]), "the stream is where one process would have it"
