"""No search of these tests is ended by the clock, however busy the machine is."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="module", autouse=True)
def _no_clock() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("accord.consensus.search.FAR_OVER", float("inf"))
        yield
