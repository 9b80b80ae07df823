"""What a recommender answers by the caller's own ids: choices, batches, similar items, scores, reasons."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import accord
from accord.data.interactions import IdMap
from accord.errors import InputError
from accord.recommender.answers import as_ids, of_lists, require_count
from helpers import small_data


@pytest.fixture(scope="module")
def rec():
    return accord.fit(small_data(), "ease", options={"model.l2": 20})


def test_a_choice_leaves_out_the_rest_for_everybody(rec):
    whole = rec.recommend(None, 40)
    some = whole.column("item").unique().to_pylist()[:7]
    only = rec.recommend(None, 40, allow=some, exclude=some[:2])
    keep = pa.compute.is_in(whole.column("item"), value_set=pa.array(some[2:]))
    for name in ("user", "item", "score"):
        assert only.column(name).to_pylist() == whole.filter(keep).column(name).to_pylist()
    assert rec.recommend(["nobody"], 3, allow=some).column("item").to_pylist()
    with pytest.warns(UserWarning, match=r"^allow: no item is left to recommend.$"):
        assert not len(rec.recommend(None, 3, allow=[]))


def test_an_empty_answer_says_why(rec):
    every = rec.items.ids.to_pylist()
    with pytest.warns(UserWarning, match=r"^exclude: no item is left to recommend.$") as said:
        assert not len(rec.recommend(["nobody"], 3, exclude=every))
    assert said[0].filename == __file__
    user = rec.users.ids[0].as_py()
    has = rec.everything().train.table.filter(pa.compute.field("user") == user)["item"].to_pylist()
    with pytest.warns(UserWarning, match=r"^there is no list: these users have every item that may be recommended.$"):
        assert not len(rec.recommend([user], 3, allow=has))
    popular = accord.fit(small_data(), "popularity")
    with pytest.warns(
        UserWarning, match=r"^there are no reasons: nothing in the histories speaks for these items, or "
    ):
        assert not len(popular.explain([user], every[:1]))


def test_unknown_items_of_a_choice_are_said(rec):
    with pytest.warns(UserWarning, match=r"^allow: 1 of 2 item\(s\) are unknown.$") as told:
        rec.recommend(None, 3, allow=["nothing", rec.items.ids[0].as_py()])
    assert told[0].filename == __file__


def test_lists_of_blocks_are_the_lists(rec, monkeypatch):
    whole = rec.recommend(None, 5)
    monkeypatch.setattr("accord.evaluation.ranking.BLOCK_BYTES", 4 * 40 * 7)
    assert len(list(rec.lists_in_blocks(rec.users.ids, 5))) > 4
    assert rec.recommend(None, 5).combine_chunks().equals(whole.combine_chunks())


def test_similar_items_by_their_ids(rec):
    items = rec.items.ids.to_pylist()
    table = rec.similar([items[3], items[0]], 4)
    assert table.column_names == ["similar_to", "rank", "item", "similarity"]
    assert table.column("similar_to").to_pylist() == [items[3]] * 4 + [items[0]] * 4
    weight = rec.lists.method.target.weight[:, 3].numpy()
    best = [items[row] for row in np.argsort(-weight, kind="stable") if row != 3][:4]
    assert table.column("item").to_pylist()[:4] == best
    assert len(rec.similar(items[:1], 100)) == len(items) - 1
    assert not len(rec.similar([]))
    with pytest.raises(InputError, match="no item 'nothing' was in the training data"):
        rec.similar([items[0], "nothing"])


def test_scores_of_pairs_are_those_of_the_lists_and_null_for_strangers(rec):
    lists = rec.recommend(None, 3)
    shuffled = lists.take(np.random.default_rng(0).permutation(len(lists)))
    table = rec.score(shuffled.column("user"), shuffled.column("item"))
    np.testing.assert_allclose(table.column("score"), shuffled.column("score"), rtol=1e-5)
    strangers = rec.score(["nobody", "u0003"], [lists.column("item")[0].as_py(), "nothing"])
    assert strangers.column("score").to_pylist() == [None, None]
    with pytest.raises(InputError, match="there are 2 users and 1 items"):
        rec.score(["u0003", "u0004"], ["i0001"])


def test_reasons_by_their_ids(rec):
    lists = rec.recommend(["u0003", "u0005"], 2)
    table = rec.explain(lists.column("user"), lists.column("item"), most=2)
    assert table.column_names == ["user", "item", "rank", "because", "value", "by"]
    assert set(table.column("by").to_pylist()) == {"contribution"}
    asked = list(zip(lists.column("user").to_pylist(), lists.column("item").to_pylist(), strict=True))
    answered = zip(table.column("user").to_pylist(), table.column("item").to_pylist(), strict=True)
    assert list(dict.fromkeys(answered)) == asked
    trained = {(row["user"], row["item"]) for row in rec.everything().train.table.to_pylist()}
    assert {(row["user"], row["because"]) for row in table.to_pylist()} <= trained
    new = rec.explain(["new"], ["i0004"], history={"new": ["i0003", "i0001"]})
    assert set(new.column("because").to_pylist()) <= {"i0003", "i0001"}
    assert not len(rec.explain([], []))
    with pytest.raises(InputError, match="no user 'nobody' was in the training data"):
        rec.explain(["nobody"], ["i0004"])


def test_frames_come_in_and_go_out(rec):
    frame = pytest.importorskip("pandas").DataFrame({"user": ["u0003", "u0005"], "item": ["i0004", "i0001"]})
    assert rec.score(frame["user"], frame["item"]).to_pandas()["user"].tolist() == ["u0003", "u0005"]
    assert rec.recommend(frame["user"], 2).to_pandas().shape == (4, 5)
    assert rec.recommend(user for user in frame["user"]).equals(rec.recommend(frame["user"].tolist()))


NUMBERS, NAMES = IdMap(pa.array([5, 6, 7])), IdMap(pa.array(["a", "b"]))


@pytest.mark.parametrize(
    ("asked", "known", "found"),
    [
        ([6, 5], NUMBERS, [6, 5]),
        (["6", "5"], NUMBERS, [6, 5]),
        (["6", "x"], NUMBERS, ["6", "x"]),
        ([6, "x"], NUMBERS, ["6", "x"]),
        ([6], NAMES, ["6"]),
        (pa.chunked_array([["b"], ["a"]]), NAMES, ["b", "a"]),
    ],
)
def test_ids_are_of_the_type_of_the_runs(asked, known, found):
    assert as_ids("users", asked, known).to_pylist() == found


@pytest.mark.parametrize("given", [5, "a", 2.5, np.int64(5)])
def test_one_id_is_no_list_of_ids(given):
    with pytest.raises(InputError, match=r"^users is .*, but a list of ids is needed; give \["):
        as_ids("users", given, NUMBERS)


@pytest.mark.parametrize("given", [0, -1, 2.5, "3", True, None])
def test_a_count_is_a_whole_number_from_one_up(given):
    with pytest.raises(InputError, match=r"^k is .*; give a whole number from 1 up.$"):
        require_count("k", given)
    assert require_count("k", np.int64(3)) == 3


def test_places_without_an_item_are_no_rows():
    scores = np.array([[2.0, 1.0], [3.0, -np.inf]])
    table = of_lists(pa.array(["a", "b"]), NUMBERS, np.array([[0, 2], [1, 0]]), scores, ["model", "popularity"])
    assert table.to_pylist() == [
        {"user": "a", "rank": 1, "item": 5, "score": 2.0, "source": "model"},
        {"user": "a", "rank": 2, "item": 7, "score": 1.0, "source": "model"},
        {"user": "b", "rank": 1, "item": 6, "score": 3.0, "source": "popularity"},
    ]
