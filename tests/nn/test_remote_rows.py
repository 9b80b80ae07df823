"""Rows that other processes hold, by processes that take turns in one: what is asked for, and what is sent back."""

from __future__ import annotations

import threading

import pytest
import torch

from accord.nn.ranks import ALONE, Ranks
from accord.nn.remote_rows import fetch


class Threads(Ranks):
    """Process `rank` of several that are threads of this one and hand each other tensors."""

    def __init__(self, rank, meeting, boxes):
        self.rank, self.size, self.meeting, self.boxes = rank, len(boxes), meeting, boxes
        self.asked = []

    def exchange(self, own, sizes, back, name):
        self.asked.append(name)
        self.boxes[self.rank] = torch.split(own, sizes)
        self.meeting.wait(10)
        got = [parts[self.rank].clone() for parts in self.boxes]
        assert [len(part) for part in got] == back, name
        self.meeting.wait(10)
        return torch.cat(got)


def together(size, work):
    """What `work(ranks)` gives in each of so many processes."""
    meeting, boxes, found = threading.Barrier(size), [None] * size, [None] * size

    def run(rank):
        try:
            found[rank] = work(Threads(rank, meeting, boxes))
        except BaseException:
            meeting.abort()
            raise

    threads = [threading.Thread(target=run, args=[rank]) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


@pytest.mark.parametrize("runs", [1, 2])
@pytest.mark.parametrize("size", [2, 3])
def test_rows_and_gradients_are_those_of_the_whole_table(size, runs):
    """Every process asks for other rows, one of them for the same row twice; gradients reach who holds the row."""
    generator = torch.Generator().manual_seed(0)
    table = torch.randn(runs, 7, 4, generator=generator)
    ids = [torch.randint(0, 7, (runs, 5), generator=generator) for _ in range(size)]
    ids[0][:, 1] = ids[0][:, 0]
    slopes = [torch.randn(runs, 5, 4, generator=generator) for _ in range(size)]
    each = -(-7 // size)

    def work(ranks):
        first = ranks.rank * each
        own = table[:, first : first + each].clone().requires_grad_()
        rows = fetch(own, ids[ranks.rank], first, 7, ranks, "items")
        (rows * slopes[ranks.rank]).sum().backward()
        return rows.detach(), own.grad, ranks.asked

    whole = table.clone().requires_grad_()
    run = torch.arange(runs)[:, None]
    sum((whole[run, own] * slope).sum() for own, slope in zip(ids, slopes, strict=True)).backward()
    for rank, (rows, gradient, asked) in enumerate(together(size, work)):
        assert torch.equal(rows, table[run, ids[rank]])
        torch.testing.assert_close(gradient, whole.grad[:, rank * each : (rank + 1) * each])
        assert asked == [
            *("how many rows of items", "which rows of items", "rows of items", "gradients of rows of items")
        ]


def test_one_process_has_all_rows():
    table = torch.arange(12.0).view(2, 3, 2).requires_grad_()
    rows = fetch(table, torch.tensor([[2, 2], [0, 1]]), 0, 3, ALONE, "items")
    assert rows.tolist() == [[[4, 5], [4, 5]], [[6, 7], [8, 9]]]
    rows.sum().backward()
    assert table.grad[:, :, 0].tolist() == [[0, 0, 2], [1, 1, 0]]
