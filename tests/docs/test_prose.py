"""Figures in prose that are not generated, against the code or the raw files that they come from."""

from __future__ import annotations

import json
import re
from pathlib import Path

from accord.comparing.compare import Request
from accord.evaluation import evaluate, selection
from accord.methods import auto, candidates
from accord.models.auto import Auto
from accord_lab.paper_tables.reproduce import EXPERIMENTS
from helpers import small_data

DOCS = Path(__file__).parents[2] / "docs"
NUMBERS = {1: "one", 3: "three", 6: "six", 8: "eight"}


def words(name: str) -> str:
    return " ".join((DOCS / name).read_text(encoding="utf-8").split())


def test_how_many_runs_an_experiment_has() -> None:
    text = (DOCS / "reproduction" / "README.md").read_text(encoding="utf-8")
    told = dict(re.findall(r"^\| `(\w+)` \|.*\| ([\d,]+)(?: \(not Adressa\))? \|$", text, re.M))
    assert set(told) == set(EXPERIMENTS)
    for name, experiment in EXPERIMENTS.items():
        request = experiment.prepare(Request(small_data(), "published", 3))
        cells = experiment.cells(request, experiment.models, experiment.methods)
        runs = sum(3 if cell.method else 1 for cell in cells)
        datasets = [one for one in experiment.datasets if one not in (*experiment.lacking, "electronics")]
        assert int(told[name].replace(",", "")) == runs * len(datasets), name
        assert ("adressa" in experiment.lacking) == (
            f"`{name}` " in text and _line(text, name).endswith("(not Adressa) |")
        )


def _line(text: str, name: str) -> str:
    return next(line for line in text.splitlines() if line.startswith(f"| `{name}` |"))


def test_seeds_and_trials_of_the_leaderboard() -> None:
    folder = DOCS / "reproduction" / "corrected"
    told = words("reproduction/corrected/README.md")
    lines = [json.loads(line) for line in (folder / "leaderboard.jsonl").read_text().splitlines()]
    seeds: dict[tuple[str, ...], set[int]] = {}
    for line in lines:
        if line["method"] != "none":  # solved models have no seeds
            seeds.setdefault((line["dataset"], line["model"], line["method"]), set()).add(line["seed"])
    assert {len(own) for own in seeds.values()} == {10}
    assert "tuned equally, 10 seeds;" in told


def test_what_is_said_of_the_search() -> None:
    told = words("auto.md")
    assert f"in seconds of two ordinary cores, {Auto.Config().budget:g} if not given" in told
    assert f"up to {NUMBERS[candidates.MOST_TRIALS]}" in told
    assert f"by at most {evaluate.MOST_SAMPLED:,} of its users" in told
    assert f"fewer with more than {evaluate.MOST_JUDGED // evaluate.MOST_SAMPLED // 1000},000 items" in told
    assert f"{NUMBERS[selection.STEPS]} times, the member is added" in told
    assert f"on {NUMBERS[selection.DRAWS]} draws" in told
    assert "less than a twentieth of the votes" in told
    assert selection.LEAST == 1 / 20
    first, second, third = candidates.RECENCIES
    assert f"every {first}, {second} or {third} later ones" in told
    assert f"more than {NUMBERS[int(auto.FAR_OVER)]} times its budget and a minute" in told
    assert "better on the validation by more than a hundredth" in told
    assert candidates.PAYS == 1.01
    assert auto.QUALITY == 1 / 5
    assert "is the quality of the items, a fifth" in told
    assert (auto.CLEAN, auto.OF_VOTE) == (1 / 10, 1 / 2)
    assert "a tenth and half of the vote that it has" in told
    assert "the best of `" + "`, `".join(auto.CLEANED[:-1]) + f"` and `{auto.CLEANED[-1]}` vote once more" in told
