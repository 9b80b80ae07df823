"""The best of many scores against a full sort, compiled and by torch alone."""

from __future__ import annotations

import inspect
import subprocess
import sys

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from accord.kernels import cpu, cpu_loops, neighbour_loops
from accord.kernels import top_k as best
from accord.kernels.top_k import Seen, top_k, top_k_of_one
from helpers import csr

LEVELS = [-np.inf, -1.0, 0.0, 0.5, 0.5000001, 3.0]


def full_sort(scores, k, priority):
    """By -score, then priority, one row after another."""
    order = np.stack([np.lexsort((priority, -row)) for row in scores.reshape(-1, scores.shape[-1])])[:, :k]
    return order.reshape(*scores.shape[:-1], order.shape[-1])


def both_forms(scores, k, priority, seen=None):
    """Compiled, where it can be, and with torch's own sorting."""
    yield top_k(scores.clone(), k, priority, seen)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cpu, "usable", lambda _tensor: False)
        yield top_k(scores.clone(), k, priority, seen)


def assert_sorted(scores, k, priority):
    expected = full_sort(scores, k, priority)
    for values, items in both_forms(torch.from_numpy(scores), k, torch.from_numpy(priority)):
        np.testing.assert_array_equal(items.numpy(), expected)
        np.testing.assert_array_equal(values.numpy(), np.take_along_axis(scores, expected, -1))


@settings(max_examples=60, deadline=None)
@given(data=st.data(), rows=st.integers(1, 6), items=st.integers(1, 12), k=st.integers(1, 15))
def test_top_k_is_a_full_sort(data, rows, items, k):
    scores = data.draw(hnp.arrays(np.float32, (rows, items), elements=st.sampled_from([np.float32(x) for x in LEVELS])))
    priority = np.array(data.draw(st.permutations(range(items))))
    assert_sorted(scores, k, priority)


@pytest.mark.parametrize("k", [1, 5, 20, 99, 100, 150])
@pytest.mark.parametrize("levels", [1, 2, 8, 10_000])
@pytest.mark.parametrize("num_items", [100, 3001])
def test_top_k_with_heavy_ties(k, levels, num_items):
    """Three dimensions [R, B, I], as the ranker has them."""
    rng = np.random.default_rng(levels)
    scores = rng.integers(0, levels, (2, 30, num_items)).astype(np.float32)
    scores[rng.random(scores.shape) < 0.3] = -np.inf
    scores[0, 0], scores[0, 1] = 7, -np.inf
    assert_sorted(scores, k, rng.permutation(num_items))


def test_top_k_of_one_row():
    for values, items in both_forms(torch.tensor([1.0, 3.0, 3.0, 2.0]), 2, torch.tensor([0, 3, 1, 2])):
        assert items.tolist() == [2, 1]
        assert values.tolist() == [3, 3]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("k", [1, 20, 128, 129])
@pytest.mark.parametrize("levels", [2, 10_000])
def test_what_was_seen_comes_behind(k, levels, threads):
    """Some have seen nearly everything, so that their lists end in seen items: those in the order of priority too."""
    rng = np.random.default_rng(k)
    users, items = 300, 150
    seen = csr(users, items, np.argwhere(rng.random((users, items)) < rng.choice([0, 0.3, 0.97], (users, 1))))
    owners = rng.permutation(users)[:200]
    scores = rng.integers(0, levels, (2, len(owners), items)).astype(np.float32)
    priority = rng.permutation(items)
    masked = scores.copy()
    for place, owner in enumerate(owners):
        masked[:, place, seen.items[seen.ptr[owner] : seen.ptr[owner + 1]]] = -np.inf
    expected = full_sort(masked, k, priority)
    tables = Seen(*(torch.from_numpy(part) for part in (seen.ptr, seen.items, owners)))
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        for best, found in both_forms(torch.from_numpy(scores), k, torch.from_numpy(priority), tables):
            np.testing.assert_array_equal(found.numpy(), expected)
            np.testing.assert_array_equal(best.numpy(), np.take_along_axis(masked, expected, -1))
    finally:
        torch.set_num_threads(before)


MIXED = """
import numpy as np, scipy.sparse as sp, torch
from accord.kernels.neighbours import neighbour_scores
from accord.kernels.top_k import reference_top_k, top_k

x, ones = sp.csr_matrix(np.eye(9, 8, dtype=np.float32)), np.ones(9, np.float32)
neighbour_scores(x, ones, np.arange(9), x.T.tocsr(), x, ones, 0.0, 2)  # its kernel sorts, and is loaded first
scores, priority = torch.arange(300.0).remainder(2).view(2, 150), torch.randperm(150)
for one, other in zip(top_k(scores, 20, priority), reference_top_k(scores, 20, priority)):
    assert torch.equal(one, other)
"""


def test_kernels_that_were_compiled_before_do_not_mix():
    """numba names what a kernel calls by number: np.argsort of one, loaded from its cache, was np.sort of another."""
    pytest.importorskip("numba", reason="numba is not installed (accord[fast])")
    for kernels in (cpu_loops, neighbour_loops):
        assert "argsort(" not in inspect.getsource(kernels)
    done = subprocess.run([sys.executable, "-c", MIXED], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_what_is_no_number_is_not_recommended():
    pytest.importorskip("numba", reason="numba is not installed (accord[fast])")
    scores = torch.tensor([[torch.nan, 1.0, -torch.inf, 2.0]])
    values, items = top_k(scores, 4, torch.tensor([3, 0, 1, 2]))
    assert items.tolist() == [[3, 1, 2, 0]]
    assert values.tolist() == [[2, 1, -torch.inf, -torch.inf]]


def test_ties_at_the_end_of_a_list_are_sorted_in_small_parts(monkeypatch):
    scores = np.random.default_rng(0).integers(0, 3, (50, 40)).astype(np.float32)
    monkeypatch.setattr(best, "SORTED_BYTES", 1)
    assert_sorted(scores, 10, np.random.default_rng(1).permutation(40))


def test_one_list_is_ranked_without_what_was_seen_and_what_is_barred():
    scores, priority = torch.tensor([0.5, 3.0, 2.0, 2.0, 1.0]), torch.tensor([0, 1, 3, 2, 4])
    values, items = top_k_of_one(scores.clone(), 3, priority, torch.tensor([1]))
    assert items.tolist() == [3, 2, 4]
    assert values.tolist() == [2.0, 2.0, 1.0]
    barred = torch.tensor([False, False, False, True, False])
    assert top_k_of_one(scores.clone(), 2, priority, torch.tensor([1]), barred)[1].tolist() == [2, 4]
