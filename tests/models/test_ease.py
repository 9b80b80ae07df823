"""EASE's options against dense regressions."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from accord.errors import InputError
from accord.kernels import inverse
from accord.models import ease
from accord.models.ease import EASE
from accord.training.stack import train_stack
from helpers import CPU, make_model, plan_small, random_csr, small_data
from oracles import EMPTY, PLAIN, dense, each_case, scores_of

needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")


def ridge(x, penalties):
    """Each item regressed on the others, each of these with its own penalty: [I, I]."""
    found = np.zeros((x.shape[1], x.shape[1]))
    for item in range(x.shape[1]):
        others = np.delete(np.arange(x.shape[1]), item)
        gram = x[:, others].T @ x[:, others] + np.diag(penalties[others])
        found[others, item] = np.linalg.solve(gram, x[:, others].T @ x[:, item])
    return found


@each_case
@pytest.mark.parametrize("dropout", [0.0, 0.3, 0.8])
def test_dropout_is_a_penalty_in_proportion_to_popularity(train, dropout):
    x = dense(train)
    expected = ridge(x, 5 + dropout / (1 - dropout) * (x**2).sum(0))
    model = make_model("ease", train, l2=5, dropout=dropout)
    np.testing.assert_allclose(model.weight.numpy(), expected, atol=1e-6)
    np.testing.assert_allclose(scores_of(model), x @ expected, atol=1e-5)


def test_dropout_is_what_dropping_at_random_comes_to():
    """The regression on many copies of the log of which a share is dropped, the rest scaled up, targets whole."""
    rng, x, p = np.random.default_rng(0), dense(PLAIN), 0.4
    copies = 4000
    kept = (rng.random((copies, *x.shape)) >= p) * x / (1 - p)
    gram = np.einsum("cui,cuj->ij", kept, kept) / copies
    expected = x.T @ x
    np.testing.assert_allclose(np.diag(gram), np.diag(expected) * (1 + p / (1 - p)), rtol=0.02)
    np.testing.assert_allclose(gram - np.diag(np.diag(gram)), expected - np.diag(np.diag(expected)), atol=0.25)


@each_case
@pytest.mark.parametrize("power", [0.25, 1.0])
def test_users_are_scaled_in_fitting_and_plain_in_scoring(train, power):
    x = dense(train)
    sizes = x.sum(1, keepdims=True)
    scaled = np.divide(x, sizes**power, out=np.zeros_like(x), where=sizes > 0)
    expected = ridge(scaled, np.full(train.num_items, 0.7))
    model = make_model("ease", train, l2=0.7, user_norm=power)
    np.testing.assert_allclose(model.weight.numpy(), expected, atol=1e-6)
    np.testing.assert_allclose(scores_of(model), x @ expected, atol=1e-5)


def test_options_that_are_zero_change_no_bit_and_are_not_written():
    plain, zero = make_model("ease", EMPTY, l2=3), make_model("ease", EMPTY, l2=3, dropout=0, user_norm=0)
    assert torch.equal(plain.weight, zero.weight)
    assert EASE.Config(l2=3).model_dump() == {"l2": 3}
    assert EASE.Config(dropout=0.5).model_dump(mode="json") == {"l2": 500, "dropout": 0.5}


@pytest.mark.parametrize("l2", [0.5, 20.0])
def test_ease_is_a_ridge_regression_of_each_item_on_the_others(l2):
    x = dense(PLAIN)
    expected = np.zeros((PLAIN.num_items, PLAIN.num_items))
    for item in range(PLAIN.num_items):
        others = np.delete(np.arange(PLAIN.num_items), item)  # its own weight is held at zero
        gram = x[:, others].T @ x[:, others] + l2 * np.eye(PLAIN.num_items - 1)
        expected[others, item] = np.linalg.solve(gram, x[:, others].T @ x[:, item])
    model = make_model("ease", PLAIN, l2=l2)
    np.testing.assert_allclose(model.weight.numpy(), expected, atol=1e-6)
    users = torch.tensor([3, 0, 29])
    np.testing.assert_allclose(model.score_all(users)[0].numpy(), (x @ expected)[users], atol=1e-5)
    history = torch.tensor([1, 5, 6])
    np.testing.assert_allclose(model.fold_in(history)[0].numpy(), expected[[1, 5, 6]].sum(0), atol=1e-5)


def test_ease_refuses_more_items_than_it_can_invert(monkeypatch):
    monkeypatch.setattr(EASE, "most_items", PLAIN.num_items - 1)
    with pytest.raises(InputError, match="too many"):
        make_model("ease", PLAIN)


@pytest.mark.parametrize("name", ["ease", "graph-filter"])
def test_a_matrix_that_no_memory_holds_is_told_before_it_is_made(monkeypatch, name):
    monkeypatch.setattr("accord.models.histories.memory_of", lambda device: 4 * PLAIN.num_items**2 - 1)
    with pytest.raises(InputError, match="GiB of memory; choose another model"):
        make_model(name, PLAIN)


@each_case
def test_large_catalogues_are_solved_by_blocks(monkeypatch, train):
    options = {"l2": 2.0, "dropout": 0.3, "user_norm": 0.5}
    exact = make_model("ease", train, **options)
    for module in (ease, inverse):
        monkeypatch.setattr(module, "BLOCK", 4)
    monkeypatch.setattr(ease, "SMALL", 5)
    model = make_model("ease", train, **options)
    np.testing.assert_allclose(model.weight.numpy(), exact.weight.numpy(), atol=1e-6)


def test_a_large_catalogue_is_exact_where_its_penalty_is_small(monkeypatch):
    """Beside the counts it would be lost in the rounding of float32."""
    x, small = sp.csr_matrix(dense(random_csr(60, 30, 0.4))), 1e-4
    exact = ease.item_weights(x, small)
    monkeypatch.setattr(ease, "SMALL", 5)
    assert ease.item_weights(x, 1.0).dtype == np.float32
    found = ease.item_weights(x, small)
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, exact, atol=1e-8)


@pytest.mark.parametrize(("l2", "kind", "within"), [(5.0, np.float32, 1e-6), (1e-4, np.float64, 1e-8)])
def test_a_large_catalogue_has_a_clean_target_too(monkeypatch, l2, kind, within):
    rng = np.random.default_rng(0)
    x = sp.csr_matrix(dense(random_csr(60, 30, 0.4)))
    target = sp.csr_matrix((rng.random(x.nnz), x.indices, x.indptr), shape=x.shape)
    exact = ease.item_weights(x, l2, 0.3, target)
    for module in (ease, inverse):
        monkeypatch.setattr(module, "BLOCK", 8)
    monkeypatch.setattr(ease, "SMALL", 5)
    made = []
    for threads in (1, 2, 3):
        torch.set_num_threads(threads)
        made.append(ease.item_weights(x, l2, 0.3, target))
        assert torch.get_num_threads() == threads
    torch.set_num_threads(1)
    assert made[0].dtype == kind
    np.testing.assert_allclose(made[0], exact, atol=within)
    assert len({one.tobytes() for one in made}) == 1


def test_the_inverse_of_a_large_catalogue(monkeypatch):
    x = sp.csr_matrix(dense(random_csr(60, 30, 0.4)))
    exact = ease.inverse_gram(x, 5.0, 0.3)
    monkeypatch.setattr(ease, "SMALL", 5)
    for module in (ease, inverse):
        monkeypatch.setattr(module, "BLOCK", 8)
    found = ease.inverse_gram(x, 5.0, 0.3)
    np.testing.assert_allclose(found, exact, atol=1e-12)
    assert not np.array_equal(found, exact)  # it went the other way


def test_a_large_catalogue_says_how_far_it_is(monkeypatch):
    monkeypatch.setattr(ease, "SMALL", 5)
    monkeypatch.setattr(inverse, "BLOCK", 4)
    told = []
    train_stack(small_data(), plan_small("ease", "normal", (1,)), CPU, watch=told.append)
    assert [progress.epoch for progress in told] == [0, *(10 * number for number in range(1, 11)), 100]
    assert {progress.stage for progress in told} == {"ease"}


def test_too_small_a_penalty_is_told_by_blocks_too(monkeypatch):
    monkeypatch.setattr(ease, "SMALL", 5)
    with pytest.raises(InputError, match=r"raise model\.l2"):
        make_model("ease", random_csr(5, 60, 0.5), l2=1e-17)


@each_case
@pytest.mark.parametrize("power", [0.0, 0.5])
def test_a_clean_target_is_regressed_on_noisy_histories(train, power):
    p_real = np.random.default_rng(3).random(len(train.items))
    marked = replace(train, columns={**train.columns, "p_real": p_real})
    x = dense(train)
    y = x.copy()
    y[train.users, train.items] *= p_real
    sizes = x.sum(1, keepdims=True)
    scale = np.divide(1, sizes**power, out=np.zeros_like(sizes), where=sizes > 0)
    a, b = x * scale, y * scale
    expected = np.zeros((train.num_items, train.num_items))
    for item in range(train.num_items):
        others = np.delete(np.arange(train.num_items), item)
        gram = a[:, others].T @ a[:, others] + 2 * np.eye(len(others))
        expected[others, item] = np.linalg.solve(gram, a[:, others].T @ b[:, item])
    model = make_model("ease", marked, l2=2, clean=True, user_norm=power)
    np.testing.assert_allclose(model.weight.numpy(), expected, atol=1e-6)
    np.testing.assert_allclose(scores_of(model), x @ expected, atol=1e-5)
    # without the option the column means nothing, and without the column the option does not
    assert torch.equal(make_model("ease", marked, l2=2).weight, make_model("ease", train, l2=2).weight)
    np.testing.assert_allclose(
        make_model("ease", train, l2=2, clean=True).weight, make_model("ease", train, l2=2).weight, atol=1e-6
    )


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=needs_cuda)])
@pytest.mark.parametrize("clean", [False, True])
def test_what_a_gpu_solves_is_what_the_cpu_solves(device, clean):
    rng = np.random.default_rng(0)
    x = sp.csr_matrix((rng.random((200, 60)) < 0.1).astype(float))
    target = sp.csr_matrix((rng.random(x.nnz), x.indices, x.indptr), shape=x.shape) if clean else None
    expected = ease.item_weights(x, 5.0, 0.3, target)
    found = ease.weights_on(torch.device(device), x, 5.0, 0.3, target)
    assert found.dtype == torch.float32
    np.testing.assert_allclose(found.cpu().numpy(), expected, atol=1e-7)


def test_a_gpu_that_cannot_solve_it_says_what_the_cpu_says():
    with pytest.raises(InputError, match=r"raise model\.l2"):
        ease.weights_on(torch.device("cpu"), sp.csr_matrix(np.ones((3, 3))), 0.0)


def test_a_matrix_that_is_too_large_for_a_gpu_is_of_single_precision_or_solved_by_the_cpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: SimpleNamespace(total_memory=8 * 2**30))
    cuda, most = torch.device("cuda"), 8 * 2**30

    def kind(numbers, l2=500.0):
        return ease.kind_on(cuda, sp.csr_matrix(([100.0], ([0], [0])), shape=(1, numbers)), l2)

    assert kind(int((most / 48) ** 0.5)) is torch.float64
    assert kind(int((most / 48) ** 0.5) + 1) is kind(int((most / 24) ** 0.5)) is torch.float32
    assert kind(int((most / 48) ** 0.5) + 1, l2=1e-3) is None  # it would be lost in rounding
    assert kind(int((most / 24) ** 0.5) + 1) is None
    assert ease.kind_on(torch.device("cpu"), sp.csr_matrix((1, 10)), 500.0) is None
