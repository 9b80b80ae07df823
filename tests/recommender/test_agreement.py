"""How the members of a consensus place an item: counted by hand."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
import torch

from accord.errors import InputError
from accord.fitting import fit
from accord.models.consensus import vote
from accord.recommender.agreement import AGREES
from helpers import small_data

MEMBERS = [{"model": "ease", "weight": 1.0}, {"model": "ials", "options": {"model.dim": 4}, "seeds": 2, "weight": 1.0}]


@pytest.fixture(scope="module")
def made():
    return fit(small_data(), "consensus", options={"model.members": MEMBERS}, device="cpu")


@torch.inference_mode()
def test_a_place_is_how_many_unowned_items_a_member_puts_before_it(made):
    shown = made.recommend(None, 5)
    table = made.agreement(shown.select(["user", "item"]))
    assert table.column_names == ["user", "item", "agree", "of", "ease", "ials x 2"]
    method = made.lists.method
    for row in table.slice(0, 40).to_pylist():
        user, item = made.users.rows([row["user"]])[0], made.items.rows([row["item"]])[0]
        free = np.ones(len(made.items), dtype=bool)
        free[made.owned.items[made.owned.ptr[user] : made.owned.ptr[user + 1]]] = False
        places = []
        for member in method.target.members:
            scores = vote(member, torch.tensor([user]))[0].numpy()
            places.append(1 + int((scores[free] > scores[item]).sum()))
        assert [row["ease"], row["ials x 2"]] == places
        assert (row["agree"], row["of"]) == (sum(place <= AGREES for place in places), 2)


def test_an_interaction_has_a_place_too_and_a_stranger_has_none(made):
    data = small_data()
    user = data.train.users[0].as_py()
    asked = pa.table({"user": [user, "nobody"], "item": [data.train.items[0].as_py()] * 2})
    known, stranger = made.agreement(asked).to_pylist()
    assert known["ease"] >= 1
    assert (stranger["agree"], stranger["ease"]) == (None, None)


def test_only_members_can_agree():
    made = fit(small_data(), "ease", device="cpu")
    with pytest.raises(InputError, match=r"^only the members of a consensus can agree; train one with model='auto'"):
        made.agreement(pa.table({"user": ["u1"], "item": ["i1"]}))


def test_members_of_one_kind_are_told_apart():
    members = [{"model": "ease", "options": {"model.l2": l2}, "weight": 1.0} for l2 in (10.0, 500.0)]
    members.append({"model": "ease", "options": {"model.clean": True}, "weight": 0.5, "added": True})
    made = fit(small_data(), "consensus", options={"model.members": members}, device="cpu")
    assert made.opinions.labels == ["ease", "ease (2)", "ease (by labels)"]
    assert made.agreement(made.recommend(None, 1).select(["user", "item"])).column("of").to_pylist()[0] == 3
