"""The page about stores shows what was measured."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return importlib.import_module("scale_store")


def test_the_page_says_what_was_measured(benchmark: Any) -> None:
    page = benchmark.PAGE.read_text(encoding="utf-8")
    results = json.loads(benchmark.RESULTS.read_text(encoding="utf-8"))
    assert benchmark.MARK + benchmark.table(results) + "<!-- end -->" in page, "run benchmarks/scale_store.py --page"
    assert set(results) >= {"make", *benchmark.STEPS}


def test_a_bound_that_is_missed_is_called_so(benchmark: Any) -> None:
    results = json.loads(benchmark.RESULTS.read_text(encoding="utf-8"))
    for step, bound in (("prepare", 6), ("train", 8), ("recommend", 4)):
        for resident, told in ((bound * 1e9, "met"), (bound * 1.01e9, "**missed**")):
            results[step]["resident_bytes"] = resident
            assert f"| {bound} GB, {told} |" in benchmark.table(results)


def test_a_process_is_watched(benchmark: Any) -> None:
    code = "import time; x = bytearray(300_000_000); time.sleep(0.3)"
    found = benchmark.watched([sys.executable, "-c", code])
    assert 300e6 < found["resident_bytes"] < 400e6
    assert found["resident_bytes"] >= found["own_bytes_at_peak"] > 290e6
