"""Where the real data is, for the tests that need it; `--quick`; how hypothesis behaves."""

from __future__ import annotations

import os
from collections import defaultdict
from pathlib import Path

import hypothesis
import pytest

import quick

hypothesis.settings.register_profile("accord", deadline=None)  # a busy machine is no reason to fail
hypothesis.settings.load_profile("accord")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--quick", action="store_true", help="only the tests worth running at every save: tests/quick.py")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    return True if config.getoption("--quick") and quick.skips_file(collection_path) else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("--quick"):
        return
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
def shared_data() -> Path:
    """The folder of the paper's datasets; the test is skipped where there is none."""
    folder = data_folder()
    if folder is None:
        pytest.skip("the paper's datasets are not here; set ACCORD_DATA to their folder")
    return folder
