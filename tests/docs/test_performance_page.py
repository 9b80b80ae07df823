"""docs/performance.md and its record say what the results say."""

from __future__ import annotations

import importlib
import json
import re
import sys
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
def gpu(page: ModuleType) -> tuple[list[dict[str, Any]], dict[str, Any], list[dict[str, Any]], dict[str, Any]]:
    lines, optimisers = (page.read_lines(BENCHMARKS / f"{name}.jsonl") for name in ("gpu-results", "optimiser"))
    released, versions = (
        json.loads((BENCHMARKS / f"{name}.json").read_text(encoding="utf-8")) for name in ("released", "versions")
    )
    return lines, released, optimisers, versions


def test_page_is_current(page: ModuleType, results: Any, gpu: Any) -> None:
    for name, text in page.pages(results, *gpu).items():
        assert read(name) == text, "run `python benchmarks/page.py`"


def test_plots_are_current(page: ModuleType, results: Any) -> None:
    for name, drawing in page.plots.every(results).items():
        assert (ROOT / "docs" / "images" / name).read_text(encoding="utf-8") == drawing, name


def read(name: str) -> str:
    return (ROOT / "docs" / name).read_text(encoding="utf-8")


def row(text: str, start: str) -> str:
    return next(line for line in text.splitlines() if line.startswith(f"| {start}"))


def test_text_follows_the_figures(page: ModuleType, results: Any, gpu: Any) -> None:
    """The same sentence cannot stand beside a target that is met and one that is missed."""
    lines, *others = gpu
    ours = results["neumf"]["libraries"]["ours"]
    measured = ours["epoch"]
    on_xeon = page.targets.of_processor(page.ON_XEON)[0]
    for factor, met in ((1e-3, True), (1e3, False)):
        ours["epoch"] = [[factor * wall, factor * cpu] for wall, cpu in measured]
        short, text = page.pages(results, lines, *others).values()
        assert ("| **missed** |" in row(text, "NeuMF, an epoch")) is not met
        assert row(text, "NeuMF, an epoch").endswith(f"| {on_xeon.reached}, **missed** |"), "another machine's stays"
        for said in (short, text):  # a peer is faster
            assert ("NeuMF, dim 32, batch 2048, an epoch: " in said) is not met
        assert f"| {on_xeon.reached} |" in row(short, "NeuMF, an epoch")
    ours["epoch"] = measured
    slow = [line | {"train": 100.0} if "case" in line else line for line in lines]
    short, text = page.pages(results, slow, *others).values()
    assert int(re.search(r"meet (\d+);", short)[1]) < int(re.search(r"meet (\d+);", read("performance.md"))[1])
    assert "**missed**" in row(text, "GPU: `gmf-deca`, training")
    assert row(short, "GMF with DeCA on MovieLens-100k, an epoch").endswith("| 5.0000 s |")


def test_every_row_of_the_short_page_has_figures(page: ModuleType, results: Any, gpu: Any) -> None:
    rows = [line for line in page.pages(results, *gpu)["performance.md"].splitlines() if line.startswith("| ")][2:]
    assert len(rows) == len(page.summary.SUMMARY) + 2
    for line in rows:
        assert line.split(" | ")[1].strip(), line


def test_each_part_says_what_it_rests_on(page: ModuleType, results: Any, gpu: Any) -> None:
    """A part that is measured again elsewhere takes nothing from the others."""
    results["mf"] |= {
        "machine": results["mf"]["machine"] | {"processor": "Another", "cores": 3},
        "commit": "abc",
        "when": "2030-01-02",
    }
    text = page.pages(results, *gpu)["records/performance.md"]
    assert "| mf | Another, 3 cores |" in text
    assert row(text, "mf |").count("abc | 2030-01-02") == 1
    assert "; MF on Another. Seconds" in text
    assert text.count("Another") == 2


def test_the_released_code_is_compared_within_one_call(page: ModuleType, results: Any, gpu: Any) -> None:
    text = page.pages(results, *gpu)["records/performance.md"]
    beside = text[text.index("Beside the code that the paper's authors released") :]
    for run in gpu[1]["runs"]:
        theirs, ours = run["released"]["train"], run["accord"]["train"]
        assert f"| `{run['case']}` | {theirs:.1f} | {ours:.3f} | {theirs / ours:.0f} | in one call |" in beside


def test_of_a_cell_that_was_measured_twice_the_last_counts(page: ModuleType, gpu: Any) -> None:
    lines = gpu[2]
    again = lines[0] | {"commit": "later", "test": lines[0]["test"] | {"difference": 1.0, "p": 1e-9}}
    cells = page.optimisers_of([*lines, again])
    assert len(cells) == len(page.optimisers_of(lines))
    assert [cell["commit"] for cell in cells].count("later") == 1
    better = page.optimiser_counts(cells)[lines[0]["dataset"]]["better"]
    worse = [again | {"test": again["test"] | {"difference": -1.0}}]
    assert page.optimiser_counts(page.optimisers_of([*lines, *worse]))[lines[0]["dataset"]]["better"] == better - 1


