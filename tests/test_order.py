"""The order of the tests among several workers."""

from __future__ import annotations

from pathlib import Path

import pytest

import order

FOLDERS = [*("auditing",) * 3, *("data",) * 20, *("docs",) * 5, *("lab",) * 4, *("io",) * 10]


@pytest.mark.parametrize("workers", [1, 2, 3, 5])
def test_every_test_is_there_once(workers):
    assert sorted(order.dealt(range(len(FOLDERS)), FOLDERS, workers)) == list(range(len(FOLDERS)))


def test_every_worker_begins_with_slow_folders_and_ends_with_quick_ones():
    found = [FOLDERS[test] for test in order.dealt(range(len(FOLDERS)), FOLDERS, 2)]
    half = len(FOLDERS) // 2
    assert found[:half] == ["lab"] * 4 + ["auditing"] * 3 + ["data"] * (half - 7)
    assert found[half:] == ["docs"] * 5 + ["data"] * (20 - half + 7) + ["io"] * 10


def test_slow_folders_without_quick_ones_are_all_there():
    assert order.dealt("abcd", ["docs", "docs", "docs", "cli"], 2) == ["d", "a", "b", "c"]


def test_the_slow_folders_exist():
    assert all((Path(order.__file__).parent / folder).is_dir() for folder in order.SLOW)
