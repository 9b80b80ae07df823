"""The command that made docs/reproduction/published/rules.jsonl: the same rules, and lines of the same form."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
import torch

from accord.comparing.compare import Request
from accord_lab.methods.baselines import Ensemble
from helpers import script, small_data

FOLDER = Path(__file__).parents[2] / "docs" / "reproduction"
LINES = [json.loads(line) for line in (FOLDER / "published" / "rules.jsonl").read_text().splitlines()]


@pytest.fixture(scope="module")
def try_rules() -> ModuleType:
    return script(FOLDER.parent / "try_rules.py", "try_rules")


def test_the_rules_are_those_of_the_file(try_rules: ModuleType) -> None:
    for method, rules in try_rules.RULES.items():
        kept = {json.dumps(line["rule"]) for line in LINES if line["method"] == method}
        assert kept == {json.dumps(rule) for rule in rules}
    assert {line["method"] for line in LINES} == set(try_rules.RULES)
    assert {line["dataset"] for line in LINES} == set(try_rules.DATASETS)


@pytest.mark.parametrize("method", ["wbpr", "tce", "ensemble"])
def test_lines_of_the_same_form(
    method: str, try_rules: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(try_rules.RULES, method, try_rules.RULES[method][-2:])
    request = Request(
        replace(small_data(), name="modcloth"),
        "published",
        2,
        epochs=1,
        device="cpu",
        per_user=False,
        say=lambda _: None,
    )
    found = try_rules.lines(request, "gmf", method, tmp_path)
    assert [(line["rule"], line["seed"]) for line in found] == [
        (rule, seed) for rule in try_rules.RULES[method] for seed in (2019, 2020)
    ]
    kept = next(line for line in LINES if (line["method"], line["dataset"]) == (method, "modcloth"))
    for line in found:
        assert list(line) == list(kept)
        assert list(line["metrics"]) == list(kept["metrics"])
    assert try_rules.lines(request, "gmf", method, tmp_path) == found  # from the folder


def test_a_share_is_of_all_steps(try_rules: ModuleType) -> None:
    data = replace(small_data(), name="modcloth")
    whole = try_rules.steps(data, "gmf", "tce", 10)
    assert whole == 10  # all pairs are in one batch of 2048
    assert dict(try_rules.cell({"share": 0.5, "drop": 0.1}, data, "gmf", "tce", 10).options) == {
        "method.drop": 0.1, "method.ramp": 5,
    }  # fmt: skip


def test_ways_to_average(try_rules: ModuleType) -> None:
    members = torch.tensor([[[2.0, 1.0, -8.0]], [[-1.0, 0.5, 1.5]]])  # [2 members x 1 run, 1 user, 3 items]
    one = SimpleNamespace(members=2, target=SimpleNamespace(score_all=lambda _: members))

    def scores() -> list[float]:
        return list(Ensemble.score_all(one, None)[0, 0].tolist())

    own = scores()
    with try_rules.averaging("score"):
        assert scores() == [0.5, 0.75, -3.25]
    with try_rules.averaging("rank"):
        assert scores() == [-1.0, -1.0, -1.0]  # first and last, second twice, last and first
    with try_rules.averaging("probability"):
        assert scores() == own
    assert scores() == own
