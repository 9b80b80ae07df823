"""Layers with a run dimension: how they start, what they look up, which tables are trained row by row."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from accord.nn import layers
from accord.nn.layers import Embedding
from accord.nn.ranks import SeveralRanks, Share
from accord.random import generators


@pytest.mark.parametrize("bound", [None, 0.3])
@pytest.mark.parametrize("rows", [5, 64, 1001])
def test_parts_of_a_table_start_as_the_table(rows, bound, monkeypatch):
    monkeypatch.setattr("accord.nn.layers.DRAWN_AT_ONCE", 48)
    whole = Embedding(1, rows, 3, bound=bound)
    with torch.no_grad():
        whole.initialise(0, generators([7], "start")[0])
        for rank in range(3):
            first, size = SeveralRanks(rank, 3).share(rows)
            part = Embedding(1, Share(first, size, rows), 3, bound=bound)
            part.initialise(0, generators([7], "start")[0])
            assert torch.equal(part.weight, whole.weight[:, first : first + size])


def table(rows, dim=5, runs=2, seed=0):
    made = Embedding(runs, rows, dim)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        made.weight.normal_(generator=generator)
    return made


def test_a_table_that_is_read_otherwise_is_left_to_dense_adam(monkeypatch):
    pytest.importorskip("numba", reason="numba is not installed (accord[fast])")
    monkeypatch.setattr(layers, "WORTH_ROWS", 0)

    class Reads(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = table(10)

    class LooksUp(Reads):
        only_looks_up = True

    class Inherits(LooksUp):
        pass

    class TakesBack(LooksUp):
        only_looks_up = False

    assert layers.tables_by_rows(Reads(), 3) == layers.tables_by_rows(TakesBack(), 3) == []
    for looks_up in (LooksUp(), Inherits()):
        assert layers.tables_by_rows(looks_up, 3) == [looks_up.table]
    monkeypatch.setattr(layers, "WORTH_ROWS", 4)
    assert layers.tables_by_rows(looks_up, 3) == []
