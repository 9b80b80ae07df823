"""A snapshot answers as the recommender does, whatever happens to its folder."""

from __future__ import annotations

import pytest

from accord import Recommender
from accord.errors import InputError
from accord.serve.snapshots import Snapshot
from serving import run, train  # noqa: F401


def listed(answer):
    return [entry["item"] for entry in answer["items"]]


@pytest.mark.parametrize("model", ["mf", "neumf", "cdae", "lightgcn", "popularity", "ease"])
def test_every_model_gives_the_lists_of_the_recommender(tmp_path, model):
    folder = train(tmp_path / "run", model, epochs=1)
    recommender, snapshot = Recommender.load(folder), Snapshot.load(folder)
    for user in recommender.users.ids.to_pylist()[::7]:
        table = recommender.recommend([user], 10)
        answer = snapshot.recommend(user, 10, why=True)
        assert listed(answer) == table.column("item").to_pylist()
        assert [entry["score"] for entry in answer["items"]] == table.column("score").to_pylist()
        assert {answer["source"]} == set(table.column("source").to_pylist())
        seen = {entry["item"] for entry in snapshot.history(user)["items"]}
        named = [reason["item"] for entry in answer["items"] for reason in entry["why"]]
        assert bool(named) == (model != "popularity"), "of which a history says nothing"
        assert set(named) <= seen
    history = listed(snapshot.recommend("u0002", 4))
    table = recommender.recommend(["new"], 10, history={"new": history})
    assert listed(snapshot.from_history(history, 10)) == table.column("item").to_pylist()
    similar = snapshot.similar("i0003", 39)
    assert len(similar["items"]) == 39
    assert similar["item"] not in listed(similar)


def test_large_integer_ids_come_as_text(tmp_path):
    import pyarrow as pa

    import accord

    users = [user for user in range(6) for _ in range(5)]
    items = [2**60 + (user + n) % 8 for user in range(6) for n in range(5)]
    accord.fit(accord.load(pa.table({"user": users, "item": items})), "popularity", out=tmp_path / "run")
    answer = Snapshot.load(tmp_path / "run").recommend(1, 3)
    assert answer["user"] == 1
    assert all(entry["item"].startswith(str(2**60)[:-2]) for entry in answer["items"])


def test_a_folder_that_changes_while_it_is_read_is_read_again(run, monkeypatch):  # noqa: F811
    states = iter([(1, 1, 1), (2, 2, 2), (2, 2, 2), (2, 2, 2)])
    monkeypatch.setattr("accord.serve.snapshots.identity_of", lambda _: next(states))
    assert Snapshot.load(run).identity == (2, 2, 2)
    changing = iter(range(100))
    monkeypatch.setattr("accord.serve.snapshots.identity_of", lambda _: next(changing))
    with pytest.raises(InputError, match="changed again and again while it was read"):
        Snapshot.load(run)
