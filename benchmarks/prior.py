"""Whether attributes should be a prior of iALS' item vectors, h_i ~ N(B a_i, 1 / penalty), or tell the scores of new
items afterwards: two lines in prior.jsonl for each draw of a tenth of the items, which are held out whole.

    python benchmarks/prior.py Coat user.csv items.csv 0.1 0.3 1            # of shared/data/logs; alphas to choose from
    python benchmarks/prior.py MovieTweetings ratings.csv items.csv 0.03 0.1

Both sides have the same options to choose from: by draws from one half of the items, once by the NDCG@20 of a tenth of
the interactions of other items and once by recall@20 among the new ones. The figures are of draws from the other half.
"""

from __future__ import annotations

import functools
import itertools
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import items
import numba
import numpy as np
import numpy.typing as npt
import scipy.linalg
import scipy.sparse as sp
import torch
import when

import accord
from accord.data.attributes import Attributes
from accord.evaluation.significance import compare_to
from accord.recommender.new_items import PENALTY, Extension

RESULTS = Path(__file__).with_suffix(".jsonl")
CHOSEN, TESTED, DIM, ROUNDS, TOP, USERS = range(100, 102), range(5), 32, 10, 20, 2000
Floats = npt.NDArray[np.float64]
Figures = dict[str, Floats]


@numba.njit(fastmath=True)
def solve(ptr: Any, columns: Any, other: Any, gram: Any, penalty: Any, prior: Any, result: Any) -> None:
    """The best vectors of all rows, where those of the other side are held fixed."""
    for row in range(len(ptr) - 1):
        left, right = gram + penalty[row] * np.eye(other.shape[1]), penalty[row] * prior[row]
        for place in range(ptr[row], ptr[row + 1]):
            vector = other[columns[place]]
            left += np.outer(vector, vector)
            right += vector
        result[row] = np.linalg.solve(left, right)


class Told:
    """What attributes say of item vectors: their ridge regression, of items with interactions."""

    def __init__(self, attributes: Any, there: Floats) -> None:
        self.attributes, self.known, self.there = attributes, sp.diags_array(there) @ attributes, there
        gram = (self.known.T @ self.known).toarray() + PENALTY * np.eye(attributes.shape[1])
        self.factor = scipy.linalg.cho_factor(gram.astype(np.float32))

    def __call__(self, vectors: Floats) -> Floats:
        mean = (self.there @ vectors) / self.there.sum()
        right = (self.known.T @ (vectors - mean)).astype(np.float32)
        result: Floats = self.attributes @ scipy.linalg.cho_solve(self.factor, right) + mean
        return result


def factors(x: Any, alpha: float, p: float, of_items: float, told: Told | None) -> tuple[Floats, Floats]:
    """User and item vectors of iALS as `models/ials.py` has it (nu = 1), with a prior of the item vectors if `told`."""
    by_item, (users, size) = x.T.tocsr(), x.shape
    item = np.random.default_rng(0).normal(size=(size, DIM)) * 0.1 / DIM**0.5
    user, none, prior = np.zeros((users, DIM)), np.zeros((users, DIM)), np.zeros((size, DIM))
    penalties = p * (np.diff(x.indptr) + alpha * size), of_items * (np.diff(by_item.indptr) + alpha * users)
    for number in range(ROUNDS):
        solve(x.indptr, x.indices, item, alpha * item.T @ item, penalties[0], none, user)
        if told is not None and number > 1:
            prior = told(item)
        solve(by_item.indptr, by_item.indices, user, alpha * user.T @ user, penalties[1], prior, item)
    solve(x.indptr, x.indices, item, alpha * item.T @ item, penalties[0], none, user)
    return user, item


def judged(scores: Floats, wanted: Any) -> tuple[Floats, Floats]:
    """Recall and NDCG of each user's list."""
    lists = np.argsort(-scores, axis=1, kind="stable")[:, :TOP]
    hits = np.asarray(wanted[np.arange(len(lists))[:, None], lists].todense())
    most, gains = np.minimum(np.diff(wanted.indptr), TOP), 1 / np.log2(np.arange(TOP) + 2)
    return hits.sum(1) / most, (hits * gains).sum(1) / gains.cumsum()[most - 1]


