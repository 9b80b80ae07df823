"""docs/architecture.md: the drawing is that of the imports, and a training run goes the way that the page says."""

from __future__ import annotations

import re
import sys
from graphlib import TopologicalSorter
from itertools import combinations, pairwise
from pathlib import Path
from types import FrameType
from typing import Any

import draw_architecture as drawn

from accord.fitting import fit
from documents import ROOT
from helpers import small_data

PACKAGE = ROOT / "src" / "accord"
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")


def test_the_drawing_is_current() -> None:
    assert drawn.PICTURE.read_text(encoding="utf-8") == drawn.drawing(drawn.imports()), "run `python docs/generate.py`"


def test_every_room_is_drawn() -> None:
    rooms = {path.stem for path in PACKAGE.iterdir() if path.suffix == ".py" or (path / "__init__.py").is_file()}
    assert set(drawn.imports()) == rooms - drawn.FACE
    shown = re.findall(r"<text [^>]*>([^<]+)</text>", drawn.PICTURE.read_text(encoding="utf-8"))
    assert sorted(name.removesuffix(".py").rstrip("/") for name in shown) == sorted(rooms - drawn.FACE)


def test_imports_are_found_wherever_they_are(tmp_path: Path) -> None:
    files = {
        "a/x.py": "from accord.b import y\nimport json\n",
        "a/__init__.py": "",
        "b/y.py": "def f():\n    import accord.c\n",
        "b/__init__.py": "",
        "c.py": "from accord import a\nfrom other.accord import d\n",
        "__init__.py": "from accord.a import x\n",
    }
    for name, text in files.items():
        path = tmp_path / "accord" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert drawn.imports(tmp_path) == {"a": {"b"}, "b": {"c"}, "c": {"a"}}


def test_arrows_left_out_follow_from_others() -> None:
    edges = drawn.imports()
    kept = drawn.reduced(edges)
    assert sum(map(len, kept.values())) < sum(map(len, edges.values())) / 2
    for room in edges:
        assert drawn.reachable(room, kept) == drawn.reachable(room, edges)
        for other in kept[room]:
            assert other not in drawn.reachable(room, {**kept, room: kept[room] - {other}})


def test_arrows_lead_down_and_boxes_keep_apart() -> None:
    kept = drawn.reduced(drawn.imports())
    rows = drawn.rows_of(kept)
    assert all(rows[room] < rows[other] for room, others in kept.items() for other in others)
    layers, middle = drawn.placed(kept)
    for layer in layers:
        for one, other in combinations([node for node in layer if isinstance(node, str)], 2):
            assert abs(middle[one] - middle[other]) >= drawn.WIDTH + drawn.GAP - 1e-6
    assert drawn.crossings(layers, _below(kept, rows)) <= 6


def _below(kept: drawn.Edges, rows: dict[str, int]) -> dict[drawn.Node, list[drawn.Node]]:
    below: dict[drawn.Node, list[drawn.Node]] = {}
    for start in kept:
        for end in kept[start]:
            for upper, lower in pairwise(drawn.way(start, end, rows)):
                below.setdefault(upper, []).append(lower)
    return below


def test_a_training_run_goes_the_way_that_the_page_says(tmp_path: Path) -> None:
    told = re.findall(r"^\| \d+ \| `([\w/]+\.py)` \|", PAGE, re.MULTILINE)
    assert len(told) == 12
    entered: dict[str, None] = {}  # files in the order in which their code is first called

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event == "call":
            entered.setdefault(frame.f_code.co_filename)

    data = small_data()
    before = sys.getprofile()
    sys.setprofile(note)
    try:
        fit(data, "gmf", "normal", epochs=1, device="cpu", out=tmp_path / "run")
    finally:
        sys.setprofile(before)
    assert (tmp_path / "run" / "metrics.json").is_file()
    ours = [path.relative_to(PACKAGE).as_posix() for path in map(Path, entered) if path.is_relative_to(PACKAGE)]
    assert [name for name in ours if name in told] == told


def test_every_file_that_the_page_names_is_there() -> None:
    found = set(re.findall(r"`((?:\w+/)+(?:\w+\.py)?|\w+\.py)`", PAGE))
    assert len(found) > 30
    for name in found:
        assert (PACKAGE / name).exists() or (ROOT / name).exists(), name
    for name in re.findall(r"`([A-Z]\w+)` (?:there|in|of|\()", PAGE):
        written = "\n".join(path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py"))
        assert re.search(rf"\b{name}\b", written), name


def test_the_glossary_has_forty_words_each_once() -> None:
    rows = re.findall(r"^\| (.+?) \| .+ \|$", PAGE[PAGE.index("## Glossary\n") :], re.MULTILINE)[1:]
    words = [word for row in rows for word in row.split(", ")]
    assert len(rows) == 40
    assert len(set(words)) == len(words)


def test_the_rooms_are_in_an_order() -> None:
    assert list(TopologicalSorter(drawn.imports()).static_order())[-1] == "cli"
