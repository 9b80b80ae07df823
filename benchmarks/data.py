"""The training pairs that every library gets: those of ml-100k where its files are, or generated ones of its shape."""

from __future__ import annotations

from pathlib import Path

import gpu
import numpy as np

from accord.data.csr import IntArray
from accord.data.load import load_named
from accord.errors import InputError

ML_100K = 79_619, 943, 1_609  # pairs, users, items


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
