"""`accord doctor`: what is installed, and whether training works."""

from __future__ import annotations

from accord.cli import doctor
from commands import run


def test_what_is_installed_and_a_self_test(monkeypatch, capsys):
    code, out, _ = run(monkeypatch, capsys, "doctor")
    assert code == 0
    assert "passed" in out


def test_a_self_test_that_fails_is_exit_code_1(monkeypatch, capsys):
    monkeypatch.setattr(doctor, "self_test", lambda: (False, "FAILED in 0.1 s"))
    code, out, err = run(monkeypatch, capsys, "doctor")
    assert code == 1
    assert "FAILED in 0.1 s" in out
    assert "the self-test failed" in err


def test_a_library_that_is_missing_is_named(monkeypatch, capsys):
    monkeypatch.setattr(doctor, "LIBRARIES", ("numpy", "no-such-library"))
    monkeypatch.setattr(doctor, "self_test", lambda: (True, "passed"))
    _, out, _ = run(monkeypatch, capsys, "doctor")
    assert "missing: install accord again" in out
