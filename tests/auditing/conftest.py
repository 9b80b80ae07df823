"""One audit of simulated clicks, from which several tests take what they look at."""

from __future__ import annotations

import pytest

import accord
from accord.auditing import crossfit
from accord.io.noted import noting
from audit_logs import clicks, limit_verdict


@pytest.fixture(scope="session")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("audit")
    path = clicks(folder)
    with pytest.MonkeyPatch.context() as patch:
        limit_verdict(patch, epochs=2)
        patch.setattr(crossfit, "EPOCHS", 14)
        with noting(command="it"):
            found = accord.audit(
                path, items=folder / "items.csv", split="random", folds=2, device="cpu", out=folder / "audit"
            )
    return found, folder
