"""Options are declared, checked and suggested: every mistake is one sentence."""

from __future__ import annotations

import importlib.metadata

import pytest
from pydantic import Field

import accord
from accord.config import (
    BaseConfig,
    declared,
    describe,
    full_name,
    imports_allowed,
    make_config,
    resolve,
    with_declared,
)
from accord.errors import InputError
from accord.methods import METHODS, find_method
from accord_lab.methods import ALL_METHODS
from helpers import small_data


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
        with pytest.raises(InputError, match="names collections:OrderedDict, and loading it would import and run"):
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


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """A package that declares a method, one that is not there, and one with the name of a built-in method."""
    (tmp_path / "plugged_package.py").write_text(
        "from accord.methods.normal import Normal\n\nclass Plugged(Normal):\n    name, summary = 'plugged', 'mine'\n"
    )
    (tmp_path / "plugged_package-1.0.dist-info").mkdir()
    (tmp_path / "plugged_package-1.0.dist-info" / "METADATA").write_text("Name: plugged_package\nVersion: 1.0\n")
    (tmp_path / "plugged_package-1.0.dist-info" / "entry_points.txt").write_text(
        "[accord.methods]\n"
        + "".join(f"{name} = plugged_package:{name.title()}\n" for name in ("plugged", "gone", "normal"))
    )
    monkeypatch.syspath_prepend(tmp_path)
    declared.cache_clear()
    yield
    declared.cache_clear()


def test_an_installed_package_gives_a_method_a_name(installed, tmp_path):
    options = {"model.dim": 4, "train.epochs": 1}
    made = accord.fit(small_data(), "mf", "plugged", options=options, device="cpu", out=tmp_path / "run")
    assert made.metrics["method"] == "plugged"
    loaded = accord.Recommender.load(tmp_path / "run")  # without allow_imports, since who installs a package trusts it
    assert loaded.recommend(k=3).equals(made.recommend(k=3))


def test_a_built_in_name_stays_what_it_is(installed):
    assert find_method("normal") is METHODS["normal"]


def test_a_declared_name_that_is_not_there_is_one_sentence(installed):
    with pytest.raises(InputError, match=r"^'gone' of accord.methods cannot be loaded: .* 'Gone'\.$"):
        find_method("gone")
    with pytest.raises(InputError, match="unknown method 'pluged'; did you mean 'plugged'"):
        find_method("pluged")


def test_built_in_names_are_resolved_without_a_look_at_what_is_installed(monkeypatch):
    monkeypatch.setattr(importlib.metadata, "entry_points", None)  # it takes a hundredth of a second
    assert find_method("deca").name == "deca"


def test_all_names_of_the_lab_resolve_and_none_is_missing():
    assert {*ALL_METHODS} == {*with_declared("method", METHODS)}
    assert all(find_method(name).name == name for name in ALL_METHODS)
