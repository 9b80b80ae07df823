"""Sentences about input quote it short, and nothing in them moves a terminal's cursor."""

from __future__ import annotations

from accord.errors import InputError, printable, shown, unknown


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
