"""CDAE against dense matrices; its dropout."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from accord.models.cdae import CDAERules
from accord.protocol import CORRECTED, PUBLISHED
from helpers import csr, dense, make_model, random_csr, spread

USERS, ITEMS = 30, 14
TRAIN = random_csr(USERS, ITEMS, 0.35)


def cdae(protocol, seeds=(1,), **options):
    model = make_model("cdae", TRAIN, seeds, protocol.model_copy(update={"cdae_scoring_dropout": False}), **options)
    spread(model)
    return model


def dense_cdae(model, run, users, norms_of_batch):
    """Hidden vectors and logits of all items, with matrices: the input is x / sqrt(|x_u| |x_i|)."""
    state = {name: tensor[run].double().numpy() for name, tensor in model.state_dict().items()}
    x = dense(TRAIN)
    user_norms = np.linalg.norm(x, axis=1, keepdims=True)
    item_norms = np.linalg.norm(x[np.unique(users)] if norms_of_batch else x, axis=0, keepdims=True)
    scaled = x / np.sqrt(np.maximum(user_norms, 1e-9) * np.maximum(item_norms, 1e-9))
    hidden = np.tanh(scaled @ state["encoder.weight"] + state["encoder.bias"] + state["user.weight"])
    return hidden, hidden @ state["decoder.weight"].T + state["decoder_bias.weight"][:, 0]


@pytest.mark.parametrize("protocol", [PUBLISHED, CORRECTED], ids=["batch norms", "train norms"])
def test_cdae_equals_a_dense_computation(protocol):
    model = cdae(protocol, seeds=(1, 2), dim=5).eval()
    rng = np.random.default_rng(0)
    users, items = rng.integers(0, 12, (2, 40)), rng.integers(0, ITEMS, (2, 40))
    users[1] += 10  # other users in the other run: batch norms are each run's own
    found = model(torch.from_numpy(users), torch.from_numpy(items)).detach().numpy()
    for run in range(2):
        _, logits = dense_cdae(model, run, users[run], protocol.rules_of(CDAERules).cdae_item_norm == "batch")
        np.testing.assert_allclose(found[run], logits[users[run], items[run]], atol=1e-5)


@pytest.mark.parametrize("protocol", [PUBLISHED, CORRECTED], ids=["batch norms", "train norms"])
def test_cdae_scores_all_items(protocol):
    model = cdae(protocol, seeds=(1, 2), dim=5).eval()
    users = np.array([7, 2, 19])
    found = model.score_all(torch.from_numpy(users)).detach().numpy()
    for run in range(2):
        _, logits = dense_cdae(model, run, users, protocol.rules_of(CDAERules).cdae_item_norm == "batch")
        np.testing.assert_allclose(found[run], logits[users], atol=1e-5)


def test_cdae_folds_in_a_history_as_a_user_without_a_vector():
    model = cdae(CORRECTED, seeds=(1, 2), dim=5).eval()
    user = 4
    with torch.no_grad():
        model.user.weight[:, user] = 0
    history = torch.from_numpy(TRAIN.items[TRAIN.ptr[user] : TRAIN.ptr[user + 1]])
    torch.testing.assert_close(model.fold_in(history), model.score_all(torch.tensor([user]))[:, 0])


def test_cdae_drops_the_share_it_says_and_keeps_the_mean():
    model = cdae(CORRECTED, seeds=(1, 2), dropout=0.3)
    kept = model._kept([50_000, 30_000], torch.device("cpu"))
    assert kept.shape == (80_000,)
    assert kept.unique().tolist() == pytest.approx([0, 1 / 0.7])
    assert float((kept == 0).float().mean()) == pytest.approx(0.3, abs=0.01)
    assert float(kept.mean()) == pytest.approx(1, abs=0.02)


def encoded(model, seeds):
    """Hidden vectors of all users, twice: [2, R, U, dim]."""
    everyone = [torch.arange(USERS)] * len(seeds)
    return torch.stack([model.encode(everyone).view(len(seeds), USERS, -1) for _ in range(2)])


def test_each_run_of_cdae_has_its_own_dropout():
    together = encoded(make_model("cdae", TRAIN, (1, 2), CORRECTED).train(), (1, 2))
    for run, seed in enumerate((1, 2)):
        alone = encoded(make_model("cdae", TRAIN, (seed,), CORRECTED).train(), (seed,))
        torch.testing.assert_close(together[:, run], alone[:, 0])
    assert not torch.equal(together[0], together[1]), "and draws anew each time"


def test_cdae_scores_with_dropout_only_where_the_protocol_says():
    users = torch.arange(USERS)
    for protocol, random in ((PUBLISHED, True), (CORRECTED, False)):
        model = make_model("cdae", TRAIN, (1,), protocol).eval()
        assert torch.equal(model.score_all(users), model.score_all(users)) != random


def test_dropped_history_changes_only_whom_it_belongs_to():
    """A user with no history has nothing to drop."""
    train = csr(3, 4, [(0, 0), (0, 1), (1, 2)])
    model = make_model("cdae", train, (1,), CORRECTED, dropout=0.9).train()
    users = torch.tensor([2])
    assert torch.equal(model.score_all(users), model.score_all(users))


def test_cosines_of_histories_equal_a_dense_computation():
    """Without vectors of users, a history is all that scoring needs; a fold-in is the same user again."""
    model = cdae(CORRECTED, seeds=(1, 2), dim=5, scores="cosine", user_vectors=False).eval()
    assert sorted(model.state_dict()) == ["decoder.weight", "encoder.bias", "encoder.weight"]
    x, users = dense(TRAIN), np.array([7, 2, 19])
    norms = np.linalg.norm(x, axis=1, keepdims=True) * np.linalg.norm(x, axis=0, keepdims=True)
    scaled = x / np.sqrt(np.maximum(norms, 1e-9))
    for run in range(2):
        state = {name: tensor[run].double().numpy() for name, tensor in model.state_dict().items()}
        hidden = scaled[users] @ state["encoder.weight"] + state["encoder.bias"]
        both = [v / np.linalg.norm(v, axis=1, keepdims=True) for v in (hidden, state["decoder.weight"])]
        wanted = both[0] @ both[1].T
        np.testing.assert_allclose(model.score_all(torch.from_numpy(users))[run].detach(), wanted, atol=1e-6)
        of_users, of_items = model.factors(torch.from_numpy(users).expand(2, -1))
        np.testing.assert_allclose((of_users @ of_items.mT)[run].detach(), wanted, atol=1e-6)
        pairs = model(torch.from_numpy(users).expand(2, -1), torch.tensor([[3, 1, 4]] * 2))
        np.testing.assert_allclose(pairs[run].detach(), wanted[[0, 1, 2], [3, 1, 4]], atol=1e-6)
        folded = model.fold_in(torch.from_numpy(x[users[0]].nonzero()[0]))
        np.testing.assert_allclose(folded[run].detach(), wanted[0], atol=1e-6)


def test_its_vectors_have_the_bias_of_the_items():
    model = cdae(CORRECTED, seeds=(1, 2), dim=5).eval()
    users = torch.tensor([[7, 2, 19]] * 2)
    of_users, of_items = model.factors(users)
    torch.testing.assert_close(of_users @ of_items.mT, model.score_all(users[0]))
