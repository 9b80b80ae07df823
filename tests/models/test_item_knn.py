"""Item-kNN against a dense computation, and its sparse weights in a run folder."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

import accord
from accord.errors import InputError
from accord.kernels import neighbours
from accord.models import histories
from helpers import make_model, random_csr, small_data
from oracles import PLAIN, dense, each_case, history_of, scores_of, weighted


def expected_weights(x, k, balance, shrink):
    """W [I, I] by hand, one column after another; of equal neighbours the earlier ones."""
    together = x.T @ x
    size, num_items = np.diag(together), len(together)
    found = np.zeros((num_items, num_items))
    for j in range(num_items):
        norm = size**balance * size[j] ** (1 - balance) + shrink
        column = np.divide(together[:, j], norm, out=np.zeros(num_items), where=together[:, j] > 0)
        column[j] = 0
        nearest = np.argsort(-column, kind="stable")[:k]
        found[nearest, j] = column[nearest]
    return found


@each_case
@pytest.mark.parametrize(("k", "balance", "shrink"), [(3, 0.5, 10.0), (5, 0.2, 0.0), (100, 1.0, 2.0), (1, 0.0, 1.0)])
def test_against_a_dense_computation(train, k, balance, shrink):
    model = make_model("item-knn", train, k=k, balance=balance, shrink=shrink)
    x, expected = dense(train), expected_weights(dense(train), k, balance, shrink)
    np.testing.assert_allclose(model.weights.toarray(), expected, rtol=1e-6)
    np.testing.assert_allclose(model.item_to_item().numpy(), expected, rtol=1e-6)
    np.testing.assert_allclose(scores_of(model), x @ expected, rtol=1e-5)
    np.testing.assert_allclose(scores_of(model, [4, 0, 4]), (x @ expected)[[4, 0, 4]], rtol=1e-5)
    np.testing.assert_allclose(model.fold_in(torch.tensor([1, 5])).numpy(), expected[[1, 5]].sum(0)[None], rtol=1e-5)
    assert model.values.dtype == torch.float32


def test_somebody_new_gets_the_list_of_a_user_with_the_same_history():
    model = make_model("item-knn", PLAIN, k=4)
    np.testing.assert_allclose(model.fold_in(history_of(PLAIN, 7))[0].numpy(), scores_of(model, [7])[0], rtol=1e-6)


def test_items_in_parts_are_the_items_at_once(monkeypatch):
    train = weighted(random_csr(50, 40, 0.2))
    whole = make_model("item-knn", train, k=6).state_dict()
    monkeypatch.setattr(neighbours, "PARTS", 7)
    parts = make_model("item-knn", train, k=6).state_dict()
    assert all(torch.equal(whole[name], parts[name]) for name in whole)


def test_many_items_are_not_laid_out(monkeypatch):
    monkeypatch.setattr(histories, "MOST_DENSE", 5)
    assert make_model("item-knn", PLAIN).item_to_item() is None


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    made = accord.fit(small_data(), "item-knn", options={"model.k": 3}, device="cpu")
    return made, made.save(tmp_path_factory.mktemp("knn") / "run")


def test_a_run_folder_says_how_many_weights_there_are(saved):
    made, folder = saved
    again = accord.Recommender.load(folder)
    assert again.recommend(k=5).equals(made.recommend(k=5))
    assert len(again.method.target.values) == len(made.method.target.values) > 0


def cut(tensors):
    tensors["target.values"] = tensors["target.values"][:-1].clone()


def outside(tensors):
    tensors["target.columns"][3] = 1000


def backwards(tensors):
    tensors["target.ends"][1] = tensors["target.ends"][2] + 1


def short(tensors):
    tensors["target.ends"] = tensors["target.ends"][:-1].clone()


def gone(tensors):
    del tensors["target.columns"]


def wide(tensors):
    tensors["target.values"] = tensors["target.values"].double()


def infinite(tensors):
    tensors["target.values"][0] = torch.inf


@pytest.mark.parametrize("harm", [cut, outside, backwards, short, gone, wide, infinite])
def test_damaged_weights_are_told(saved, harm, tmp_path):
    folder = shutil.copytree(saved[1], tmp_path / "run")
    tensors = load_file(folder / "refit.safetensors")
    harm(tensors)
    save_file(tensors, folder / "refit.safetensors")
    with pytest.raises(InputError, match="train again"):
        accord.Recommender.load(folder)
