"""Imports follow one direction: from the lab to the product, room by room, and no two files import each other."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import accord

SOURCE = Path(accord.__file__).parents[1]
PACKAGE, LAB = SOURCE / "accord", SOURCE / "accord_lab"

# A room is a folder or a module right under a package. A room of the product imports the rooms that its row names,
# all of them and no other, not even inside a function. A new room gets a row; a row
# gets longer only where the order allows it.
ROOMS: dict[str, set[str]] = {
    "errors": set(),
    "version": set(),
    "random": set(),
    "kernels": set(),
    "config": {"errors"},
    "io": {"errors"},
    "protocol": {"errors"},
    "nn": {"kernels", "random"},
    "data": {"errors", "io", "kernels", "random"},
    "evaluation": {"data", "errors", "kernels", "protocol"},
    "models": {"config", "data", "errors", "kernels", "nn", "protocol", "random"},  # a model only scores
    "methods": {"config", "data", "errors", "kernels", "models", "nn", "protocol", "random"},  # only gives a loss
    "training": {
        *("config", "data", "errors", "evaluation", "io", "methods", "models", "nn"),
        *("protocol", "random"),
    },
    "posteriors": {"config", "data", "errors", "evaluation", "models"},
    "consensus": {
        *("config", "data", "errors", "evaluation", "io", "kernels", "methods", "models", "posteriors", "training"),
    },
    "recommender": {
        "consensus",
        *("config", "data", "errors", "evaluation", "io", "kernels", "methods", "models", "training", "version"),
    },
    "report": {"data", "errors", "evaluation", "io", "models", "recommender", "version"},
    "fitting": {
        "consensus",
        "data",
        "errors",
        "evaluation",
        "io",
        "methods",
        "models",
        "protocol",
        "recommender",
        "training",
    },
    "serve": {"config", "data", "errors", "recommender"},
    "comparing": {
        "consensus",
        *("config", "data", "errors", "io", "methods", "models", "recommender", "training"),
    },
    "auditing": {
        *("data", "errors", "evaluation", "comparing", "io", "models", "posteriors", "protocol", "report"),
        *("training", "version"),
    },
    "cli": {
        *("auditing", "config", "data", "errors", "comparing", "evaluation", "fitting", "io", "methods"),
        *("models", "posteriors", "recommender", "report", "serve", "training", "version"),
    },
}
LAB_ROOMS: dict[str, set[str]] = {  # which rooms of the lab a room of the lab imports; the product is open to all
    "injection": set(),
    "names": set(),
    "writing": set(),
    "methods": {"names"},
    "models": set(),
    "cluster": set(),
    "bars": {"writing"},
    "comparing": {"names", "writing"},
    "drawing": {"names", "writing"},
    "pair_scores": {"names"},
    "paper": {"drawing", "names", "pair_scores", "writing"},
    "leaderboards": {"comparing", "drawing", "injection", "methods", "names", "pair_scores", "writing"},
    "labels": {"drawing", "leaderboards", "names", "pair_scores", "writing"},
    "findings": {"leaderboards", "methods", "names", "paper", "writing"},
    "verify": {"bars", "findings", "labels", "leaderboards", "names", "paper"},
    "commands": {"bars", "comparing", "labels", "leaderboards", "paper", "verify"},
}
FACE = {"__init__", "__main__"}  # the public names, and `python -m accord`


def modules() -> dict[str, Path]:
    """Every module of both packages by its dotted name."""
    return {
        ".".join(path.with_suffix("").relative_to(SOURCE).parts).removesuffix(".__init__"): path
        for package in (PACKAGE, LAB)
        for path in sorted(package.rglob("*.py"))
    }


def imported(source: str, importer: str, package: bool, known: set[str]) -> set[str]:
    """The modules of ours that a file imports, by absolute or relative import, anywhere in it."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = [node.module] if node.module else []
            if node.level:
                here = importer.split(".")
                base = [*here[: len(here) - node.level + package], *base]
            start = ".".join(base)
            for alias in node.names:
                name = f"{start}.{alias.name}"
                found.add(name if name in known else start)
    return {name for name in found if name.split(".")[0] in ("accord", "accord_lab")}


@cache
def graph() -> dict[str, set[str]]:
    """Which module imports which. `accord` itself hands out names of everything when they are asked for."""
    files = modules()
    return {
        name: imported(path.read_text(encoding="utf-8"), name, path.name == "__init__.py", set(files)) - {name}
        for name, path in files.items()
    }


def room_of(module: str) -> str:
    return [*module.split("."), "__init__"][1]


def in_package(package: Path) -> dict[str, set[str]]:
    """The modules of a package, and which of its own modules each imports."""
    start = f"{package.name}."
    return {
        name: {other for other in others if f"{other}.".startswith(start)}
        for name, others in graph().items()
        if f"{name}.".startswith(start)
    }


def test_the_product_never_imports_the_lab():
    assert {name: others for name, others in graph().items() if not name.startswith("accord_lab")} == in_package(
        PACKAGE
    )


