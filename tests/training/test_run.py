"""What was run: a config that is enough to repeat it, its rules, and one entry per run."""

from __future__ import annotations

import json
from typing import Literal

import numpy as np
import pytest
from pydantic import ValidationError

from accord.errors import InputError
from accord.evaluation.evaluate import Evaluation
from accord.methods.normal import Normal
from accord.protocol import CORRECTED, OwnRules, Protocol, rule
from accord.training.run import RunConfig, RunSpec, check_rules, recorded_rules, run_entries
from accord.training.trainer import TrainState
from accord_lab.leaderboards.oracle import preset_rules
from helpers import assert_same_weights, one_run, plan_small, random_csr

TRAIN = random_csr(8, 6, 0.5)


def saved(**changes):
    """The config of a run as its folder holds it."""
    return json.loads(plan_small("gmf", "deca", (3, 5)).config.model_dump_json()) | changes


def load(content):
    return RunSpec.load(RunConfig(**content), None, None, allow_imports=False)


def test_a_config_comes_back_as_it_was_written():
    run = plan_small("gmf", "deca", (3, 5), method__c1=7.0, protocol__ties="index")
    again = load(json.loads(run.config.model_dump_json()))
    assert again.config == run.config
    assert_same_weights(again.build(TRAIN).state_dict(), run.build(TRAIN).state_dict())


def test_a_config_from_before_a_field_was_there_loads():
    content = saved()
    del content["varied"]
    del content["train"]["pretrain_early_stop"]
    del content["protocol"]["first_step"]  # a rule that was declared later has the preset's value
    again = load(content)
    assert again.config.varied == ()
    assert again.config.train.pretrain_early_stop
    assert again.build(TRAIN).own_rules.first_step == "dp"


def test_a_config_with_an_unknown_rule_is_refused():
    content = saved()
    content["protocol"]["first_stepp"] = "dp"
    with pytest.raises(InputError, match=r"^unknown option of protocol 'first_stepp'; did you mean 'first_step'"):
        load(content)


def test_a_config_with_a_bad_rule_is_refused():
    content = saved()
    content["protocol"]["cdae_l2"] = "cubed"
    with pytest.raises(InputError, match=r"^option cdae_l2 of protocol is 'cubed'"):
        load(content)


@pytest.mark.parametrize("change", [{"seeds": []}, {"ks": [0]}, {"seeds": list(range(1001))}, {"colour": "red"}])
def test_a_config_out_of_bounds_is_none(change):
    with pytest.raises(ValidationError):
        RunConfig(**saved(**change))


class OwnRule(OwnRules):
    loudness: Literal["soft", "loud"] = rule("loud", "soft", "how loud")


class Loud(Normal):
    name, summary, Rules = "loud", "plain training with a rule of its own", OwnRule


def test_the_rules_of_a_callers_own_method_are_known():
    given = Protocol(**CORRECTED.model_dump(), loudness="loud")
    with pytest.raises(InputError, match="unknown option of protocol 'loudness'"):
        check_rules(given)
    assert check_rules(given, [OwnRule]) is given
    run = plan_small("gmf", Loud, (3,), protocol__loudness="loud")
    assert run.config.protocol.rules_of(OwnRule).loudness == "loud"
    content = json.loads(run.config.model_dump_json())
    assert RunSpec.load(RunConfig(**content), None, Loud, allow_imports=False).kind is Loud


def test_recorded_rules_hold_the_general_and_the_own():
    found = recorded_rules(Protocol(**CORRECTED.model_dump(), cdae_mask=False))
    assert (found["name"], found["ties"], found["negatives"]) == ("corrected", "popularity", "unseen")
    assert (found["cdae_mask"], found["cdae_l2"], found["alpha_weighs"]) == (False, "squared", "f-p")
    assert json.loads(json.dumps(found)) == found


class LaterRule(OwnRules):
    pitch: float = rule(0.5, 1.0, "how high", before=1.0)


class Late(Normal):
    name, summary, Rules = "late", "plain training with a rule that came later", LaterRule


