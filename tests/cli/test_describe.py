"""`accord models` and `accord methods`."""

from __future__ import annotations

from accord.config import with_declared
from accord.methods import METHODS
from accord.models import MODELS
from commands import run


def test_models_and_methods_are_listed_with_their_options(monkeypatch, capsys):
    code, out, _ = run(monkeypatch, capsys, "models")
    assert code == 0
    assert all(name in out for name in ("mf", "gmf", "neumf", "cdae", "lightgcn", "popularity", "ease", "model.l2=500"))
    code, out, _ = run(monkeypatch, capsys, "methods")
    assert code == 0
    assert all(
        name in out for name in ("normal", "wbpr", "tce", "rce", "ensemble", "deca-p", "method.c1=10", "train.lr")
    )


def test_every_model_and_method_has_a_line_and_all_of_its_options(monkeypatch, capsys):
    for command, kinds in (("models", with_declared("model", MODELS)), ("methods", with_declared("method", METHODS))):
        _, out, _ = run(monkeypatch, capsys, command)
        lines = out.splitlines()
        for name, kind in kinds.items():
            described = [line for line in lines if line.endswith(f": {kind.summary}")]
            assert len(described) == 1, "a kind of two names is described once"
            assert name in described[0].partition(": ")[0].split(", ")
            for option in kind.Config.model_fields:
                assert f" {command[:-1]}.{option}=" in out
