"""What denoising costs: the page is what its raw lines say, and its sentences follow the figures."""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "reproduction" / "cost"


@pytest.fixture
def cost(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return importlib.import_module("cost")


def test_the_page_is_what_its_raw_lines_say(cost, tmp_path):
    (tmp_path / "cost.jsonl").write_text((FOLDER / "cost.jsonl").read_text(encoding="utf-8"), encoding="utf-8")
    cost.page(tmp_path)
    assert (tmp_path / "cost.md").read_text(encoding="utf-8") == (FOLDER / "cost.md").read_text(encoding="utf-8")


def test_every_model_and_method_was_measured_as_often(cost):
    lines = [json.loads(line) for line in (FOLDER / "cost.jsonl").read_text(encoding="utf-8").splitlines()]
    for own in cost.groups(lines).values():
        counts = [sum(line["method"] == method for line in own) for method in cost.METHODS]
        assert min(counts) == max(counts) > 1
    assert {model for *_, model in cost.groups(lines)} == set(cost.MODELS)


def line(model, method, turn, cpu):
    both = {"dataset": "d", "device": "cpu", "on": "x", "epochs": 1, "peak": 1, "commit": "c"}
    return both | {"model": model, "method": method, "turn": turn, "cpu": cpu, "seconds": 9.0}


def test_sentences_follow_the_figures(cost):
    lines = [
        line(model, method, turn, times * (1 + turn))
        for model, both in {"mf": (1.5, 2.1), "gmf": (2.5, 2.2)}.items()
        for method, times in zip(cost.METHODS, (1.0, *both), strict=True)
        for turn in (0, 1)
    ]
    deca, deca_p = cost.sentences(lines)
    assert deca == "DeCA takes 1.5 to 2.5 times Normal's time on d (a CPU): well under twice for MF; not for GMF (2.5)."
    assert "at most about twice for every model, as the paper says" in deca_p
    again = [line("mf", "deca", turn, 1.1) for turn in (0, 1)]  # measured again: the last counts
    assert "0.8 to 2.5 times" in cost.sentences([*lines, *again])[0]
