"""Sentences about input quote it short, and nothing in them moves a terminal's cursor."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from accord.errors import Argument, ColumnArgument, InputError, printable, shown, unknown


def test_a_value_is_quoted_short():
    assert shown("a") == "'a'"
    assert shown(1.5) == "1.5"
    assert shown("x\n\x1b") == r"'x\n\x1b'"
    assert shown("y" * 1000) == "'" + "y" * 79 + "… (1,002 characters)"


def test_what_would_move_the_cursor_is_written_as_a_code():
    assert printable("plain ü\n\tnext") == "plain ü\n\tnext"
    assert printable("a\x1b[31m\rb\u202ec\ud800") == r"a\x1b[31m\rb\u202ec\ud800"


def test_the_nearest_name_is_suggested():
    near = unknown("model", "gmff", ["mf", "gmf", "ease"])
    assert isinstance(near, InputError)
    assert isinstance(near, ValueError)
    assert str(near) == "unknown model 'gmff'; did you mean 'gmf'?"
    assert str(unknown("model", "sasrec", ["ease", "mf"])) == "unknown model 'sasrec'; give one of ease, mf."
    assert str(unknown("model", "zzz", ["mf", "gmf"])) == "unknown model 'zzz'; give one of gmf, mf."


def test_a_sentence_names_an_argument_in_python_and_an_option_on_the_command_line():
    error = InputError(
        "give another ",
        Argument("out"),
        ", or ",
        Argument("if_exists", "replace"),
        " and ",
        Argument("resume", True),
        ".",
    )
    assert str(error) == "give another out=, or if_exists='replace' and resume=True."
    assert error.for_command == "give another --out, or --if-exists replace and --resume."


@pytest.mark.parametrize(
    ("argument", "python", "option"),
    [
        (Argument("seeds", 1), "seeds=1", "--seeds 1"),
        (Argument("ratios", (1, 0, 0)), "ratios=(1, 0, 0)", "--ratios 1,0,0"),
        (Argument("query", "select 1"), "query='select 1'", "--query 'select 1'"),
        (Argument("out", Path("runs/a")), "out='runs/a'", "--out runs/a"),
        (ColumnArgument("time"), "columns=Columns(time=…)", "--time-col"),
    ],
)
def test_an_argument_is_shown_with_its_value(argument, python, option):
    assert (str(argument), argument.option) == (python, option)


def test_an_error_keeps_its_arguments_between_processes():
    error = InputError("give another ", Argument("out"), ".")
    assert pickle.loads(pickle.dumps(error)).for_command == error.for_command