def test_a_later_rule_is_recorded_for_its_own_and_where_it_changes_anything():
    def pitch(method, protocol, **more):
        return plan_small("gmf", method, (3,), protocol=protocol, **more).config.protocol.model_dump().get("pitch")

    assert pitch(Late, "published") == 0.5
    assert pitch(Late, "corrected") is None, "as before: results keep their keys"
    assert pitch(Late, "corrected", protocol__pitch=0.7) == 0.7
    assert pitch(Late, "published", protocol__pitch=1.0) == 1.0, "not the preset's, so it is said"
    assert pitch("normal", "published") is None
    for protocol, given in (("published", {}), ("published", {"protocol__pitch": 1.0}), ("corrected", {})):
        config = plan_small("gmf", Late, (3,), protocol=protocol, **given).config
        again = RunConfig(**json.loads(config.model_dump_json()))
        assert again.protocol.rules_of(LaterRule) == config.protocol.rules_of(LaterRule)


@pytest.mark.parametrize("name", ["published", "corrected"])
def test_the_rules_of_a_preset_are_those_that_a_run_records(name):
    assert preset_rules(name) == recorded_rules(plan_small("gmf", "normal", (1,), protocol=name).config.protocol)


def test_options_may_differ_between_runs():
    config = plan_small("gmf", "deca", (3, 5)).config
    assert config.own_options("method") == [{}, {}]
    varied = ({"method.c1": 1.0, "train.l2": 0.5}, {"method.c1": 2.0})
    run = plan_small("gmf", "deca", (3, 5)).updated(varied=varied)
    assert run.config.own_options("method") == [{"c1": 1.0}, {"c1": 2.0}]
    assert run.config.own_options("train") == [{"l2": 0.5}, {}]
    assert run.build(TRAIN).c1.tolist() == [[1.0], [2.0]]
    assert run.with_seeds((9,)).config.varied == ()


def test_a_run_of_a_stack_is_built_as_it_is_alone():
    run = plan_small("gmf", "ensemble", (3, 5))
    stack, alone = run.build(TRAIN), run.with_seeds((5,)).build(TRAIN)
    assert stack.target.seeds[:2] == (3, 5)
    assert len(set(stack.target.seeds)) == 4, "the second member has seeds of its own"
    assert_same_weights(one_run(stack.state_dict(), 1, 2), one_run(alone.state_dict(), 0, 1))


def evaluation():
    values = {"recall@20": np.array([[0.0, 1.0], [0.5, 0.5]])}
    return Evaluation(np.array([0, 1]), values, np.array([True, True]))


def test_an_entry_says_what_a_run_gave():
    config = plan_small("gmf", "normal", (3, 5)).config
    before = TrainState(seconds=2.0)
    last = TrainState(epoch=9, seconds=1.0, best=[0.25, 0.75], stopped_at=[4, 0])
    found = run_entries(config, evaluation(), [before, last], lambda: pytest.fail("it was watched"))
    metrics = {"recall@20": 0.5}
    assert found == [
        {"seed": 3, "metrics": metrics, "epochs": 4, "train_seconds": 1.5, "valid_ndcg@20": 0.25},
        {"seed": 5, "metrics": metrics, "epochs": 9, "train_seconds": 1.5, "valid_ndcg@20": 0.75},
    ]


def test_an_entry_of_members_has_their_mean():
    config = plan_small("gmf", "ensemble", (3, 5)).config
    last = TrainState(epoch=9, best=[0.2, 0.4, 0.6, 0.8], stopped_at=[0] * 4)
    found = run_entries(config, evaluation(), [last], lambda: None)
    assert [entry["valid_ndcg@20"] for entry in found] == pytest.approx([0.4, 0.6])


def test_where_nothing_was_trained_the_validation_is_measured():
    config = plan_small("popularity", "none", (3,)).config
    one = Evaluation(np.array([0]), {"recall@20": np.array([[1.0]])}, np.array([True]))
    (entry,) = run_entries(config, one, [], lambda: [0.125])
    assert (entry["epochs"], entry["train_seconds"], entry["valid_ndcg@20"]) == (0, 0.0, 0.125)
    assert "valid_ndcg@20" not in run_entries(config, one, [], lambda: None)[0]
    published = plan_small("popularity", "none", (3,), protocol="published").config
    assert "valid_ndcg@20" not in run_entries(published, one, [], lambda: [0.125])[0]


def test_a_run_that_never_checked_has_no_validation():
    config = plan_small("gmf", "normal", (3,)).config
    state = TrainState(epoch=1, best=[-float("inf")], stopped_at=[0])
    one = Evaluation(np.array([0]), {"recall@20": np.array([[1.0]])}, np.array([True]))
    (entry,) = run_entries(config, one, [state], lambda: pytest.fail("what is learned is only watched"))
    assert entry["epochs"] == 1
    assert "valid_ndcg@20" not in entry
