"""Items without interactions, recommended, found similar and explained by attributes; and items held out entirely."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
import scipy.sparse as sp
import torch

import accord
from accord.errors import InputError
from accord.recommender import new_items
from accord.recommender.new_items import NEAR, PENALTY, Extension, nearest
from logs import about, log_of_kinds

KNOWN, FRESH = about(*range(100)), about(200, 201, 202, 203)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "run"
    return accord.fit(accord.load(log_of_kinds(), items=pa.table(KNOWN)), "ease", options={"model.l2": 20}, out=folder)


@pytest.fixture(scope="module")
def new(run):
    return run.with_items(pa.table(FRESH))


def of_kind(table: pa.Table, kind: int) -> list[str]:
    return [item for item in table["item"].to_pylist() if int(item[1:]) % 4 == kind]


def test_a_new_item_goes_to_those_who_like_its_kind(run, new):
    users = [f"u{user:03}" for user in range(8)]
    lists = new.recommend(users, 3, allow=FRESH["id"])
    assert lists.filter(pa.compute.equal(lists["rank"], 1))["item"].to_pylist() == [f"i{200 + n % 4}" for n in range(8)]
    before = run.recommend(users, 9)
    assert new.score(before["user"], before["item"])["score"] == before["score"]  # others' scores stay
    assert set(FRESH["id"]) <= set(new.recommend(users, 94)["item"].to_pylist())
    scored = new.score(lists["user"], lists["item"])
    assert scored["score"].to_numpy() == pytest.approx(lists["score"].to_numpy(), abs=1e-6)


def test_scores_are_the_mean_of_a_ridge_regression_and_of_what_is_near():
    rng = np.random.default_rng(1)
    matrix = (rng.random((30, 5)) < 0.4) * rng.random((30, 5))
    matrix[3] = matrix[24]  # of cosine 1
    counts, scores = np.append(rng.integers(1, 9, 23), 0), rng.normal(size=(2, 3, 24))
    extension = Extension(sp.csr_array(matrix), counts, torch.device("cpu"))
    known, unit = matrix[:23], matrix / np.maximum(np.linalg.norm(matrix, axis=1, keepdims=True), 1e-9)
    cosines = unit[24:] @ unit[:23].T  # the last of the others has no interactions
    cosines[cosines < -np.sort(-cosines, axis=1)[:, NEAR - 1 : NEAR] - 1e-6] = 0
    shares = cosines / np.maximum(cosines.sum(1, keepdims=True), 1e-9)

    def expected(scores, liked):
        mean = scores.mean(-1, keepdims=True)
        centred = (liked - mean)[..., :23].reshape(-1, 23).T
        solved = np.linalg.solve(known.T @ known + PENALTY * np.eye(5), known.T @ centred)
        return ((matrix[24:] @ solved + shares @ centred) / 2).T.reshape(2, 3, 6) + mean

    wide = extension(torch.from_numpy(scores).float())
    assert wide[..., :24].numpy() == pytest.approx(scores, abs=1e-6)
    assert wide[..., 24:].numpy() == pytest.approx(expected(scores, scores), abs=1e-5)
    liked = scores.copy()
    liked[:, 1, [2, 7]] = scores.max(-1)[:, 1, None]  # what a user has
    wide = extension(torch.from_numpy(scores).float(), (torch.tensor([1, 1]), torch.tensor([2, 7])))
    assert wide[..., :24].numpy() == pytest.approx(scores, abs=1e-6)
    assert wide[..., 24:].numpy() == pytest.approx(expected(scores, liked), abs=1e-5)


def test_those_as_near_as_the_last_count_too_and_few_are_all_near(monkeypatch):
    known = np.repeat(np.eye(2), 15, axis=0)
    monkeypatch.setattr(new_items, "CELLS_AT_ONCE", 30)
    shares = nearest(sp.csr_array([[1.0, 0], [0.6, 0.8], [0, 0]]), sp.csr_array(known)).toarray()
    assert shares[0] == pytest.approx([1 / 15] * 15 + [0] * 15)
    assert shares[1] == pytest.approx([0] * 15 + [1 / 15] * 15)
    assert not shares[2].any()
    assert nearest(sp.csr_array([[0.6, 0.8]]), sp.csr_array(np.eye(2))).toarray() == pytest.approx(
        np.array([[3, 4]]) / 7
    )


def test_similar_items(new):
    assert of_kind(new.similar(["i201"], 5), 1) == new.similar(["i201"], 5)["item"].to_pylist()
    assert new.similar(["i003"], 1, allow=FRESH["id"])["item"].to_pylist() == ["i203"]


def test_histories_and_newcomers(new):
    lists = new.recommend(["someone"], 1, history={"someone": ["i002", "i006", "i202"]}, allow=FRESH["id"])
    assert lists.num_rows == 1
    assert lists["item"].to_pylist() != ["i202"]  # they have it already
    first = new.recommend(["someone"], 1, history={"someone": ["i002", "i006"]}, allow=FRESH["id"])
    assert first["item"].to_pylist() == ["i202"]
    popular = new.recommend(["nobody"], 104)
    assert set(FRESH["id"]) <= set(popular["item"].to_pylist())
    assert set(popular["source"].to_pylist()) == {"popularity"}


def test_explained_by_attributes(new):
    table = new.explain(["u001", "u001"], ["i201", "i001"], most=2).to_pylist()
    ours, theirs = ([row for row in table if row["item"] == item] for item in ("i201", "i001"))
    assert len(ours) == 2
    assert all(row["by"] == "attributes" and row["shared"] == "genre=comedy" for row in ours)
    assert all(row["value"] == pytest.approx(1) and int(row["because"][1:]) % 4 == 1 for row in ours)
    assert all(row["by"] == "contribution" and row["shared"] is None for row in theirs)


@pytest.mark.parametrize("model", ["popularity", "consensus", "mf"])
def test_with_any_model(model):
    learned = {"method": "normal", "epochs": 1} if model == "mf" else {}
    members = {"model.members": [{"model": "ease"}, {"model": "item-knn"}]} if model == "consensus" else {}
    run = accord.fit(accord.load(log_of_kinds(40, 40, 8), items=pa.table(KNOWN)), model, options=members, **learned)
    new = run.with_items(pa.table(FRESH))
    assert new.recommend(["u001"], 4, allow=FRESH["id"]).num_rows == 4
    assert new.similar(["i201"], 3).num_rows == 3
    assert new.explain(["u001"], ["i201"])["shared"].to_pylist()[0] == "genre=comedy"
    if model == "consensus":
        assert new.agreement(pa.table({"user": ["u001"], "item": ["i201"]}))["agree"].to_pylist() == [None]


def test_wrong_files_are_one_sentence(run):
    with pytest.raises(InputError, match=r"all its items were in the training data; give a file with new ones\.$"):
        run.with_items(pa.table(KNOWN))
    with pytest.raises(InputError, match="must have one column of item ids"):
        run.with_items(pa.table({"genre": ["war"]}))
    with pytest.raises(InputError, match="has columns of another type than the run's; describe all items in it"):
        run.with_items(pa.table({"id": ["x1"], "genre": [[1]]}))
    without = accord.fit(accord.load(log_of_kinds()), "popularity")
    with pytest.raises(InputError, match="describes no item of the training data; give a file of all items"):
        without.with_items(pa.table(FRESH))
    assert without.with_items(pa.table({k: KNOWN[k] + FRESH[k] for k in KNOWN})).recommend(["u001"], 3).num_rows == 3
    with pytest.warns(UserWarning, match="1 of 1 new items share no attribute with others"):
        run.with_items(pa.table({"id": ["x1"], "genre": ["western"]}))
    with pytest.warns(UserWarning, match="column 'shop' does not distinguish items and is not used"):
        run.with_items(pa.table({**{k: KNOWN[k] + FRESH[k] for k in KNOWN}, "shop": ["one"] * 104}))
