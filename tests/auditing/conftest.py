"""One audit of simulated clicks, from which several tests take what they look at."""

from __future__ import annotations

import pytest

import accord
from audit_logs import clicks, limit_verdict


@pytest.fixture(scope="session")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("audit")
    path = clicks(folder)
    with pytest.MonkeyPatch.context() as patch:
        limit_verdict(patch, epochs=2)
        result = accord.audit(
            path,
            items=folder / "items.csv",
            split="random",
            seeds=2,
            device="cpu",
            out=folder / "audit",
            command="it",
        )
    return result, folder
