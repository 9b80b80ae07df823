"""Imports follow one direction, held by a table of what each part of the package may import."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import accord

PACKAGE = Path(accord.__file__).parent

# A part is a module or a folder right under src/accord. Whatever a part does not name here it must not import,
# not even inside a function. Add a line for a new part; make a line longer only where DESIGN.md's arrow allows it.
MAY_IMPORT: dict[str, set[str]] = {
    "errors": set(),
    "version": set(),
    "paper": set(),
    "files": {"errors"},
    "tensors": {"errors", "files"},
    "options": {"errors"},
    "protocol": {"errors"},
    "kernels": set(),
    "loops": set(),
    "cpu_kernels": {"loops"},
    "rows": {"cpu_kernels"},
    "draws": set(),
    "ranks": {"errors"},
    "fetching": {"ranks"},
    "layers": {"cpu_kernels", "draws", "errors", "fetching", "kernels", "ranks", "rows"},
    "checkpoints": {"errors", "files", "layers", "ranks", "tensors"},
    "optim": {"kernels", "layers", "rows"},
    "metrics": set(),
    "spreadsheets": set(),
    "data": {"cpu_kernels", "draws", "errors", "files", "spreadsheets"},
    "models": {"cpu_kernels", "data", "errors", "kernels", "layers", "options", "protocol"},  # a model only scores
    "methods": {"data", "errors", "kernels", "layers", "models", "options", "protocol"},  # a method only gives a loss
    "ranking": {"cpu_kernels", "data", "errors", "metrics", "protocol"},
    "recording": {"data", "layers", "optim", "ranks"},
    "threads": set(),
    "training": {"checkpoints", "data", "errors", "layers", "optim", "ranks", "recording", "tensors", "threads"},
    "runs": {"data", "errors", "layers", "methods", "models", "options", "protocol", "training"},
    "lists": {"data", "methods", "ranking"},
    "saved": {"data", "errors", "files", "runs", "tensors"},
    "seen": {"data", "errors", "files"},
    "recommender": {
        *(
            "checkpoints",
            "lists",
            "saved",
            "seen",
            "data",
            "errors",
            "files",
            "tensors",
            "models",
            "methods",
            "protocol",
            "ranking",
            "runs",
            "training",
            "version",
        )
    },
    "nearest": {"data", "errors", "lists"},
    "everybody": {"errors", "files", "ranking", "recommender"},
    "experiment": {
        *("checkpoints", "data", "draws", "errors", "files", "layers", "methods", "models", "options", "paper"),
        *("protocol", "ranking", "ranks", "recommender", "runs", "training"),
    },
    "distributed": {
        *("data", "errors", "experiment", "files", "layers", "methods", "models", "protocol", "ranking", "ranks"),
        *("recommender", "runs", "training"),
    },
    "stacks": {"data", "errors", "experiment", "methods", "recommender", "runs", "training"},
    "workers": {"experiment", "training"},
    "cluster": {"errors", "experiment", "training", "version", "workers"},
    "cluster_ranks": {"cluster", "display", "errors"},
    "noise": {"data", "errors"},
    "significance": {"errors"},
    "render": {"files", "spreadsheets"},
    "results": {"errors", "files"},
    "compare": {
        *("data", "errors", "experiment", "files", "methods", "models", "recommender", "render", "results", "runs"),
        *("significance", "stacks", "training", "workers"),
    },
    "labelled": {"data", "noise", "ranking", "recommender"},
    "tuning": {"compare", "errors", "results"},
    "reproduce": {
        *("compare", "data", "errors", "methods", "noise", "paper", "ranking", "recommender", "render", "results"),
        "runs",
    },
    "ceiling": {"compare", "models", "protocol", "ranking"},
    "charts": {"ceiling", "render", "reproduce"},
    "leaderboard": {
        *("ceiling", "charts", "compare", "data", "errors", "files", "labelled", "methods", "protocol", "ranking"),
        *("render", "results", "significance", "tuning"),
    },
    "injected": {
        *("charts", "compare", "data", "errors", "files", "labelled", "leaderboard", "methods", "recommender"),
        *("render", "results", "tuning"),
    },
    "display": {"data", "errors", "files", "options", "spreadsheets", "training"},  # how things look on the screen
    "report": {
        *("data", "errors", "files", "noise", "protocol", "ranking", "recommender", "render", "runs"),
        *("significance", "version"),
    },
    "auditing": {
        *("compare", "data", "errors", "experiment", "files", "models", "noise", "protocol", "ranking", "render"),
        *("report", "results", "runs", "significance", "spreadsheets", "stacks", "tensors", "training", "version"),
        "workers",
    },
    "doctor": {"data", "display", "errors", "experiment", "version"},
    "serve": {"data", "errors", "files", "lists", "models", "ranking", "recommender"},
    "demo": {"data", "display", "errors", "experiment", "noise", "recommender", "report"},
}
ANYTHING = {
    "__init__",
    "__main__",
    "cli",
    "cli_options",
    "cli_reproduce",
    "cli_audit",
    "cli_compare",
    "cli_prepare",
    "cli_recommend",
    "cli_report",
    "cli_leaderboard",
    "cli_serve",
}  # the public names and the command line


def files() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def part_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported_parts(source: str, path: Path) -> set[str]:
    """The parts of the package that a file imports, by absolute or relative import, anywhere in it."""
    module = ["accord", *path.relative_to(PACKAGE).with_suffix("").parts]
    names: list[str] = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = [node.module] if node.module else []
            if node.level:
                base = [*module[: -node.level], *base]
            start = ".".join(base)
            names += [f"{start}.{alias.name}" for alias in node.names]
    ours = [name.split(".") for name in names if name.split(".")[0] == "accord"]
    return {parts[1] if len(parts) > 1 and is_part(parts[1]) else "__init__" for parts in ours}


def is_part(name: str) -> bool:
    return name in MAY_IMPORT or (PACKAGE / name).is_dir() or (PACKAGE / f"{name}.py").exists()


def test_every_part_is_declared():
    undeclared = {part_of(path) for path in files()} - set(MAY_IMPORT) - ANYTHING
    assert not undeclared, f"say in MAY_IMPORT what {sorted(undeclared)} may import"


@pytest.mark.parametrize("part", sorted(MAY_IMPORT))
def test_a_part_imports_only_what_it_may(part):
    own = [path for path in files() if part_of(path) == part]
    if not own:
        pytest.skip("declared before it is written")
    for path in own:
        found = imported_parts(path.read_text(), path) - {part}
        assert found <= MAY_IMPORT[part], f"{path.relative_to(PACKAGE)} imports {sorted(found - MAY_IMPORT[part])}"


def test_the_table_has_one_direction():
    order = list(TopologicalSorter(MAY_IMPORT).static_order())  # raises where there is a circle
    assert set(order) == set(MAY_IMPORT)
    for before, after in (("data", "models"), ("models", "methods"), ("methods", "runs"), ("runs", "recommender")):
        assert order.index(before) < order.index(after)


def reachable(part: str) -> set[str]:
    found: set[str] = set()
    left = [part]
    while left:
        for name in MAY_IMPORT[left.pop()] - found:
            found.add(name)
            left.append(name)
    return found


def test_the_loop_and_the_ranking_know_no_model():
    for part in ("training", "ranking", "metrics", "layers", "data"):
        assert not reachable(part) & {"models", "methods", "runs", "recommender", "experiment"}
    assert "methods" not in reachable("models")


def test_nothing_imports_the_command_line():
    for path in files():
        if part_of(path) not in {"cli", "__main__"}:
            assert "cli" not in imported_parts(path.read_text(), path), path


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("from accord.models.base import Model", {"models"}),
        ("import accord.training", {"training"}),
        ("from accord import paper", {"paper"}),
        ("from accord import fit", {"__init__"}),
        ("from ..layers import Linear", {"layers"}),
        ("from .base import Batch", {"methods"}),
        ("def f():\n    from accord.experiment import fit", {"experiment"}),
        ("import torch\nfrom accordion import x", set()),
    ],
)
def test_every_way_to_import_is_seen(source, found):
    assert imported_parts(source, PACKAGE / "methods" / "deca.py") == found


def test_threads_wait_without_spinning_unless_the_caller_says_otherwise():
    code = "import accord, os, sys; assert 'torch' not in sys.modules; print(os.environ['OMP_WAIT_POLICY'])"
    for given, expected in (({}, "PASSIVE"), ({"OMP_WAIT_POLICY": "ACTIVE"}, "ACTIVE")):
        environment = {key: value for key, value in os.environ.items() if key != "OMP_WAIT_POLICY"} | given
        found = subprocess.run(
            [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
        )
        assert found.stdout.strip() == expected
