"""`accord recommend` as a user runs it."""

from __future__ import annotations

import json
import subprocess
import sys

import pyarrow.parquet as pq
import pytest

import accord
from accord.kernels import cpu
from commands import run
from helpers import small_data


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("recommend") / "run"
    accord.fit(small_data(), "mf", "normal", epochs=1, options={"model.dim": 4}, out=folder)
    return str(folder)


def listed(out):
    return [json.loads(line) for line in out.splitlines()]


def test_some_users_on_the_screen_are_those_of_the_file(folder, tmp_path, monkeypatch, capsys):
    users = small_data().users.ids.to_pylist()[:2]
    words = ["recommend", folder, "--k", "4", "--format", "json"]
    code, out, _ = run(monkeypatch, capsys, *words, "--user", users[0], "--user", users[1])
    assert code == 0
    assert [row["user"] for row in listed(out)] == [users[0]] * 4 + [users[1]] * 4
    assert [row["rank"] for row in listed(out)] == [1, 2, 3, 4] * 2
    (tmp_path / "ids.txt").write_text("\n".join(users))
    assert run(monkeypatch, capsys, *words, "--users", str(tmp_path / "ids.txt"))[1] == out


def test_one_user_does_not_wait_for_what_only_training_needs(folder):
    """Loading pandas, which Arrow looks for, and some of scipy takes longer than everything else but torch."""
    slow = "pandas", "scipy.linalg", "scipy.special", "scipy.stats", "numba", "accord.posteriors.estimate"
    code = f"""import sys; sys.argv = ['accord', 'recommend', {folder!r}, '--user', '1']
from accord.cli.app import main
try: main()\nexcept SystemExit: pass\nassert not set({slow}) & set(sys.modules)\nimport pandas"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout


def test_a_few_users_do_not_wait_for_the_kernels(tmp_path, monkeypatch, capsys):
    """Loading them takes longer than ranking a few users without; the votes are the same to float tolerance."""
    made = accord.fit(small_data(), "consensus", options={"model.members": [{"model": "ease"}, {"model": "item-knn"}]})
    made.save(tmp_path / "run")
    user, loaded = small_data().users.ids.to_pylist()[0], []
    monkeypatch.setattr(cpu, "_compiled", lambda: loaded.append(1))
    out = run(monkeypatch, capsys, "recommend", tmp_path / "run", "--format", "json", "--user", user)[1]
    assert not loaded
    scores = [row["score"] for row in listed(out)]
    assert scores == pytest.approx(made.recommend([user])["score"].to_pylist(), abs=1e-5)
    assert loaded, "elsewhere they are asked for"


def test_all_users_in_a_parquet_file(folder, tmp_path, monkeypatch, capsys):
    path = tmp_path / "all.parquet"
    code, out, err = run(monkeypatch, capsys, "recommend", folder, "--all", "--k", "3", "-o", str(path))
    assert (code, out) == (0, "")
    assert str(path) in err
    assert pq.read_table(path).equals(accord.Recommender.load(folder).recommend(None, 3).combine_chunks())


def test_all_users_without_some_items(folder, tmp_path, monkeypatch, capsys):
    rec, path, ids = accord.Recommender.load(folder), tmp_path / "all.parquet", tmp_path / "ids.txt"
    out_of_stock = rec.recommend(None, 1).column("item").unique().to_pylist()
    ids.write_text("\n".join(out_of_stock))
    words = ["recommend", folder, "--all", "--k", "3", "-o", path, "--exclude-file", ids]
    assert run(monkeypatch, capsys, *words)[0] == 0
    found = pq.read_table(path)
    assert found.equals(rec.recommend(None, 3, exclude=out_of_stock).combine_chunks())
    assert not set(found.column("item").to_pylist()) & set(out_of_stock)


@pytest.mark.parametrize("name", ["lists.csv", "lists.json", "lists.JSONL", "lists.txt", "lists.parquet"])
def test_a_file_is_what_its_name_says(folder, tmp_path, monkeypatch, capsys, name):
    user = small_data().users.ids.to_pylist()[0]
    words, path = ["recommend", folder, "--user", user, "--k", "3"], tmp_path / name
    assert run(monkeypatch, capsys, *words, "-o", path)[:2] == (0, "")
    if path.suffix == ".parquet":
        assert pq.read_table(path).column("user").to_pylist() == [user] * 3
    else:
        form = {".csv": "csv", ".txt": "table"}.get(path.suffix, "json")
        assert run(monkeypatch, capsys, *words, "--format", form)[1] == path.read_text()


def test_a_format_that_is_given_goes_before_the_name(folder, tmp_path, monkeypatch, capsys):
    user, path = small_data().users.ids.to_pylist()[0], tmp_path / "lists.dat"
    run(monkeypatch, capsys, "recommend", folder, "--user", user, "--k", "3", "--format", "json", "-o", path)
    assert [row["user"] for row in listed(path.read_text())] == [user] * 3


def test_a_new_user_by_the_items_they_had(folder, monkeypatch, capsys):
    items = small_data().items.ids.to_pylist()[:3]
    words = ["recommend", folder, "--user", "new", "--history", ",".join(items), "--k", "40", "--format", "json"]
    code, out, _ = run(monkeypatch, capsys, *words)
    assert code == 0
    found = {row["item"] for row in listed(out)}
    assert found
    assert not found & set(items)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("", "name the users"),
        ("--user a --all", "name the users"),
        ("--all --history a,b", "--history goes with one --user"),
        ("--user a --k 0", "--k is 0"),
        ("--user a --format xml", "unknown format 'xml'"),
        ("--users nowhere.txt", "no such file"),
        ("--user a -o lists.xlsx", "lists.xlsx: give a name that ends in .csv, .json, .jsonl, .parquet or .txt, or a"),
        ("--all -o lists", "lists: give a name that ends in .csv"),
        ("--user a --format parquet", "--format parquet needs a file"),
    ],
)
def test_mistakes_are_one_sentence(folder, tmp_path, monkeypatch, capsys, words, sentence):
    monkeypatch.chdir(tmp_path)
    code, out, err = run(monkeypatch, capsys, "recommend", folder, *words.split())
    assert (code, out) == (2, "")
    assert sentence in err
    assert err.count("\n") == 1


def test_users_who_are_not_there_are_said(folder, tmp_path, monkeypatch, capsys):
    known = small_data().users.ids[0].as_py()
    (tmp_path / "users.csv").write_text(f"user,item\n{known}\n")
    words = ["recommend", folder, "--users", tmp_path / "users.csv", "--k", "2", "-o", tmp_path / "lists.csv"]
    code, _, err = run(monkeypatch, capsys, *words)
    assert code == 0
    assert "note: 1 of 2 users are not in the training data, such as 'user,item': they get popular items" in err
    assert f"4 rows: {tmp_path / 'lists.csv'}" in err
    assert "unknown" not in run(monkeypatch, capsys, "recommend", folder, "--user", known)[2]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [(["--user", " "], "--user is empty"), (["--all", "-o", "{}/config.json"], "is in a run folder and would be")],
)
def test_nobody_and_the_files_of_a_run(folder, monkeypatch, capsys, words, sentence):
    code, _, err = run(monkeypatch, capsys, "recommend", folder, *(word.format(folder) for word in words))
    assert code == 2
    assert sentence in err
    accord.Recommender.load(folder)
