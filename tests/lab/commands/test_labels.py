"""`accord lab labels`: its options, and the page that it writes."""

from __future__ import annotations

import pytest

import accord
from accord.comparing.results import keep_lines
from accord_lab.labels import chosen, shares, training
from commands import run


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
