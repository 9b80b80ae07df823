"""From what a caller asked for to a run: defaults, the paper's settings, and each mistake in one sentence."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from accord.errors import InputError
from accord.training import plan as planning
from accord.training.plan import find_device, plan
from accord.training.run import in_a_batch
from accord.training.trainer import TrainConfig
from contracts import TwoTower
from helpers import small_data


def test_what_is_not_asked_for_is_the_default():
    config = plan(small_data()).config
    assert (config.model, config.method, config.protocol.name) == ("gmf", "deca", "corrected")
    assert (config.seeds, config.ks, config.train.epochs) == ((2019,), (3, 5, 10, 20), 100)
    assert config.model_options == config.method_options == {}


def test_options_go_to_their_sections():
    given = {"model.dim": 4, "method.c1": 7.0, "train.l2": 0.5, "protocol.ties": "index", "protocol.first_step": "both"}
    config = plan(small_data(), options=given, epochs=3, ks=[5, 1, 5], seeds=[4, 2]).config
    assert (config.model_options, config.method_options) == ({"dim": 4}, {"c1": 7.0})
    assert (config.train.l2, config.train.epochs) == (0.5, 3)
    assert (config.protocol.ties, config.protocol.model_extra["first_step"]) == ("index", "both")
    assert (config.ks, config.seeds) == ((1, 5), (4, 2))


def test_own_rules_are_written_out():
    """With the preset's values, also of models that are not trained here: results name all rules."""
    extra = plan(small_data(), protocol="published").config.protocol.model_extra
    assert (extra["first_step"], extra["cdae_reduction"]) == ("both", "sum")


MANY = {"train.batch_size": 1}  # steps that a row waits to be looked up again


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({}, "adam"),
        ({"options": MANY}, "decoupled"),
        ({"options": MANY, "model": "auto"}, "decoupled"),
        ({"options": MANY, "model": "ease"}, "adam"),
        ({"options": MANY, "protocol": "published"}, "adam"),
        ({"options": MANY | {"protocol.optimiser": "adam"}}, "adam"),
        ({"options": {"protocol.optimiser": "decoupled"}}, "decoupled"),
    ],
)
def test_the_optimiser_goes_by_how_long_a_row_waits(asked, expected):
    data = small_data()
    assert planning.LONG < len(data.users) < planning.LONG * in_a_batch(TrainConfig(), len(data.train))
    rules = plan(data, **asked).config.protocol
    assert rules.optimiser == expected
    assert ("optimiser" in rules.model_dump()) == (expected != "adam"), "or results would have other keys than before"


def test_the_papers_settings_are_taken_where_it_has_them():
    data = replace(small_data(), name="ml-100k")
    published, corrected = (plan(data, "gmf", "deca", name).config for name in ("published", "corrected"))
    assert set(published.method_options) >= {"c1", "c2"}
    assert corrected.method_options == {}
    assert plan(data, "gmf", "deca", "published", options={"method.c1": 3.0}).config.method_options["c1"] == 3.0


def test_electronics_is_ranked_deeper():
    assert plan(replace(small_data(), name="electronics")).config.ks == (5, 10, 20, 50)


def test_a_solved_model_has_one_seed_and_no_method():
    config = plan(small_data(), "ease", "deca", seeds=3).config
    assert (config.method, config.seeds) == (None, (2019,))


def test_a_class_is_named_by_its_path():
    run = plan(small_data(), TwoTower, "normal")
    assert run.config.model == "contracts:TwoTower"
    assert run.model is TwoTower