def test_extrapolated_epoch(page: ModuleType) -> None:
    """Drawing and looking at every row are counted once; the rest as often as there are steps."""
    times = {"draw": [1, 2], "steps": [10, 20], "settle": [3, 5], "look": [1, 1]}
    assert page.epoch_of({**times, "taken": 10, "of": 100}) == (1 + 1 + 12 * 10, 2 + 1 + 24 * 10)


def test_slope(page: ModuleType) -> None:
    times = {"draw": [0, 0], "settle": [0, 0], "look": [0, 0], "taken": 1, "of": 1}
    sizes = [{**times, "steps": [0, n**1.5], "pairs": n} for n in (10, 100, 1000)]
    assert page.slope(sizes) == pytest.approx(1.5)


def test_calls_on_a_gpu_are_taken_together(page: ModuleType) -> None:
    """A case's seconds are the median of its calls; a call that was cut short has fewer cases."""
    one = {"case": "gmf-deca", "train": 0.1, "rank": 0.01, "first": 5.0, "gigabytes": 1.0}
    lines = [
        {"device": "GPU"}, one, one | {"case": "grid-144"}, {"device": "GPU"}, one | {"train": 0.3, "first": 1.0},
        {"device": "GPU"}, one | {"train": 0.2, "later": 0.05, "device_ms": {"Adam": 30.0, "the rest": 10.0}},
        {"cold": "gmf-deca", "kernels": "found", "first": 0.8},
    ]  # fmt: skip
    on, cases, cold = page.gpu_runs(lines)
    assert len(on) == 3
    assert [case["case"] for case in cases] == ["gmf-deca", "grid-144"]
    assert (cases[0]["train"], cases[0]["first"], cases[0]["later"]) == (0.2, 5.0, 0.05)
    assert cases[0]["trains"] == [0.1, 0.3, 0.2]
    assert page.device_shares(cases[0]) == {"Adam": 0.75, "the rest": 0.25}
    assert page.device_busy(cases[0]) == pytest.approx(0.2)
    assert [line["first"] for line in cold] == [0.8]


def test_versions_are_compared_by_the_median_of_their_rounds(page: ModuleType, gpu: Any) -> None:
    versions = {
        "cases": {"EASE": {"old": [2.0, 1.0, 9.0], "new": [1.0, 3.0, 2.0], "same metrics": False}},
        "gpu": {"cases": {"gmf-deca": {"old": [0.2, 0.4], "new": [0.1, 0.2]}}},
    }
    shown = page.versions_table(versions)
    assert "| CPU | EASE | 2.00 | 2.00 | 1.00 | **other** |" in shown
    assert "| GPU | `gmf-deca`, training | 0.300 | 0.150 | 0.50 |  |" in shown


def test_limits_of_the_gpu_by_hand(page: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    import figures

    monkeypatch.setattr(figures, "GPU_COPY", 1e9)
    monkeypatch.setattr(figures, "GPU_PRODUCTS", 1e12)
    lines = [{"case": "neumf-deca", "train": 10.0, "rank": 2.0, "ranked": 100, "items": 1000}]
    training, ranking = page.other_bounds(lines)
    steps = 20 * 39  # of 79,619 pairs, 2,048 at once
    moved = (3 * 32 + 128) * 32 * (944 + 1611 + 2 * 2048)
    operations = 3 * 2 * (256 * 128 + 128 * 64 + 64 * 32) * 2 * 2048
    assert training.least == pytest.approx(steps * max(moved / 1e9, operations / 1e12))
    assert (training.by, training.took) == ("bytes", 10.0)
    assert ranking.least == pytest.approx(100 * 1000 * (2 * 32 + 2 * (128 * 64 + 64 * 32)) / 1e12)
    assert (ranking.by, ranking.took) == ("products", 2.0)


def test_our_own_workers_take_their_turns(page: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What `make bench` asks of a library, of ours and of the products alone; peers are not installed for a test."""
    turn, data = importlib.import_module("turn"), importlib.import_module("data")
    monkeypatch.setitem(turn.PYTHON, True, sys.executable)
    pairs = data.write(tmp_path / "pairs.npz", *data.generated(600, 40, 30))
    case = {"model": "lightgcn", "dim": 8, "batch": 128}
    with turn.working({name: (name, case) for name in ("ours", "products")}, pairs) as workers:
        times = turn.in_turn(workers, ("epoch", "rank"), 1)
    for name, way in (("ours", "blocks by memory"), ("products", "products alone")):
        assert times[name]["way"] == way
        for command in ("epoch", "rank"):
            ((wall, _),) = times[name][command]
            assert wall > 0
