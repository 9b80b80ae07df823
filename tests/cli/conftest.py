"""A click log to work with."""

from __future__ import annotations

import numpy as np
import pytest


@pytest.fixture
def clicks(tmp_path, monkeypatch):
    """A folder with a click log in it, to work in."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(3)
    rows = {(f"u{rng.integers(40)}", f"i{int(30 * rng.random() ** 2)}") for _ in range(900)}
    lines = [f"{user},{item},{rng.integers(1, 6)},{n}" for n, (user, item) in enumerate(sorted(rows))]
    (tmp_path / "clicks.csv").write_text("user,item,rating,time\n" + "\n".join(lines) + "\n")
    return tmp_path
