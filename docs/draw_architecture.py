"""Draw which room of src/accord imports which, into docs/images. `python docs/generate.py` does it too; tests check it.

A room is a folder or a module right under src/accord. An arrow leads from a room to one that it imports; arrows that
follow from others are left out, so that what is left can be read.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Mapping, Sequence
from graphlib import TopologicalSorter
from itertools import pairwise
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src"
PICTURE = Path(__file__).parent / "images" / "architecture.svg"
FACE = {"__init__", "__main__"}  # the public names, and `python -m accord`

WIDTH, HEIGHT, GAP, STEP, MARGIN = 132, 34, 26, 78, 24  # of a box; between boxes; from row to row; around everything
BEND = 16  # room for an arrow that passes a row
SWEEPS = 24

Edges = Mapping[str, set[str]]
Node = str | tuple[str, str, int]  # a room, or where the arrow between two rooms crosses a row


def main() -> None:
    PICTURE.write_text(drawing(imports()), encoding="utf-8")


# --- what imports what


@functools.cache
def imports(source: Path = SOURCE) -> dict[str, set[str]]:
    """The rooms that each room imports, anywhere in its files."""
    files = {
        ".".join(path.with_suffix("").relative_to(source).parts).removesuffix(".__init__"): path
        for path in sorted((source / "accord").rglob("*.py"))
    }
    found: dict[str, set[str]] = {room_of(name): set() for name in files}
    for name, path in files.items():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            for other in _modules(node, set(files)):
                found[room_of(name)].add(room_of(other))
    return {room: others - {room} - FACE for room, others in found.items() if room not in FACE}


def _modules(node: ast.AST, known: set[str]) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names if alias.name in known]
    if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "accord":
        names = [f"{node.module}.{alias.name}" for alias in node.names]
        return [name if name in known else node.module for name in names]
    return []


def room_of(module: str) -> str:
    return [*module.split("."), "__init__"][1]


def reachable(room: str, edges: Edges) -> set[str]:
    found: set[str] = set()
    left = [room]
    while left:
        new = edges[left.pop()] - found
        found |= new
        left += new
    return found


def reduced(edges: Edges) -> dict[str, set[str]]:
    """Without the arrows that follow from others."""
    return {
        room: {other for other in others if not any(other in reachable(way, edges) for way in others - {other})}
        for room, others in edges.items()
    }


# --- where it is drawn


def rows_of(edges: Edges) -> dict[str, int]:
    """The row of every room, from the top: right below the lowest room that imports it."""
    rows: dict[str, int] = {}
    for room in reversed(list(TopologicalSorter(edges).static_order())):
        rows[room] = 1 + max((rows[other] for other in edges if room in edges[other]), default=-1)
    return rows


def placed(edges: Edges) -> tuple[list[list[Node]], dict[Node, float]]:
    """The rows with what is in them from left to right, and the middle of each."""
    rows = rows_of(edges)
    layers: list[list[Node]] = [[] for _ in range(1 + max(rows.values()))]
    for room in sorted(rows):
        layers[rows[room]].append(room)
    above: dict[Node, list[Node]] = {}
    below: dict[Node, list[Node]] = {}
    for start in sorted(edges):
        for end in sorted(edges[start]):
            for upper, lower in pairwise(way(start, end, rows)):
                below.setdefault(upper, []).append(lower)
                above.setdefault(lower, []).append(upper)
                if lower != end:
                    layers[_row(lower, rows)].append(lower)
    best = ordered(layers, above, below)
    middle: dict[Node, float] = {}
    for layer in best:
        middle |= dict(zip(layer, apart([0.0] * len(layer), layer), strict=True))
    for sweep in range(SWEEPS):
        for layer in best if sweep % 2 else best[::-1]:
            wanted = [_mean([middle[near] for near in above.get(node, []) + below.get(node, [])]) for node in layer]
            middle |= dict(zip(layer, apart(wanted, layer), strict=True))
    left = min(x - _width(node) / 2 for node, x in middle.items())
    return best, {node: x - left + MARGIN for node, x in middle.items()}


def way(start: str, end: str, rows: Mapping[str, int]) -> list[Node]:
    return [start, *((start, end, row) for row in range(rows[start] + 1, rows[end])), end]


def _row(node: Node, rows: Mapping[str, int]) -> int:
    return rows[node] if isinstance(node, str) else node[2]


def _width(node: Node) -> float:
    return WIDTH if isinstance(node, str) else BEND


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def ordered(
    layers: list[list[Node]], above: Mapping[Node, list[Node]], below: Mapping[Node, list[Node]]
) -> list[list[Node]]:
    """The order within rows with the fewest crossings that sweeps down and up find."""
    layers = [list(layer) for layer in layers]
    best, fewest = [list(layer) for layer in layers], crossings(layers, below)
    for sweep in range(SWEEPS):
        down = sweep % 2 == 0
        near = above if down else below
        for number in range(1, len(layers)) if down else range(len(layers) - 2, -1, -1):
            fixed = {node: place for place, node in enumerate(layers[number - 1 if down else number + 1])}
            here = {node: place for place, node in enumerate(layers[number])}
            layers[number].sort(
                key=lambda node: (
                    _mean([fixed[one] for one in near[node]]) if near.get(node) else here[node],
                    here[node],
                )
            )
        if (count := crossings(layers, below)) < fewest:
            best, fewest = [list(layer) for layer in layers], count
    return best


def crossings(layers: Sequence[Sequence[Node]], below: Mapping[Node, list[Node]]) -> int:
    count = 0
    for upper, lower in pairwise(layers):
        places = {node: place for place, node in enumerate(lower)}
        ends = [(first, places[end]) for first, node in enumerate(upper) for end in below.get(node, [])]
        count += sum((a - c) * (b - d) < 0 for i, (a, b) in enumerate(ends) for c, d in ends[:i])
    return count


def apart(wanted: Sequence[float], layer: Sequence[Node]) -> list[float]:
    """The places nearest to those wanted at which boxes keep their order and distance: an isotonic regression."""
    offsets = [0.0]
    for one, other in pairwise(layer):
        offsets.append(offsets[-1] + (_width(one) + _width(other)) / 2 + GAP)
    blocks: list[tuple[float, int]] = []  # sum and number of those that touch
    for want, offset in zip(wanted, offsets, strict=True):
        total, number = want - offset, 1
        while blocks and blocks[-1][0] / blocks[-1][1] > total / number:
            before = blocks.pop()
            total, number = total + before[0], number + before[1]
        blocks.append((total, number))
    starts = [total / number for total, number in blocks for _ in range(number)]
    return [start + offset for start, offset in zip(starts, offsets, strict=True)]


# --- the drawing itself


STYLE = """
  .box { fill: #eef3fb; stroke: #4a6fa5; stroke-width: 1.2 }
  .file { fill: #fbf6e9; stroke: #a5884a; stroke-width: 1.2 }
  text { font: 15px system-ui, -apple-system, "Segoe UI", sans-serif; fill: #1a1a1a; text-anchor: middle }
  .arrow { fill: none; stroke: #6b7280; stroke-width: 1.4 }
  .head { fill: #6b7280 }
"""


def drawing(edges: Edges, source: Path = SOURCE) -> str:
    kept = reduced(edges)
    layers, middle = placed(kept)
    rows = rows_of(kept)
    wide = max(middle[node] + _width(node) / 2 for layer in layers for node in layer) + MARGIN
    high = 2 * MARGIN + (len(layers) - 1) * STEP + HEIGHT
    told = "; ".join(f"{room} imports {', '.join(sorted(kept[room]))}" for room in sorted(kept) if kept[room])
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide:.0f} {high:.0f}" width="{wide:.0f}" '
        f'height="{high:.0f}" role="img" aria-labelledby="title told">',
        '<title id="title">The rooms of src/accord and what each imports</title>',
        f'<desc id="told">{told}.</desc>',
        f"<style>{STYLE}</style>",
        '<marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path class="head" d="M0 0 L8 4 L0 8 z"/></marker>',
        f'<rect width="{wide:.0f}" height="{high:.0f}" rx="8" fill="#ffffff"/>',
    ]
    for start in sorted(kept):
        for end in sorted(kept[start]):
            chain = way(start, end, rows)
            points = [(middle[node], MARGIN + _row(node, rows) * STEP + HEIGHT / 2) for node in chain]
            parts.append(f'<path class="arrow" d="{_path(points)}" marker-end="url(#head)"/>')
    for room, row in sorted(rows.items()):
        x, y = middle[room], MARGIN + row * STEP
        folder = (source / "accord" / room).is_dir()
        kind, name = ("box", f"{room}/") if folder else ("file", f"{room}.py")
        parts.append(
            f'<rect class="{kind}" x="{x - WIDTH / 2:.1f}" y="{y}" width="{WIDTH}" height="{HEIGHT}" rx="6"/>'
            f'<text x="{x:.1f}" y="{y + HEIGHT / 2 + 5:.1f}">{name}</text>'
        )
    return "\n".join([*parts, "</svg>", ""])


def _path(points: Sequence[tuple[float, float]]) -> str:
    """From the bottom of one box to the top of another, straight up and down where it passes a row."""
    (x, y), *rest = points
    y += HEIGHT / 2
    path = [f"M{x:.1f} {y:.1f}"]
    for number, (right, down) in enumerate(rest):
        last = number == len(rest) - 1
        enter = down - HEIGHT / 2
        turn = (enter - y) / 2
        path.append(f"C{x:.1f} {y + turn:.1f} {right:.1f} {enter - turn:.1f} {right:.1f} {enter:.1f}")
        x, y = right, enter
        if not last:
            y = down + HEIGHT / 2
            path.append(f"L{x:.1f} {y:.1f}")
    return " ".join(path)


# --- the same in words


def rooms_table(source: Path = SOURCE) -> str:
    """What each room holds, by its own first sentence, from the top of the drawing to its bottom."""
    rows = rows_of(reduced(imports(source)))
    lines = ["| room | what it holds |", "|---|---|"]
    for room in sorted(rows, key=lambda room: (rows[room], room)):
        folder = source / "accord" / room
        file = folder / "__init__.py" if folder.is_dir() else folder.with_suffix(".py")
        text = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
        first = " ".join(text.split("\n\n")[0].split()).replace("|", "\\|")
        lines.append(f"| `{room}{'/' if folder.is_dir() else '.py'}` | {first} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
