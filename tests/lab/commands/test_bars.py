"""`accord lab bars`: what was chosen is fitted again, and published rows stand beside it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from accord.errors import InputError
from accord_lab import bars
from accord_lab.commands.bars import bars as command
from logs import fixed_split


def test_what_was_chosen_is_fitted_again_on_all_and_stands_beside_published_rows(tmp_path):
    gowalla = fixed_split(tmp_path / "gowalla")
    out = tmp_path / "out"
    command(str(gowalla), budget=0.1, device="cpu", out=out)
    (line,) = [json.loads(text) for text in (out / "bars.jsonl").read_text().splitlines()]
    assert line["train"] == 60 * 20
    assert 0 < line["ndcg@20"] <= 1
    assert line["before"] != {name: line[name] for name in line["before"]}
    page = (out / "bars.md").read_text()
    places = [page.index(f"| {name} ") for name in ("UltraGCN", "SimpleX", "LightGCN", "EASE")]
    assert places == sorted(places), "the best first"
    assert f"{line['recall@20']:.4f}" in page
    (out / "bars.md").unlink()
    command("anything", device="cpu", out=out, render_only=True)
    assert (out / "bars.md").read_text() == page


def test_a_folder_without_a_fixed_split_is_told(tmp_path, monkeypatch):
    monkeypatch.setenv("ACCORD_DATA", str(tmp_path))
    with pytest.raises(InputError, match="give the folder of the log"):
        command("nowhere", out=tmp_path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="give the folder of a split"):
        command("empty", out=tmp_path)


def test_the_readme_says_what_the_raw_results_do():
    root = Path(__file__).parents[3]
    *_, line = (json.loads(text) for text in (root / "docs/reproduction/bars/bars.jsonl").read_text().splitlines())
    recall, ndcg = (line[name] for name in bars.METRICS)
    said = f"it has {recall:.4f} of recall@20 and {ndcg:.4f} of NDCG@20, above every published row."
    assert said in (root / "README.md").read_text()
    assert all(recall > one and ndcg > other for one, other in bars.PUBLISHED[line["dataset"]].values())
