"""`accord similar`, `accord score` and `accord explain` as a user runs them."""

from __future__ import annotations

import json

import pytest

import accord
from commands import run
from helpers import small_data


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ask") / "run"
    accord.fit(small_data(), "ease", options={"model.l2": 20}, out=folder)
    return str(folder)


def listed(out):
    return [json.loads(line) for line in out.splitlines()]


def test_each_user_is_scored_with_each_item(folder, monkeypatch, capsys):
    words = ["--user", "u0003", "--user", "nobody", "--item", "i0001", "--item", "i0002", "--format", "json"]
    code, out, _ = run(monkeypatch, capsys, "score", folder, *words)
    assert code == 0
    assert [(row["user"], row["item"]) for row in listed(out)] == [
        (user, item) for user in ("u0003", "nobody") for item in ("i0001", "i0002")
    ]
    assert [row["score"] is None for row in listed(out)] == [False, False, True, True]


def test_pairs_whose_columns_are_not_known(folder, tmp_path, monkeypatch, capsys):
    (tmp_path / "pairs.csv").write_text("who,item\nu0003,i0001\n")
    code, _, err = run(monkeypatch, capsys, "score", folder, "--pairs", tmp_path / "pairs.csv")
    assert code == 2
    assert err.endswith("no user column among 'who', 'item'; call it 'user' or give --user-col.\n")


def test_a_history_is_a_reason_too(folder, monkeypatch, capsys):
    words = ["--user", "new", "--history", "i0001,i0007", "--k", "3", "--most", "1", "--format", "json"]
    code, out, _ = run(monkeypatch, capsys, "explain", folder, *words)
    assert code == 0
    assert {row["because"] for row in listed(out)} <= {"i0001", "i0007"}
    assert {row["rank"] for row in listed(out)} == {1}


def test_items_of_files_are_left_out_or_the_only_ones(folder, tmp_path, monkeypatch, capsys):
    words = ["similar", folder, "i0003", "--k", "5", "--format", "json"]
    first = [row["item"] for row in listed(run(monkeypatch, capsys, *words)[1])]
    (tmp_path / "ids").write_text("\n".join(first[:3]))
    allowed = listed(run(monkeypatch, capsys, *words, "--allow-file", tmp_path / "ids", "--exclude", first[0])[1])
    assert [row["item"] for row in allowed] == first[1:3]
    without = listed(run(monkeypatch, capsys, *words, "--exclude-file", tmp_path / "ids")[1])
    assert [row["item"] for row in without][:2] == first[3:]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("similar RUN nothing", "no item 'nothing' was in the training data"),
        ("similar RUN i0001 --k 0", "k is 0"),
        ("similar RUN i0001 --where genre=war", "this run has no items file"),
        ("similar RUN i0001 --allow-file nowhere", "--allow-file nowhere: there is no such file"),
        ("score RUN --user u0001", "name the pairs"),
        ("score RUN", "name the pairs"),
        ("score RUN --user u0001 --item i0001 --pairs x.csv", "name the pairs"),
        ("explain RUN --item i0001", "name the pairs"),
        ("explain RUN --user nobody --item i0001", "no user 'nobody' was in the training data"),
        ("explain RUN --user a --user b --history i0001", "--history goes with one --user"),
    ],
)
def test_mistakes_are_one_sentence(folder, tmp_path, monkeypatch, capsys, words, sentence):
    monkeypatch.chdir(tmp_path)
    code, out, err = run(monkeypatch, capsys, *words.replace("RUN", folder).split())
    assert (code, out) == (2, "")
    assert sentence in err
    assert err.count("\n") == 1