def draw(x: Any, attributes: Any, drawn_from: Any, seed: int) -> Callable[[tuple[float, float, float], bool], Figures]:
    """`figures(options, with_prior)` of a tenth of the items held out, and a tenth of the interactions of others."""
    rng = np.random.default_rng(seed)
    described = (np.diff(attributes.indptr) > 0) & (x.sum(0) > 0)
    held = np.zeros(x.shape[1], bool)
    held[rng.permutation(np.flatnonzero(described & drawn_from))[: max(2 * TOP, described.sum() // 10)]] = True
    rest, of_held = x.tocoo(), x.tocsc()[:, held].tocsr()
    hidden, others = rng.random(rest.nnz) < 0.1, ~held[rest.col]
    part = [
        sp.csr_matrix((np.ones(mask.sum()), (rest.row[mask], rest.col[mask])), x.shape)
        for mask in (others & ~hidden, others & hidden)
    ]
    train, later = part
    warm = np.diff(train.indptr) > 0
    asked = np.flatnonzero(warm & (np.diff(of_held.indptr) > 0))
    judges = rng.permutation(np.flatnonzero(warm & (np.diff(later.indptr) > 0)))[:USERS]
    counts = np.diff(train.tocsc().indptr)
    told = Told(attributes, (counts > 0).astype(float))
    order = np.append(np.flatnonzero(~held), np.flatnonzero(held))  # new ones last
    extension = Extension(attributes[order], counts[~held], torch.device("cpu"))

    def figures(options: tuple[float, float, float], with_prior: bool) -> Figures:
        user, item = factors(train, *options, told if with_prior else None)
        if with_prior:
            new = user[asked] @ told(item)[held].T
        else:
            rows, columns = train[asked][:, ~held].nonzero()
            scores = torch.from_numpy(user[asked] @ item[~held].T).float()
            new = extension(scores, (torch.from_numpy(rows).long(), torch.from_numpy(columns).long()))
            new = new[:, (~held).sum() :].numpy()
        recall, _ = judged(new, of_held[asked])
        gains = []
        for block in np.array_split(judges, 1 + len(judges) // 500):
            scores = user[block] @ item.T
            scores[train[block].nonzero()] = -np.inf
            gains.append(judged(scores, later[block])[1])
        return {"recall": recall, "ndcg": np.concatenate(gains)}

    return figures


def main(name: str, log: str, described: str, *alphas: str) -> None:
    grid = [(float(a), p, more * p) for a, p, more in itertools.product(alphas, (0.01,), (1, 10))]
    data = accord.load(log, items=described)
    attributes = Attributes.of(data.item_info).matrix
    everything = data.csr(data.everything().train)
    x = sp.csr_matrix(
        (np.ones(len(everything.items)), everything.items, everything.ptr), (len(data.users), len(data.items))
    )
    half = items.half(data)
    choosing = [draw(x, attributes, ~half, seed) for seed in CHOSEN]
    found = {
        (options, prior): {key: np.mean([figures[key].mean() for figures in made]) for key in made[0]}
        for options, prior in itertools.product(grid, (False, True))
        if (made := [figures(options, prior) for figures in choosing])
    }
    best = {
        (key, prior): max(grid, key=lambda options, key=key, prior=prior: found[options, prior][key])
        for key, prior in itertools.product(("recall", "ndcg"), (False, True))
    }
    for seed in TESTED:
        figures = functools.cache(draw(x, attributes, half, seed))
        for key in ("recall", "ndcg"):
            without, with_prior = (figures(best[key, prior], prior)[key] for prior in (False, True))
            line = {"log": name, "draw": seed, "of": key, "without": without.mean(), "prior": with_prior.mean()}
            line |= {"p": compare_to(without[None], {"prior": with_prior[None]})["prior"].p}
            line |= {"options": [best[key, prior] for prior in (False, True)]}
            with RESULTS.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line | when.measured()) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
