"""`accord lab labels`: its options, and the page that it writes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import accord
from accord.comparing.results import keep_lines
from accord.errors import InputError
from accord_lab import bars
from accord_lab.commands.studies import bars as command
from accord_lab.labels import chosen, shares, training
from commands import run
from logs import fixed_split


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("lab labels demo --by pairs", "unknown --by 'pairs'"),
        ("lab labels demo --of audit", "unknown --of 'audit'"),
        ("lab labels demo --of chosen", "demo has no labels to draw from"),
        ("lab labels demo --of training", "demo has no labels to draw from"),
        ("lab labels demo --shares 2", "--shares between 0 and 1"),
        ("lab labels demo --draws 0", "--draws must be at least 1"),
        ("lab labels demo", "demo has no labels to draw from; give --labels, as 'rating>=4'"),
    ],
)
def test_mistakes_are_one_sentence(words, said, monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    code, _, err = run(monkeypatch, capsys, *words.split())
    assert code == 2
    assert said in err


def test_the_table_is_printed_and_written(monkeypatch, capsys, tmp_path):
    keys = ("auc", "label_free_auc", "popularity_auc", "ece", "consensus", "ease", "ease_told", "ndcg@20", "p_ease")
    line = dict.fromkeys(keys, 0.5) | {"dataset": "demo", "by": "random", "share": 0.05, "used": True, "budget": 120.0}
    asked = []
    monkeypatch.setattr(
        shares, "run", lambda data, *more: asked.append((data, more)) or keep_lines(more[3] / "labels.jsonl", [line])
    )
    monkeypatch.chdir(tmp_path)
    words = "lab labels demo --labels value>=1 --shares 0.05 --by random --draws 3 --out here"
    code, out, err = run(monkeypatch, capsys, *words.split(), "--truth", "value>=1; value<=0")
    assert code == 0, err
    judge = asked[0][1][-1]
    assert (judge.rule, set(judge.label)) == ("value>=1; value<=0", {0.0, 1.0})
    assert "label" in asked[0][0].train.names
    assert asked[0][1][:3] == ([0.05], ["random"], 3)
    assert "0.5000" in out
    assert "| demo | 5% |" in (tmp_path / "here" / "labels.md").read_text()
    assert accord.simulate().dataset.name == "demo"


def test_pages_of_training_and_of_chosen_labels(monkeypatch, capsys, tmp_path):
    trained = {"dataset": "demo", "model": "mf", "method": "tce", "auc": 0.5, "ndcg@20": 0.25, "seed": 1}
    trained = [trained | {"labels": labels} for labels in ("none", "binary")]
    drawn = {"dataset": "demo", "start": 0.5} | {f"{way} {n}": 0.5 for way in ("chosen", "random") for n in (50, 250)}
    monkeypatch.setattr(training, "run", lambda *_: keep_lines(tmp_path / "training.jsonl", trained))
    both = [drawn | {"chosen 50": 0.6}, drawn]
    monkeypatch.setattr(chosen, "run", lambda *_: keep_lines(tmp_path / "chosen.jsonl", both))
    for of, said in (("training", "| demo | mf | tce | 0.2500 |"), ("chosen", "| demo | 250 + 50 | 0.5500")):
        words = f"lab labels demo --labels value>=1 --of {of} --out {tmp_path}"
        code, _, err = run(monkeypatch, capsys, *words.split())
        assert code == 0, err
        assert said in (tmp_path / f"{of}.md").read_text()


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
