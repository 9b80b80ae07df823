"""Logs for solved models as a worker gets them, and how good its lists are."""

import numpy as np
import scipy.sparse as sp
from turns import TOP


def matrix(pairs, part):
    """The pairs of a part ("", "valid_", "test_") as a sparse matrix [U, I] of ones."""
    users, items = pairs[f"{part}users"], pairs[f"{part}items"]
    shape = int(pairs["num_users"]), int(pairs["num_items"])
    return sp.csr_matrix((np.ones(len(users), dtype=np.float32), (users, items)), shape=shape)


def judges(held, most):
    """Who has something held out; of very many, always the same sample."""
    users = np.flatnonzero(np.diff(held.indptr))
    return users if len(users) <= most else np.sort(np.random.default_rng(0).permutation(users)[:most])


def ndcg(lists, users, held):
    """The mean NDCG of lists [n, TOP] of items, -1 being none, for users [n] of what is held out [U, I]."""
    keys = np.repeat(np.arange(held.shape[0]), np.diff(held.indptr)) * held.shape[1] + held.indices
    hits = np.isin(users[:, None] * held.shape[1] + lists, keys) & (lists >= 0)
    gains = 1 / np.log2(np.arange(TOP) + 2)
    ideal = gains.cumsum()[np.minimum(np.diff(held.indptr)[users], TOP) - 1]
    return float(((hits * gains).sum(1) / ideal).mean())


def serve(pairs, case, turns, fit, rank):
    """Fit on every "epoch", rank and judge on every "rank". `fit(x, options)` gives a model, `rank(model, x, users)`
    its lists. Where the case has a `grid`, the options that are best for the validation are taken."""
    train, held, valid = matrix(pairs, ""), matrix(pairs, "test_"), matrix(pairs, "valid_")
    pairs.clear()
    users, judged_by = (judges(part, case.get("most", 10**9)) for part in (held, valid))
    turns.wait({})
    grid, made = case.get("grid", [{}]), []

    def found(options):
        return ndcg(rank(fit(train, options), train, judged_by), judged_by, valid)

    options = max(grid, key=found) if len(grid) > 1 else grid[0]

    def judge():
        return {"users": len(users), "ndcg": ndcg(rank(made[0], train, users), users, held)}

    while True:
        made[:] = [fit(train, options)]
        turns.done(options=options)
        turns.wait({"judged": judge})
