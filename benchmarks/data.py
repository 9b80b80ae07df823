"""The training pairs that every library gets: those of ml-100k where its files are, or generated ones of its shape."""

from __future__ import annotations

from pathlib import Path

import gpu
import numpy as np

from accord.data.csr import IntArray
from accord.data.load import load_named
from accord.errors import InputError

ML_100K = 79_619, 943, 1_609  # pairs, users, items
GROUPS = 50


def generated(num_pairs: int, num_users: int, num_items: int, seed: int = 0) -> tuple[IntArray, IntArray]:
    """Different pairs in which activity and popularity fall off as in real logs; every user and item occurs."""
    rng = np.random.default_rng(seed)
    activity = rng.permutation(1 / np.arange(1, num_users + 1) ** 0.5)
    popularity = rng.permutation(1 / np.arange(1, num_items + 1) ** 0.8)
    first = np.arange(max(num_users, num_items))
    keys = first % num_users * num_items + first % num_items
    while len(keys) < num_pairs:
        missing = num_pairs - len(keys)
        users = np.searchsorted(activity.cumsum(), rng.random(missing + missing // 4) * activity.sum())
        items = np.searchsorted(popularity.cumsum(), rng.random(len(users)) * popularity.sum())
        keys = np.unique(np.concatenate([keys, users * num_items + items]))
    extra = rng.choice(len(keys), len(keys) - num_pairs, replace=False)
    keys = np.delete(keys, extra)
    return keys // num_items, keys % num_items


def grouped(num_pairs: int, num_users: int, num_items: int, seed: int = 7) -> tuple[IntArray, IntArray]:
    """Different pairs, at most so many, of users who mostly take items of their own of 50 groups: what a model can
    find. Activity and popularity fall off as in real logs."""
    rng = np.random.default_rng(seed)
    own, items = rng.integers(0, GROUPS, num_users), rng.permutation(num_items)
    activity = (rng.pareto(1.5, num_users) + 1).cumsum()
    users = np.searchsorted(activity, rng.random(num_pairs) * activity[-1])
    group = np.where(rng.random(num_pairs) < 0.7, own[users], rng.integers(0, GROUPS, num_pairs))
    size = num_items // GROUPS
    place = np.minimum((rng.pareto(1.0, num_pairs) * size / 30).astype(np.int64), size - 1)
    keys = np.unique(users * num_items + items[group * size + place])
    return keys // num_items, keys % num_items


def held_out(path: Path, users: IntArray, items: IntArray, seed: int = 0) -> Path:
    """For the workers: a tenth of the pairs, at random, for validation and a tenth for the test."""
    part = np.random.default_rng(seed).choice(3, len(users), p=(0.8, 0.1, 0.1))
    parts = {name: part == number for number, name in enumerate(("", "valid_", "test_"))}
    return write_parts(path, {name: (users[own], items[own]) for name, own in parts.items()})


def split(name: str, path: Path) -> Path:
    """For the workers: a log of the paper, with the parts that it is published in; without it, a generated one."""
    try:
        log = load_named(name)
    except InputError:
        return held_out(path, *grouped(*ML_100K))
    rows = {"": log.csr(log.train), "valid_": log.csr(log.valid), "test_": log.csr(log.test)}
    return write_parts(path, {part: (own.users, own.items) for part, own in rows.items()})


def write_parts(path: Path, parts: dict[str, tuple[IntArray, IntArray]]) -> Path:
    users, items = (np.concatenate([own[side] for own in parts.values()]) for side in (0, 1))
    arrays = {f"{name}{side}": own[k] for name, own in parts.items() for k, side in enumerate(("users", "items"))}
    np.savez(path, num_users=users.max() + 1, num_items=items.max() + 1, **arrays)
    return path


def ml_100k() -> tuple[str, IntArray, IntArray]:
    try:
        data = load_named("ml-100k")
    except InputError:
        return "generated, of ml-100k's shape", *generated(*ML_100K)
    rows = data.csr(data.train)
    users, items = (np.unique(part, return_inverse=True)[1] for part in (rows.users, rows.items))
    return "ml-100k", users, items


def electronics_shape() -> tuple[IntArray, IntArray, int, int]:
    """The training pairs of the shape that benchmarks/gpu.py makes, and how many users and items are known."""
    data = gpu.electronics_shape()
    rows = data.csr(data.train)
    return rows.users, rows.items, rows.num_users, rows.num_items


def write(path: Path, users: IntArray, items: IntArray, num_users: int = 0, num_items: int = 0) -> Path:
    """For the workers. More users and items may be known than occur."""
    size = {"num_users": max(num_users, users.max() + 1), "num_items": max(num_items, items.max() + 1)}
    np.savez(path, users=users, items=items, **size)
    return path
