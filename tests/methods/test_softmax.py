"""Softmax over all items against its formula, written out in NumPy."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.special import logsumexp

from accord.data.sampling import Batch
from accord.methods.softmax import log_sum_exp
from commands import run as run_command
from helpers import make_method, train_small
from method_cases import ITEMS, TRAIN, make, random_batch

TEMPERATURES = [{"temperature": value} for value in (0.2, 1.0, 3.0)]


def vectors(method, cosine=False):
    both = [table.weight.detach().numpy() for table in (method.target.user, method.target.item)]
    return [v / np.linalg.norm(v, axis=-1, keepdims=True) for v in both] if cosine else both


def expected(method, batch, options, counts=None, cosine=False):
    """Mean over the positives of log Σ_j exp(s_uj / τ) − s_ui / τ."""
    size, losses = batch.num_positives, []
    users, items = batch.users[:, :size].numpy(), batch.items[:, :size].numpy()
    for run, (user, item) in enumerate(zip(*vectors(method, cosine), strict=True)):
        scores = user @ item.T / options[run]["temperature"]
        each = logsumexp(scores[users[run]], axis=1) - scores[users[run], items[run]]
        losses.append(np.average(each, weights=None if counts is None else counts[run]))
    return losses


@pytest.mark.parametrize("scores", ["product", "cosine"])
def test_the_loss(scores):
    method, batch = make("softmax", TEMPERATURES, scores=scores), random_batch()
    wanted = expected(method, batch, TEMPERATURES, cosine=scores == "cosine")
    np.testing.assert_allclose(method.loss(batch).detach().numpy(), wanted, rtol=1e-6)


@pytest.mark.parametrize("ratio", [0.5, 2.0, 1e5])
def test_the_loss_with_two_temperatures(ratio):
    """− (τ₁ / τ) log of the weighted mean of exp(− ℓ τ / τ₁); with a large τ₁ the softmax's mean."""
    options = [{**one, "positive_temperature": ratio * one["temperature"]} for one in TEMPERATURES]
    method, batch = make("bsl", options), random_batch()
    counts = np.random.default_rng(1).random((3, batch.num_positives)) * (np.arange(batch.num_positives) > 2)
    weighted = Batch(batch.users, batch.items, batch.num_positives, columns={"weight": torch.from_numpy(counts)})
    found = method.loss(weighted).detach().numpy()
    plain = make("softmax", TEMPERATURES)
    users, items = (table[:, : batch.num_positives].numpy() for table in (batch.users, batch.items))
    for run, (user, item) in enumerate(zip(*vectors(method), strict=True)):
        scores = user @ item.T / options[run]["temperature"]
        each = logsumexp(scores[users[run]], axis=1) - scores[users[run], items[run]]
        wanted = -ratio * np.log(np.average(np.exp(-each / ratio), weights=counts[run]))
        np.testing.assert_allclose(found[run], wanted, rtol=1e-6)
    if ratio == 1e5:
        np.testing.assert_allclose(found, plain.loss(weighted).detach().numpy(), rtol=1e-4)


def test_weights_labels_and_padding_say_what_an_interaction_counts_for():
    method, batch = make("softmax", TEMPERATURES), random_batch()
    rng, shape = np.random.default_rng(1), (3, batch.num_positives)
    weight, label = rng.random(shape), rng.choice([0.0, 0.5, 1.0, np.nan], shape)
    mask = np.arange(shape[1]) < np.array([[20], [15], [18]])
    columns = {"weight": torch.from_numpy(weight), "label": torch.from_numpy(label)}
    padded = torch.from_numpy(np.concatenate([mask, mask], 1)).double()
    counts = weight * np.where(np.isnan(label), 1, label) * mask
    found = method.loss(Batch(batch.users, batch.items, batch.num_positives, padded, columns=columns))
    np.testing.assert_allclose(found.detach().numpy(), expected(method, batch, TEMPERATURES, counts), rtol=1e-6)


def test_models_without_vectors_score_pair_by_pair():
    """The same loss, whichever way the scores are taken."""
    method, batch = make("softmax", TEMPERATURES), random_batch()
    by_vectors = method.loss(batch)
    method.target.factors = lambda users: None
    torch.testing.assert_close(method.loss(batch), by_vectors)


