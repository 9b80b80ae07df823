"""A small store, and bounds so small that little data has many chunks."""

from __future__ import annotations

from pathlib import Path

import pytest

from accord.data import sources, text
from accord.data.store import prepare as prepare_module
from accord.data.store import store as opened_module
from accord.data.store.prepare import prepare
from logs import log_table, write_log


@pytest.fixture
def in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every bound so small that little data needs many chunks and ranges."""
    monkeypatch.setattr(sources, "BATCH_ROWS", 97)
    monkeypatch.setattr(text, "TEXT_BLOCK", 2**11)
    monkeypatch.setattr(prepare_module, "BYTES_A_ROW", 2**25)
    monkeypatch.setattr(opened_module, "PAIRS_AT_ONCE", 61)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    prepare(write_log(tmp_path / "log.csv", log_table()), tmp_path / "store")
    return tmp_path / "store"
