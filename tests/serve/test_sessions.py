"""The families that know order, asked for a session by its clicks."""

from __future__ import annotations

import pyarrow as pa
import pytest

from accord import Recommender, fit
from accord.serve.api import make_app
from accord.serve.guard import Rules
from helpers import walk
from serving import Client, make_holder


@pytest.mark.parametrize("name", ["slist", "sparse-slist", "next-knn", "sasrec"])
def test_a_session_is_asked_for_by_its_clicks(name, tmp_path):
    """From a folder: lists of a history in its order, with reasons, on the server too, and as an update has them."""
    learned = {"method": "softmax", "epochs": 10, "options": {"model.dim": 8, "train.lr": 0.02}}
    fit(walk(), name, device="cpu", out=tmp_path / "run", **(learned if name == "sasrec" else {}))
    run, session = Recommender.load(tmp_path / "run"), [3, 4, 6, 7]

    def listed(history):
        return run.recommend([-1], 5, history={-1: history}).select(["item", "score"])

    best = listed(session)["item"].to_pylist()
    assert {8, 9} <= set(best), "what comes after the last item"
    assert not listed(session).equals(listed(session[::-1]))
    reasons = run.explain([-1], [9], history={-1: session}, most=4)
    assert set(reasons["because"].to_pylist()) <= set(session)
    if name != "sasrec":
        assert (reasons["because"][0].as_py(), reasons["by"][0].as_py()) == (7, "contribution")
    client = Client(make_app(make_holder(tmp_path / "run"), Rules()))
    answer = client.post("/v1/recommendations/history", json={"history": session, "k": 5, "why": True}).json()
    assert [entry["item"] for entry in answer["items"]] == best
    assert all(entry["why"] for entry in answer["items"][:1])
    later = pa.table({"user": [-1] * 4, "item": session, "time": [50, 51, 52, 53]})
    assert run.update(later).recommend([-1], 2)["item"].to_pylist() == best[:2]
