"""`accord data` as a user runs it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from accord.cli.data import parse_bytes
from accord.data import catalog
from accord.errors import InputError
from commands import run
from logs import without_advice


def test_named_datasets_are_listed_and_one_is_checked(monkeypatch, capsys):
    code, out, _ = run(monkeypatch, capsys, "data", "list")
    assert code == 0
    assert "built in" in out
    code, out, _ = run(monkeypatch, capsys, "data", "check", "demo")
    assert code == 0
    assert "density" in out


def test_every_named_dataset_is_listed(monkeypatch, capsys):
    _, out, _ = run(monkeypatch, capsys, "data", "list")
    assert [line.split()[0] for line in out.splitlines()[1:]] == list(catalog.names())


def test_built_in_data_need_not_be_fetched(monkeypatch, capsys):
    code, out, _ = run(monkeypatch, capsys, "data", "get", "demo")
    assert (code, out) == (0, "built in\n")
    code, _, err = run(monkeypatch, capsys, "data", "get", "dmo")
    assert code == 2
    assert "did you mean 'demo'" in err


def test_a_check_as_json(clicks, monkeypatch, capsys):
    code, out, _ = run(monkeypatch, capsys, "data", "check", "clicks.csv", "--json")
    assert code == 0
    found = json.loads(out)
    lines = (clicks / "clicks.csv").read_text().splitlines()[1:]
    assert found["data"]["name"] == "clicks"
    assert sum(found["data"]["parts"].values()) == len(lines)


def test_a_store_is_made_and_read_like_the_log(clicks, monkeypatch, capsys):
    code, _, err = run(monkeypatch, capsys, "data", "prepare", "clicks.csv", "--out", "store", "--memory", "64MB")
    assert code == 0
    assert "store: store, " in err
    assert "users with" in err
    checks = [run(monkeypatch, capsys, "data", "check", name, "--json")[1] for name in ("clicks.csv", "store")]
    of_log, of_store = map(json.loads, checks)
    of_log["data"]["notes"] = without_advice(of_log["data"]["notes"])
    assert of_log == of_store


def test_several_files_are_one_log(clicks, monkeypatch, capsys):
    header, *lines = (clicks / "clicks.csv").read_text().splitlines()
    for number, part in enumerate((lines[:400], lines[400:])):
        (clicks / f"part-{number}.csv").write_text("\n".join([header, *part]) + "\n")
    whole = json.loads(run(monkeypatch, capsys, "data", "check", "clicks.csv", "--json")[1])
    for words in (["part-0.csv", "part-1.csv"], ["part-*.csv"]):
        code, out, err = run(monkeypatch, capsys, "data", "check", *words, "--json")
        assert code == 0, err
        assert json.loads(out)["data"]["parts"] == whole["data"]["parts"]


def test_repeated_pairs_are_said_once(clicks, monkeypatch, capsys):
    rows = Path("clicks.csv").read_text()
    Path("twice.csv").write_text(rows + "\n".join(rows.splitlines()[1:8]) + "\n")
    _, out, _ = run(monkeypatch, capsys, "data", "check", "twice.csv")
    assert out.count("rows repeat a (user, item) pair") == 1


def test_a_check_says_each_thing_once(clicks, monkeypatch, capsys):
    with (clicks / "clicks.csv").open("a") as file:
        file.write("u0,i0,,1\nu0,i0,,1\nnew,last,,900\n")
    _, out, _ = run(monkeypatch, capsys, "data", "check", "clicks.csv", "--split", "global-time")
    for thing in (" test users (", "repeat a (user, item) pair", "user column 'user'"):
        assert out.count(thing) == 1, thing
    assert "cold users" not in out


def test_amounts_of_memory_have_units():
    assert parse_bytes("1KB") == 1024
    assert parse_bytes("1.5 G") == 1.5 * 2**30
    with pytest.raises(InputError, match="write it as 500MB or 4GB"):
        parse_bytes("4 apples")