BOTH = [(PACKAGE, ROOMS), (LAB, LAB_ROOMS)]


@pytest.mark.parametrize(("package", "rooms"), BOTH)
def test_every_room_has_a_row_and_every_row_a_room(package, rooms):
    assert set(rooms) == {room_of(name) for name in in_package(package)} - FACE


@pytest.mark.parametrize(("package", "rooms", "room"), [(*both, room) for both in BOTH for room in sorted(both[1])])
def test_a_room_imports_what_its_row_says(package, rooms, room):
    imports = in_package(package)
    found = {room_of(other) for name, others in imports.items() if room_of(name) == room for other in others}
    found -= {room, *FACE}
    assert found <= rooms[room], f"{room} must not import {sorted(found - rooms[room])}"
    assert found >= rooms[room], f"{room} does not import {sorted(rooms[room] - found)}: take it out of its row"


def test_the_rooms_have_one_direction():
    assert list(TopologicalSorter(LAB_ROOMS).static_order())[-1] == "commands"  # raises where there is a circle
    order = list(TopologicalSorter(ROOMS).static_order())
    for before, after in (("data", "models"), ("models", "methods"), ("methods", "training"), ("training", "fitting")):
        assert order.index(before) < order.index(after)


def reachable(module: str, edges: dict[str, set[str]]) -> set[str]:
    found: set[str] = set()
    left = [module]
    while left:
        for name in edges[left.pop()] - found:
            found.add(name)
            left.append(name)
    return found


@pytest.mark.parametrize("module", ["accord.training.trainer", "accord.training.step"])
def test_the_loop_reaches_no_model_and_no_method(module):
    rooms = {room_of(name) for name in reachable(module, graph())}
    assert not rooms & {"models", "methods", "evaluation", "recommender", "fitting"}


def test_a_model_reaches_no_method():
    edges = graph()
    for name in edges:
        if name.startswith(("accord.models", "accord.evaluation")):
            assert "methods" not in {room_of(other) for other in reachable(name, edges)}


def without_circle(edges: dict[str, set[str]]) -> list[str]:
    """The modules, each after those it imports; CycleError where files import each other."""
    return list(TopologicalSorter(edges).static_order())


def test_no_file_imports_back():
    # `accord` itself is left out: it hands out names of all rooms when they are asked for
    edges = {name: others - {"accord"} for name, others in graph().items() if name != "accord"}
    assert set(without_circle(edges)) == set(edges)


def test_no_file_is_long():
    lines = {name: path.read_text(encoding="utf-8").count("\n") for name, path in modules().items()}
    assert {name: number for name, number in lines.items() if number > 400} == {}


def test_few_modules_stand_at_the_top():
    assert len([path for path in PACKAGE.glob("*.py") if path.stem not in FACE]) <= 8


def test_every_module_has_a_test_file_of_its_name():
    """In the folder of its room: `src/accord/nn/adam.py` by `tests/nn/test_adam.py`; the lab's are in `tests/lab`."""
    tests = Path(__file__).parent
    files = [path.relative_to(SOURCE) for path in modules().values() if path.stem not in {*FACE, "version"}]
    places = [Path("lab" if path.parts[0] == "accord_lab" else "", *path.parts[1:]) for path in files]
    wanted = [place.with_name(f"test_{place.name}") for place in places]
    missing = [f"tests/{place}" for place in wanted if not (tests / place).is_file()]
    assert not missing, f"write {', '.join(missing)}"


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("from accord.models.base import Model", {"accord.models.base"}),
        ("import accord.models.base", {"accord.models.base"}),
        ("from accord.models import base", {"accord.models.base"}),
        ("from accord import fit", {"accord"}),
        ("from ..models.base import Model", {"accord.models.base"}),
        ("from .base import Batch", {"accord.methods.base"}),
        ("def f():\n    from accord.fitting import fit", {"accord.fitting"}),
        ("import torch\nfrom accordion import x", set()),
    ],
)
def test_every_way_to_import_is_seen(source, found):
    assert imported(source, "accord.methods.deca", False, set(modules())) == found


def test_a_circle_would_be_found():
    assert without_circle({"a": {"b"}, "b": {"c"}, "c": set()}) == ["c", "b", "a"]
    with pytest.raises(CycleError):
        without_circle({"a": {"b"}, "b": {"c"}, "c": {"a"}})


def test_threads_wait_without_spinning_unless_the_caller_says_otherwise():
    code = "import accord, os, sys; assert 'torch' not in sys.modules; print(os.environ['OMP_WAIT_POLICY'])"
    for given, expected in (({}, "PASSIVE"), ({"OMP_WAIT_POLICY": "ACTIVE"}, "ACTIVE")):
        environment = {key: value for key, value in os.environ.items() if key != "OMP_WAIT_POLICY"} | given
        found = subprocess.run(
            [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
        )
        assert found.stdout.strip() == expected
