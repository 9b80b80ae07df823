"""Where the real data is, for the tests that need it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


def data_folder() -> Path | None:
    """$ACCORD_DATA, or shared/data beside the checkout."""
    given = os.environ.get("ACCORD_DATA")
    folder = Path(given) if given else Path(__file__).resolve().parents[2] / "shared" / "data"
    return folder if folder.is_dir() else None


@pytest.fixture
def shared_data() -> Path:
    """The folder of the paper's datasets; the test is skipped where there is none."""
    folder = data_folder()
    if folder is None:
        pytest.skip("the paper's datasets are not here; set ACCORD_DATA to their folder")
    return folder
