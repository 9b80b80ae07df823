"""Methods with weights far from their start, batches, and the parts of formulas that their tests share."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from accord.data.sampling import Batch
from accord.models.cdae import CDAERules
from accord.protocol import CORRECTED, PUBLISHED
from helpers import make_method, random_csr, spread

USERS, ITEMS, POSITIVES = 12, 9, 20
TRAIN = random_csr(USERS, ITEMS, 0.3)
UNKNOWN = np.nan
SOME = np.array([0.0, 1.0, UNKNOWN, 0.3, UNKNOWN])  # noise, real, unknown, between


def make(method, options=({}, {}, {}), model="mf", protocol=CORRECTED, train=TRAIN, **more):
    """A method in float64 with weights far from their start."""
    made = make_method(method, options, train, model, protocol, **more).double()
    spread(made)
    return made.train()


def random_batch(runs=3, size=POSITIVES, seed=0) -> Batch:
    rng = np.random.default_rng(seed)
    users = rng.integers(0, USERS, (runs, size))
    items = rng.integers(0, ITEMS, (runs, 2 * size))
    place = torch.from_numpy(np.stack([rng.permutation(len(TRAIN.items))[:size] for _ in range(runs)]))
    both = torch.from_numpy(np.concatenate([users, users], 1))
    return Batch(both, torch.from_numpy(items), size, columns={"place": place})


def log_batch(train=TRAIN, runs=3, seed=0, weighted=False) -> Batch:
    """All training pairs in an order of each run's own, with a negative for each, as a sampler gives them."""
    rng = np.random.default_rng(seed)
    order = np.stack([rng.permutation(len(train.items)) for _ in range(runs)])
    users, items = train.users[order], train.items[order]
    both = [torch.from_numpy(np.concatenate([users, users], 1))]
    both.append(torch.from_numpy(np.concatenate([items, rng.integers(0, train.num_items, items.shape)], 1)))
    columns = {"place": torch.from_numpy(order)}
    if weighted:
        columns["weight"] = torch.from_numpy(train.columns["weight"][order])
    return Batch(*both, len(train.items), columns=columns)


def probability(mf, batch):
    """P of every pair by an MF of this stack: [R, P + N]."""
    runs = np.arange(len(batch.users))[:, None]
    user = mf.user.weight.detach().numpy()[runs, batch.users.numpy()]
    item = mf.item.weight.detach().numpy()[runs, batch.items.numpy()]
    return 1 / (1 + np.exp(-(user * item).sum(-1)))


def split(values, size=POSITIVES):
    return values[:, :size], values[:, size:]


def means(positive, negative):
    return positive.mean(1) + negative.mean(1)


def numbers(options, name):
    return np.array([[given[name]] for given in options])


def found(method, batch, step=0):
    method.begin_step(step)
    return method.loss(batch).detach().numpy()


def summed():
    """The rules of a target whose plain loss is summed."""
    return PUBLISHED.rules_of(CDAERules)


def with_labels(batch: Batch, label: np.ndarray | None = None) -> tuple[Batch, np.ndarray]:
    """A batch whose positives have labels [R, P]."""
    runs, size = len(batch.users), batch.num_positives
    if label is None:
        label = np.stack([np.roll(np.resize(SOME, size), run) for run in range(runs)])
    return batch._replace(columns={**batch.columns, "label": torch.from_numpy(label)}), label


def entropies(method, batch, label):
    """Cross-entropy of positives against r, 1 where it is not known, and of negatives: [R, P] each."""
    positive, negative = split(probability(method.target, batch), batch.num_positives)
    r = np.where(np.isnan(label), 1, label)
    return -r * np.log(positive) - (1 - r) * np.log(1 - positive), -np.log(1 - negative)


def labelled_log() -> tuple:
    label = np.resize(SOME, len(TRAIN.items))
    return replace(TRAIN, columns={"label": label}), label
