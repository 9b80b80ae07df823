"""The grid of C₁, C₂ and α."""

from __future__ import annotations

import re

from accord.comparing.results import Results
from accord.report.tables import Table
from accord_lab.paper.reproduce import reproduce
from paper_runs import quiet, run, simulated, texts


def test_the_grid_is_shown_as_heat_maps(tmp_path):
    parts, lines = run("grid", tmp_path, request=lambda data: quiet(data, 1, 1))
    figure, tables = parts[0], [part for part in parts if isinstance(part, Table)]
    assert len(lines) == 2 * 48
    assert len(tables) == 6
    assert all(len(table.rows) == 4 and len(table.columns) == 5 for table in tables)
    assert [sum(len(table.marked) for table in own) for own in (tables[:3], tables[3:])] == [1, 1]
    value = {
        (line["method"], *(line["settings"][f"method.{name}"] for name in ("alpha", "c1", "c2"))): line["metrics"]
        for line in lines
    }
    assert tables[4].title == "modcloth, GMF, DeCA(p), α = 0.5: recall@20"
    assert tables[4].rows[1][3] == value["deca-p", 0.5, 10.0, 100.0]["recall@20"]
    best = max(metrics["recall@20"] for key, metrics in value.items() if key[0] == "deca")
    assert f"({best:.4f}), framed" in figure.caption
    numbers = [text for text in texts(figure) if re.fullmatch(r"0\.\d{3}", text)]
    assert len(numbers) >= 2 * 48


def test_half_a_grid_is_no_heat_map(tmp_path):
    data = simulated()
    reproduce("grid", [data], None, ["deca"], lambda one: quiet(one, 1, 1), tmp_path)
    results = Results(tmp_path, "grid")
    results.file.write_text("".join(results.file.read_text().splitlines(keepends=True)[:-1]))
    assert reproduce("grid", [data], None, None, lambda one: quiet(one, 1, 1), tmp_path, render_only=True) == []
    assert "modcloth: 49 of 96 not run yet" in (tmp_path / "grid.md").read_text()