@pytest.mark.parametrize("by_pairs", [False, True])
def test_items_that_are_drawn_stand_for_the_catalogue(by_pairs):
    options = [given | {"items": 5} for given in TEMPERATURES]
    method, batch = make("softmax", options), random_batch()
    if by_pairs:
        method.target.factors = lambda users: None
    drawn = [method._drawn(batch.users, 99) for _ in range(2000)]
    assert {int(x) for one in drawn for x in one.unique()} == set(range(ITEMS)), "every item can be drawn"
    assert drawn[0].shape == (3, 5)
    assert not torch.equal(drawn[0], drawn[1]), "each step draws anew"
    estimates = torch.stack([method.loss(batch).detach() for _ in range(400)]).mean(0).numpy()
    exact = np.array(expected(method, batch, TEMPERATURES))
    assert (np.abs(estimates - exact) < 0.35 * np.maximum(exact, 1)).all()


def test_the_sum_over_drawn_items_is_that_of_the_catalogue_on_average():
    method, batch = make("softmax", [given | {"items": 5} for given in TEMPERATURES]), random_batch()
    drawn = torch.cat([method._drawn(batch.users) for _ in range(4000)], 1)
    counts = np.bincount(drawn[0], minlength=ITEMS) / drawn.shape[1]
    popularity = (1 + TRAIN.popularity()) ** 0.75
    np.testing.assert_allclose(counts, popularity / popularity.sum(), atol=0.01)
    terms = torch.linspace(-1, 3, ITEMS).double()
    estimate = torch.logsumexp(terms[drawn[0]] - method._expected(drawn)[0], 0)
    torch.testing.assert_close(estimate, torch.logsumexp(terms, 0), atol=0.03, rtol=0)


def test_the_gradient_of_the_sum_over_items():
    users, items = (torch.randn(2, rows, 3, dtype=torch.double, requires_grad=True) for rows in (4, 7))
    assert torch.autograd.gradcheck(log_sum_exp, (users, items))
    torch.testing.assert_close(log_sum_exp(users, items), torch.logsumexp(users @ items.mT, -1))
    assert torch.isfinite(log_sum_exp(1e4 * users, items)).all(), "large scores do not overflow"


def test_a_large_table_is_not_trained_row_by_row():
    assert not make_method("softmax", [{}], TRAIN).target.only_looks_up
    assert make_method("normal", [{}], TRAIN).target.only_looks_up


@pytest.mark.parametrize(
    ("model", "method", "options"),
    [("mf", "softmax", {}), ("mf", "bsl", {}), ("cdae", "softmax", {"model__user_vectors": False})],
)
def test_it_learns_to_rank(model, method, options):
    _, states = train_small(model, method, (3,), epochs=10, model__scores="cosine", train__lr=0.05, **options)
    losses = [entry["loss"][0] for entry in states[0].history]
    assert losses[-1] < losses[0] - 0.1


CLICKS = [f"u{user},i{(user + step) % 12}" for user in range(20) for step in range(4)]
ONE_ITEM = [f"u{user},i1" for user in range(20)]


@pytest.mark.parametrize(
    ("options", "rows", "code", "sentence"),
    [
        (
            "method.temperature=0",
            CLICKS,
            2,
            "option temperature of method softmax is 0: input should be greater than 0",
        ),
        (
            "method.items=0",
            CLICKS,
            2,
            "option items of method softmax is 0: input should be greater than or equal to 1",
        ),
        (
            "train.lr=1e30",
            CLICKS,
            2,
            "training diverged in epoch 2: loss or weights became NaN or infinite; try a small",
        ),
        ("model.dim=4", ONE_ITEM, 2, "log.csv has only one item ('i1') in column 'item'; at least two are needed"),
        ("method.items=500", CLICKS, 0, "method.items is 500, and there are 12 items: the loss sums over all of them."),
    ],
    ids=["temperature 0", "no items", "diverges", "one item", "more items than there are"],
)
def test_what_cannot_be_is_one_sentence(options, rows, code, sentence, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "log.csv").write_text("\n".join(["user,item", *rows]) + "\n")
    words = ("train", "log.csv", "--model", "mf", "--method", "softmax", "--set", options, "--epochs", "3")
    found, _, said = run_command(monkeypatch, capsys, *words)
    assert found == code
    assert sum(sentence in line for line in said.splitlines()) == 1
    assert "Traceback" not in said
