"""How what is written on the command line is read."""

from __future__ import annotations

import pytest

from accord.cli.options import (
    interrupted,
    parse_numbers,
    parse_options,
    put_table,
    read_ids,
    run_folder,
    typed,
)
from accord.errors import InputError


def test_options_are_numbers_words_or_json():
    words = ["method.c1=100", "train.early_stop=false", "method.h=gmf", "model.layers=[8, 4]", "model.name=a=b"]
    assert parse_options(words) == {
        "method.c1": 100, "train.early_stop": False, "method.h": "gmf", "model.layers": [8, 4], "model.name": "a=b",
    }  # fmt: skip
    for wrong in ("method.c1", "=3", f"method.c1={'9' * 5000}"):
        with pytest.raises(InputError, match=r"write it as method\.c1=100"):
            parse_options([wrong])


def test_numbers_have_commas_between():
    assert parse_numbers("5,20", "--k") == [5, 20]
    assert parse_numbers("0.8,0.1,0.1", "--ratios", float) == [0.8, 0.1, 0.1]
    with pytest.raises(InputError, match="--k '5;20'"):
        parse_numbers("5;20", "--k")


def test_ids_are_lines_of_a_file(tmp_path):
    path = tmp_path / "ids.txt"
    path.write_text("\ufeffu1\n\n  u2 \nu 3", encoding="utf-8")
    assert read_ids(path, "--users") == ["u1", "u2", "u 3"]
    for content, sentence in ((b"\n\n", "is empty"), (b"\xff\xfe", "not UTF-8")):
        path.write_bytes(content)
        with pytest.raises(InputError, match=sentence):
            read_ids(path, "--users")
    with pytest.raises(InputError, match="no such file"):
        read_ids(tmp_path / "nowhere", "--users")


def test_the_command_without_what_only_concerns_one_run_of_it(monkeypatch):
    monkeypatch.setattr("sys.argv", ["accord", "train", "my clicks.csv", "--resume", "--k", "5", "--overwrite"])
    assert typed() == "accord train 'my clicks.csv' --k 5"


def test_our_own_folder_gets_a_number_and_the_callers_is_never_replaced_unasked(tmp_path):
    usual = tmp_path / "usual"
    assert run_folder(None, usual, False, False) == usual
    usual.mkdir()
    assert run_folder(None, usual, False, False) == tmp_path / "usual-2"
    assert run_folder(None, usual, False, True) == usual
    (usual / "checkpoint-1.safetensors").touch()
    assert interrupted(usual)
    assert run_folder(None, usual, True, False) == usual
    with pytest.raises(InputError, match="interrupted run; continue it with --resume"):
        run_folder(usual, usual, False, False)
    assert run_folder(usual, usual, True, False) == usual
    (usual / "metrics.json").touch()
    assert not interrupted(usual)
    with pytest.raises(InputError, match="finished run; give another --out"):
        run_folder(usual, usual, True, False)
    assert run_folder(usual, usual, False, True) == usual


def test_a_table_goes_to_the_screen_or_to_a_file(tmp_path, capsys):
    import pyarrow as pa

    table = pa.table({"user": ["u1"], "rank": [1]})
    put_table(table, None, "csv")
    assert capsys.readouterr().out == '"user","rank"\n"u1",1\n'
    put_table(table, tmp_path / "x.json", "json")
    assert (tmp_path / "x.json").read_text() == '{"user": "u1", "rank": 1}\n'