MISTAKES = [
    ({"model": "gmff"}, "unknown model 'gmff'; did you mean 'gmf'?"),
    ({"method": "decca"}, "unknown method 'decca'; did you mean 'deca'?"),
    ({"protocol": "correct"}, "unknown protocol 'correct'; did you mean 'corrected'?"),
    (
        {"options": {"dim": 4}},
        "unknown option 'dim'; options are written model.NAME, method.NAME, train.NAME, protocol",
    ),
    ({"options": {"model.": 4}}, "unknown option 'model.'; options are written"),
    ({"options": {"models.dim": 4}}, "unknown option 'models.dim'; options are written"),
    ({"options": {"model.dimm": 4}}, "unknown option of model gmf 'dimm'; did you mean 'dim'?"),
    ({"options": {"method.c3": 4}}, "unknown option of method deca 'c3'; give one of "),
    ({"options": {"train.lrr": 4}}, "unknown option of train 'lrr'; did you mean 'lr'?"),
    ({"options": {"train.lr": -1}}, "option lr of train is -1: input should be greater than 0."),
    ({"options": {"protocol.tie": "index"}}, "unknown option of protocol 'tie'; did you mean 'ties'?"),
    ({"options": {"protocol.ties": "x"}}, "option ties of protocol is 'x': input should be 'index' or 'popularity'."),
    (
        {"options": {"protocol.first_step": "x"}},
        "option first_step of protocol is 'x': input should be 'both' or 'dp'.",
    ),
    ({"epochs": 0}, "option epochs of train is 0: input should be greater than or equal to 1."),
    ({"model": "ease", "options": {"method.c1": 1}}, "model 'ease' is solved, not trained with a method; it takes no"),
    ({"seeds": 0}, "seeds is 0; give a number from 1 to 1,000."),
    ({"seeds": 1001}, "seeds is 1001; give a number from 1 to 1,000."),
    ({"seeds": []}, "seeds are []; give 1 to 1,000 different whole numbers."),
    ({"seeds": [1, 1]}, "seeds are [1, 1]; give 1 to 1,000 different whole numbers."),
    ({"ks": []}, "k is []; give one or more whole numbers from 1 to 1,000,000."),
    ({"ks": [0, 5]}, "k is [0, 5]; give one or more whole numbers from 1 to 1,000,000."),
    ({"ks": [10**7]}, "k is [10000000]; give one or more whole numbers from 1 to 1,000,000."),
]


@pytest.mark.parametrize(("asked", "sentence"), MISTAKES, ids=lambda value: str(value)[:40])
def test_a_mistake_is_one_sentence(asked, sentence):
    with pytest.raises(InputError) as found:
        plan(small_data(), **asked)
    assert str(found.value).startswith(sentence)
    assert "\n" not in str(found.value)


def test_data_without_training_interactions_is_refused():
    data = small_data()
    with pytest.raises(InputError, match=r"^simulated has no training interaction; give more data or other ratios=\.$"):
        plan(replace(data, train=data.train.slice(0, 0), name="simulated"))


def test_the_device_by_name(monkeypatch):
    monkeypatch.setattr(planning.torch.cuda, "is_available", lambda: False)
    assert find_device("auto") == find_device("cpu") == torch.device("cpu")
    with pytest.raises(InputError, match="torch finds no CUDA device here; use device='cpu'"):
        find_device("cuda:1")
    with pytest.raises(InputError, match="unknown device 'gpu'; did you mean 'cpu'"):
        find_device("gpu")
    monkeypatch.setattr(planning.torch.cuda, "is_available", lambda: True)
    assert find_device("auto") == torch.device("cuda")
    assert find_device("cuda:1") == torch.device("cuda", 1)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"seeds": [1.5]}, "seeds are [1.5]; give 1 to 1,000 different whole numbers"),
        ({"seeds": ["a"]}, "seeds are ['a']; give 1 to 1,000"),
        ({"seeds": list(range(1001))}, "give 1 to 1,000 different whole numbers"),
        ({"ks": [1.5]}, "k is [1.5]; give one or more whole numbers"),
        ({"options": {"protocol.name": "published"}}, "protocol.name is that of the preset, corrected"),
    ],
)
def test_numbers_and_names_of_a_wrong_kind_are_one_sentence(asked, message):
    with pytest.raises(InputError) as caught:
        plan(small_data(), "gmf", "normal", **asked)
    assert message in str(caught.value)


def test_numpy_numbers_are_numbers():
    run = plan(small_data(), "gmf", "normal", seeds=np.int64(2), ks=5)
    assert run.config.seeds == (2019, 2020)
    assert run.config.ks == (5,)
    assert plan(small_data(), "gmf", "normal", seeds=np.array([4, 7])).config.seeds == (4, 7)


def test_a_solved_model_cannot_be_a_network_that_is_trained():
    run = plan(small_data(), "gmf", "deca", options={"method.h": "ease"})
    with pytest.raises(InputError, match="method 'deca' trains its networks, and model 'ease' is solved"):
        run.build(small_data().training_csr())
