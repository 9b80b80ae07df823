"""`accord labels`: its options, and the page that it writes."""

from __future__ import annotations

import pytest

import accord
from accord.experiments import label_shares
from commands import run


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("labels demo --by pairs", "unknown --by 'pairs'"),
        ("labels demo --shares 2", "--shares between 0 and 1"),
        ("labels demo --draws 0", "--draws must be at least 1"),
        ("labels demo", "demo has no labels to draw from; give --labels, as 'rating>=4'"),
    ],
)
def test_mistakes_are_one_sentence(words, said, monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    code, _, err = run(monkeypatch, capsys, *words.split())
    assert code == 2
    assert said in err


def test_the_table_is_printed_and_written(monkeypatch, capsys, tmp_path):
    line = dict.fromkeys(("auc", "label_free_auc", "popularity_auc", "consensus", "ease", "ease_told", "ndcg@20"), 0.5)
    line |= {"dataset": "demo", "by": "random", "share": 0.05, "p_ease": 0.5}
    asked = []
    monkeypatch.setattr(label_shares, "run", lambda data, *more: asked.append((data, more)) or [line])
    monkeypatch.chdir(tmp_path)
    words = "labels demo --labels value>=1 --shares 0.05 --by random --draws 3 --out here"
    code, out, err = run(monkeypatch, capsys, *words.split())
    assert code == 0, err
    assert "label" in asked[0][0].train.names
    assert asked[0][1][:3] == ([0.05], ["random"], 3)
    assert "0.5000" in out
    assert "| demo | 5% |" in (tmp_path / "here" / "labels.md").read_text()
    assert accord.simulate().dataset.name == "demo"
