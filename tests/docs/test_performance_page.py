"""docs/performance.md says what the results say."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
BENCHMARKS = ROOT / "benchmarks"


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("page")


@pytest.fixture
def results() -> Any:
    return json.loads((BENCHMARKS / "results.json").read_text(encoding="utf-8"))


@pytest.fixture
def gpu() -> tuple[str, list[dict[str, Any]]]:
    device, *lines = (BENCHMARKS / "gpu-results.jsonl").read_text(encoding="utf-8").splitlines()
    return device, [json.loads(line) for line in lines]


def test_page_is_current(page: ModuleType, results: Any, gpu: Any) -> None:
    shown = (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")
    assert page.page(results, *gpu) == shown, "run `python benchmarks/page.py`"


def test_plots_are_current(page: ModuleType, results: Any) -> None:
    for name, drawing in page.plots.every(results).items():
        assert (ROOT / "docs" / "images" / name).read_text(encoding="utf-8") == drawing, name


def row(text: str, start: str) -> str:
    return next(line for line in text.splitlines() if line.startswith(f"| {start}"))


def test_text_follows_the_figures(page: ModuleType, results: Any, gpu: Any) -> None:
    """The same sentence cannot stand beside a target that is met and one that is missed."""
    device, lines = gpu
    ours = results["neumf"]["libraries"]["ours"]
    measured = ours["epoch"]
    for factor, met in ((1e-3, True), (1e3, False)):
        ours["epoch"] = [[factor * wall, factor * cpu] for wall, cpu in measured]
        text = page.page(results, device, lines)
        bounds = text[text.index("## What bounds the misses") : text.index("## On a GPU")]
        assert ("**missed**" in row(text, "NeuMF, an epoch")) is not met
        assert ("NeuMF, an epoch" in bounds) is not met
        assert ("NeuMF, dim 32, batch 2048, an epoch: " in text) is not met  # a peer is faster
    ours["epoch"] = measured
    slow = [line | {"train": 100.0} for line in lines]
    assert "**missed**" in row(page.page(results, device, slow), "GPU: `gmf-deca`, training")


def test_extrapolated_epoch(page: ModuleType) -> None:
    """Drawing and looking at every row are counted once; the rest as often as there are steps."""
    times = {"draw": [1, 2], "steps": [10, 20], "settle": [3, 5], "look": [1, 1]}
    assert page.epoch_of({**times, "taken": 10, "of": 100}) == (1 + 1 + 12 * 10, 2 + 1 + 24 * 10)


def test_slope(page: ModuleType) -> None:
    times = {"draw": [0, 0], "settle": [0, 0], "look": [0, 0], "taken": 1, "of": 1}
    sizes = [{**times, "steps": [0, n**1.5], "pairs": n} for n in (10, 100, 1000)]
    assert page.slope(sizes) == pytest.approx(1.5)
