"""Options are declared, checked and suggested: every mistake is one sentence."""

from __future__ import annotations

import pytest
from pydantic import Field

from accord.config import BaseConfig, describe, full_name, imports_allowed, make_config, resolve
from accord.errors import InputError


class Config(BaseConfig):
    dim: int = Field(32, ge=1, description="width")
    rate: float = Field(description="learning rate")


@pytest.mark.parametrize(("method", "name"), [("deca", "gmf + deca"), (None, "gmf"), ("none", "gmf")])
def test_a_model_without_a_method_is_called_by_its_name_alone(method, name):
    assert full_name("gmf", method) == name


def test_options_become_a_frozen_config():
    made = make_config(Config, {"rate": 0.5}, "model mine")
    assert (made.dim, made.rate) == (32, 0.5)
    with pytest.raises(ValueError, match="frozen"):
        made.dim = 3


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"rate": 1.0, "dimm": 3}, "unknown option of model mine 'dimm'; did you mean 'dim'?"),
        ({"rate": 1.0, "dim": 0}, "option dim of model mine is 0: input should be greater than or equal to 1."),
        ({"rate": float("nan")}, "option rate of model mine is nan: input should be a finite number."),
        ({"rate": "fast"}, "option rate of model mine is 'fast': input should be a valid number, unable to parse"),
    ],
)
def test_a_mistake_is_one_sentence(options, sentence):
    with pytest.raises(InputError) as found:
        make_config(Config, options, "model mine")
    assert str(found.value).startswith(sentence)
    assert "\n" not in str(found.value)


def test_an_option_can_be_omitted_when_it_has_its_default():
    class Grown(Config):
        depth: int = Field(1, description="layers")
        omit_when_default = ("depth",)

    assert Grown(rate=0.5).model_dump() == Config(rate=0.5).model_dump() == {"dim": 32, "rate": 0.5}
    assert Grown(rate=0.5, depth=2).model_dump(mode="json") == {"dim": 32, "rate": 0.5, "depth": 2}
    assert Grown(**Grown(rate=0.5).model_dump()) == Grown(rate=0.5)


def test_a_name_a_path_or_an_object_is_resolved():
    known = {"mine": Config}
    assert resolve("model", "mine", known) is Config
    assert resolve("model", dict, known) is dict
    assert resolve("model", "collections:OrderedDict", known).__name__ == "OrderedDict"


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        ("mined", "unknown model 'mined'; did you mean 'mine'?"),
        ("no_such_module_here:Model", "model 'no_such_module_here:Model': cannot import 'no_such_module_here'"),
        ("collections:Model", "model 'collections:Model': 'collections' has no 'Model'."),
    ],
)
def test_what_cannot_be_resolved_is_one_sentence(spec, sentence):
    with pytest.raises(InputError) as found:
        resolve("model", spec, {"mine": Config})
    assert str(found.value).startswith(sentence)


def test_a_file_beside_the_caller_can_be_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", ["/elsewhere"])
    (tmp_path / "beside_the_caller.py").write_text("class Mine:\n    pass\n")
    assert resolve("model", "beside_the_caller:Mine", {}).__name__ == "Mine"


def test_imports_are_refused_only_where_they_are_not_allowed():
    known = {"mine": Config}
    with imports_allowed(False):
        assert resolve("model", "mine", known) is Config, "a known name needs no import"
        assert resolve("model", dict, known) is dict
        with pytest.raises(InputError, match="a file names collections:OrderedDict, which would import and run"):
            resolve("model", "collections:OrderedDict", known)
        with imports_allowed(True), pytest.raises(InputError, match="would import and run"):
            resolve("model", "collections:OrderedDict", known)
        with pytest.raises(InputError, match="would import and run"):
            resolve("model", "collections:OrderedDict", known)
    assert resolve("model", "collections:OrderedDict", known)


def test_imports_are_allowed_again_after_an_error():
    with pytest.raises(KeyError), imports_allowed(False):
        raise KeyError
    assert resolve("model", "collections:OrderedDict", {})


def test_options_are_described_with_their_defaults():
    assert describe(Config) == [("dim", "32", "width"), ("rate", "", "learning rate")]
