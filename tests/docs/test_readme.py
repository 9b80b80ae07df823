"""Runs the README: every command and script in order, in one folder, and compares what is shown with what comes out."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from statistics import fmean

import pytest

from accord.consensus.families import plan_search
from accord.data.simulate import simulate
from accord.evaluation.evaluate import Relevant
from accord.models.base import Shape
from accord.protocol import CORRECTED
from documents import BLOCK, ROOT, assert_same, run

INSTALL = ("make", "pip")  # what sets up is not run here; that it exists is checked


def blocks() -> list[tuple[str, str]]:
    """Language and content of every code block."""
    return BLOCK.findall((ROOT / "README.md").read_text(encoding="utf-8"))


def examples() -> list[tuple[str, str, str]]:
    """Language, code, and the output shown below it ("" if none is), of what can be run here."""
    found = blocks()
    shown = [content if language == "text" else "" for language, content in found[1:]] + [""]
    return [
        (language, code, output)
        for (language, code), output in zip(found, shown, strict=True)
        if language != "text" and not code.startswith(INSTALL)
    ]


def demo_output() -> str:
    """What is shown below `make demo`."""
    found = blocks()
    number = next(number for number, (_, code) in enumerate(found) if "make demo" in code)
    assert found[number + 1][0] == "text"
    return found[number + 1][1]


def test_examples(tmp_path: Path) -> None:
    found = examples()
    assert len(found) >= 4
    for language, code, shown in found:
        printed = run(language, code, tmp_path)
        if shown:
            assert_same(shown, printed)
        else:
            assert not printed, "what is printed should be shown"


@pytest.mark.heavy
def test_demo_table(tmp_path: Path) -> None:
    """One seed instead of three, to be quick: the means must be near."""
    shown = re.sub(r" ± \S+", "", demo_output())
    assert_same(shown, run("bash", "accord demo --seeds 1", tmp_path, started=True))


# `accord demo` with a short search, and without the rows that train until they are best, which
# `make heavy` has.
LEFT_OUT = "gmf + "
DEMO = """
import sys
from accord.cli import demo
from accord.cli.app import main
from accord.training import plan as planning

demo.ROWS = [row for row in demo.ROWS if row[0] != "gmf"]
plan = planning.plan
planning.plan = lambda data, model, method, **more: plan(
    data, model, method, options={"model.budget": 4} if model == "auto" else None, **more
)
sys.argv = ["accord", "demo", "--seeds", "1"]
main()
"""
AUTO = re.compile(r"^auto +(0\.\d+) +(0\.\d+)", re.MULTILINE)
TRIES = re.compile(r"^auto tries .*", re.MULTILINE)


def test_demo_table_with_a_short_search(tmp_path: Path) -> None:
    """What a search plans to do is as shown, and so is everything else; what a short one reaches is not far from it."""
    lines = re.sub(r" ± \S+", "", demo_output()).splitlines()
    shown = "\n".join(line for line in lines if not line.startswith(LEFT_OUT))
    assert len(shown.splitlines()) == len(lines) - 3
    data = simulate().dataset
    judged = Relevant.of_validation(data, CORRECTED).sampled()
    shape = replace(Shape.of(data.training_csr()), num_judged=len(judged.users))
    assert TRIES.findall(shown) == [plan_search(shape, 120).sentence(120)]
    printed = run("python", DEMO, tmp_path)
    assert len(TRIES.findall(printed)) == 1
    reached, expected = ([float(figure) for figure in AUTO.findall(text)[0]] for text in (printed, shown))
    assert reached == pytest.approx(expected, abs=0.05)
    assert_same(*(AUTO.sub("auto 0.3 0.2", TRIES.sub("", text)).replace("\n\n", "\n") for text in (shown, printed)))


def test_make_targets_and_files_exist() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    commands = [line for language, code in blocks() if language == "bash" for line in code.splitlines()]
    targets = [target for line in commands if line.startswith("make ") for target in line.split()[1:]]
    assert {"demo", "test"} <= set(targets)
    for target in targets:
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
    for line in commands:
        if line.startswith("pip "):
            assert line == "pip install -c constraints.txt -e ."
            assert (ROOT / "constraints.txt").is_file()


def test_the_table_is_that_of_the_raw_results() -> None:
    """What `auto` reaches beside families of the same search, whichever is best in bold, and its mean gain."""
    columns = {"EASE": ("ease", "sparse-ease"), "item k-nearest neighbours": ("item-knn",), "iALS": ("ials",),
               "popularity": ("popularity",)}  # fmt: skip
    gains, sure, table = (
        [],
        [],
        ["| NDCG@20 | `auto` | " + " | ".join(columns) + " |", "|---|" + "---|" * (len(columns) + 1)],
    )
    for line in map(json.loads, (ROOT / "benchmarks" / "auto.jsonl").read_text(encoding="utf-8").splitlines()):
        tried = [[line["families"][one] for one in names if one in line["families"]] for names in columns.values()]
        figures = [line["test"]["ndcg@20"], *(max(own, key=lambda one: one["valid"])["test"] for own in tried)]
        cells = [f"**{figure:.4f}**" if figure == max(figures) else f"{figure:.4f}" for figure in figures]
        table.append("| " + " | ".join([line["log"], *cells]) + " |")
        gains.append(figures[0] / figures[1] - 1)
        sure.append(line["ease"]["p"] < 0.05)
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "\n".join(table) in text
    said = " ".join(text.split())
    assert f"On average `auto` is {100 * fmean(gains):.1f}% above EASE, below it on none, and" in said
    assert f"significantly above it on {sum(sure)} of {len(sure)} (p < .05, paired over the users):" in said
    assert min(gains) > 0
