"""`accord update` as a user runs it."""

from __future__ import annotations

import pytest

import accord
from commands import run


@pytest.fixture
def folder(clicks):
    lines = (clicks / "clicks.csv").read_text().splitlines()
    (clicks / "old.csv").write_text("\n".join(lines[:-40]) + "\n")
    (clicks / "new.csv").write_text("\n".join([lines[0], *lines[-40:], "somebody,novelty,5,9000"]) + "\n")
    accord.fit(accord.load("old.csv"), "ease", options={"model.l2": 20}, out="run")
    return clicks / "run"


def test_a_new_folder_or_the_same(folder, monkeypatch, capsys):
    before = accord.Recommender.load(folder).recommend(None, 5)
    code, _, err = run(monkeypatch, capsys, "update", "run", "new.csv", "-o", "updated")
    assert code == 0
    assert "41 interactions" in err
    assert "(1 new)" in err
    assert accord.Recommender.load(folder).recommend(None, 5).equals(before)
    updated = accord.Recommender.load("updated").recommend(None, 5)
    assert "somebody" in updated.column("user").to_pylist()
    assert run(monkeypatch, capsys, "update", "run", "new.csv", "--in-place")[0] == 0
    assert accord.Recommender.load(folder).recommend(None, 5).equals(updated)
    code, _, err = run(monkeypatch, capsys, "evaluate", "run")
    assert code == 2
    assert "an updated run has no test" in err


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("", "give --out DIR for the updated run, or --in-place"),
        ("--in-place -o x", "give --out DIR for the updated run"),
        ("-o run", "run holds a finished run; give another --out, or --overwrite"),
        ("-o x --user-col nobody", "nobody"),
    ],
)
def test_mistakes_are_one_sentence(folder, monkeypatch, capsys, words, sentence):
    code, out, err = run(monkeypatch, capsys, "update", "run", "new.csv", *words.split())
    assert (code, out) == (2, "")
    assert sentence in err
    assert err.count("\n") == 1
