"""What the results say of a run: its data, and the members of a consensus one by one."""

from __future__ import annotations

import pytest

from accord.fitting import fit
from accord.recommender import results
from helpers import plan_small, small_data


def test_the_data_is_counted_as_the_protocol_has_it():
    data = small_data()
    found = results.of_run(plan_small("ease", "normal", (3,)), data, {"valid": 1, "test": 2})
    assert (found["model"], found["method"], found["protocol"]["name"]) == ("ease", "none", "corrected")
    assert (found["dataset"]["train"], found["dataset"]["valid"], found["dataset"]["test"]) == (len(data.train), 1, 2)


def test_each_member_has_the_figure_that_it_reaches_alone():
    data, members = small_data(), [{"model": "ease"}, {"model": "popularity"}]
    made = fit(data, "consensus", options={"model.members": members}, device="cpu")
    for entry in made.metrics["members"]:
        alone = fit(data, entry["model"], device="cpu").metrics
        assert entry["test_ndcg@20"] == pytest.approx(alone["mean"]["ndcg@20"], abs=1e-9)
        assert entry["valid_ndcg@20"] == pytest.approx(alone["runs"][0]["valid_ndcg@20"], abs=1e-9)


def test_other_models_have_no_members():
    made = fit(small_data(), "ease", device="cpu")
    assert not {"members", "search"} & set(made.metrics)
