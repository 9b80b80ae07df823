"""Data whose test is garbage: whatever is chosen by anything but the test stays the same to the bit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from accord.data.interactions import Dataset, Interactions


def with_garbage_test(data: Dataset, seed: int = 0) -> Dataset:
    """The same data with a test, clean and noisy, of random pairs, values and labels.

    Where there are times, the test still comes after the validation.
    """
    rng = np.random.default_rng(seed)
    parts = [part for part in (data.train, data.valid, data.test) if part.has_time]
    latest = max((float(part.column("time").max()) for part in parts), default=0.0)

    def garbage(part: Interactions | None) -> Interactions | None:
        if part is None:
            return None
        number, columns = len(part), {}
        if part.has_time:
            columns["time"] = latest + rng.random(number)
        if part.has_value:
            columns["value"] = rng.integers(0, 2, number).astype(float)
        if "label" in part.names:
            columns["label"] = rng.integers(0, 2, number).astype(float)
        users, items = (ids.take(rng.integers(0, len(ids), number)) for ids in (data.users.ids, data.items.ids))
        return Interactions.of(users, items, **{name: pa.array(values) for name, values in columns.items()})

    test = garbage(data.test)
    assert test is not None
    return replace(data, test=test, test_noisy=garbage(data.test_noisy))
