"""Where the real data is, for the tests that need it; `--quick`; their order; how hypothesis behaves."""

from __future__ import annotations

import gc
import os
import sys
from collections import defaultdict
from pathlib import Path

import hypothesis
import pytest

import order
import quick
import started

TESTS = Path(__file__).parent

hypothesis.settings.register_profile("accord", deadline=None)  # a busy machine is no reason to fail
hypothesis.settings.load_profile("accord")

# Else every worker compiles all tests anew, and every process that a test starts all of accord.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--quick", action="store_true", help="only the tests worth running at every save: tests/quick.py")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    return True if config.getoption("--quick") and quick.skips_file(collection_path) else None


def pytest_configure(config: pytest.Config) -> None:
    """The workers fork commands from one process, which imports and compiles what they need while they collect."""
    workers = config.getoption("numprocesses", default=None)
    if workers and not config.getoption("--quick") and not hasattr(config, "workerinput"):
        os.environ[started.SHARED] = str(started.begin())


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--quick"):
        _leave_out(config, items)
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    if workers > 1:
        items[:] = order.dealt(items, [item.path.relative_to(TESTS).parts[0] for item in items], workers)


def pytest_collection_finish() -> None:
    """What was imported and collected stays to the end: no garbage collection need look at it again."""
    gc.collect()
    gc.freeze()


def _leave_out(config: pytest.Config, items: list[pytest.Item]) -> None:
    tests: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if not quick.skips_test(getattr(item, "originalname", item.name), set(getattr(item, "fixturenames", ()))):
            tests[item.nodeid.partition("[")[0]].append(item)
    kept = {item for cases in tests.values() for item in quick.some(cases)}
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = [item for item in items if item in kept]


def data_folder() -> Path | None:
    """$ACCORD_DATA, or shared/data beside the checkout."""
    given = os.environ.get("ACCORD_DATA")
    folder = Path(given) if given else Path(__file__).resolve().parents[2] / "shared" / "data"
    return folder if folder.is_dir() else None


@pytest.fixture
def few_penalties(monkeypatch: pytest.MonkeyPatch) -> None:
    """Labels are learned with the better of two sets of penalties. The search from there takes most of the time of a
    small log; tests/posteriors has its tests."""
    monkeypatch.setattr("accord.posteriors.logistic.STEPS", ())


@pytest.fixture
def shared_data() -> Path:
    """The folder of the paper's datasets; the test is skipped where there is none."""
    folder = data_folder()
    if folder is None:
        pytest.skip("the paper's datasets are not here; set ACCORD_DATA to their folder")
    return folder
