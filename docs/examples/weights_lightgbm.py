"""LightGBM's ranker, told how real what it learns from is: python weights_lightgbm.py WEIGHTS [USER].

WEIGHTS is what `accord weights LOG -o weights.parquet` writes: user, item, weight and more. One interaction of five is
set aside; of the items nearest to the others, the ranker learns which those were. With weights, an interaction is as
relevant as it is real. Weights are no features: they come from the whole log, and so from what is set aside.
"""

import sys

import lightgbm
import numpy as np
import pandas as pd
import scipy.sparse as sp

GRADES = 10  # of relevance, besides none
MOST_LEARNED = 4_000  # users that it learns from


def candidates(log: sp.csr_matrix, users: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Items [B, size] that are new to users [B], those nearest to their histories, with features [B, size, f]."""
    history, together = log[users], (log.T @ log).toarray()
    counts = np.maximum(together.diagonal(), 1)
    norm = np.outer(counts**0.75, counts**0.25) + 100
    np.fill_diagonal(together, 0)
    near = history @ (together / norm)
    near[history.nonzero()] = -np.inf
    items = np.argsort(-near, axis=1, kind="stable")[:, :size]
    near = np.take_along_axis(near, items, 1)
    active = np.broadcast_to(np.diff(log.indptr)[users][:, None], items.shape)
    each = np.maximum(active, 1)
    return items, np.stack([near, near / each, counts[items], active], -1)


def recommend(
    log: pd.DataFrame, weighted: bool, k: int = 20, leaves: int = 15, trees: int = 100, size: int = 100,
    users: np.ndarray | None = None, split: int = 0,
) -> pd.DataFrame:  # fmt: skip
    """The k best new items of each user, or of some, best first: a row each, of user and item."""
    rng = np.random.default_rng(split)
    user, user_ids = pd.factorize(log["user"].to_numpy())
    item, item_ids = pd.factorize(log["item"].to_numpy())
    aside, ones = rng.random(len(log)) < 0.2, np.ones(len(log))
    weight = log["weight"].to_numpy() / log["weight"].max() if weighted else ones

    def matrix(values: np.ndarray, some: np.ndarray) -> sp.csr_matrix:
        return sp.csr_matrix((values[some], (user[some], item[some])), shape=(len(user_ids), len(item_ids)))

    grade = matrix(1 + np.rint((GRADES - 1) * weight), aside)
    asked = rng.permutation(np.unique(user[aside]))[:MOST_LEARNED]
    shown, said = candidates(matrix(ones, ~aside), asked, size)
    relevance = np.take_along_axis(grade[asked].toarray(), shown, 1).astype(int)
    ranker = lightgbm.LGBMRanker(
        num_leaves=leaves, n_estimators=trees, learning_rate=0.05, random_state=0, n_jobs=1, verbose=-1,
        label_gain=list(range(GRADES + 1)),
    )  # fmt: skip
    ranker.fit(said.reshape(-1, said.shape[-1]), relevance.ravel(), group=np.full(len(asked), shown.shape[1]))

    made, all_pairs = [], aside | True
    x = matrix(ones, all_pairs)
    wanted = np.arange(len(user_ids)) if users is None else np.flatnonzero(np.isin(user_ids, users))
    for some in np.array_split(wanted, -(-len(wanted) // 4_000)):
        shown, said = candidates(x, some, size)
        scores = ranker.predict(said.reshape(-1, said.shape[-1])).reshape(shown.shape)
        scores[np.isinf(said[..., 0])] = -np.inf  # of who has nearly everything
        best = np.argsort(-scores, axis=1, kind="stable")[:, :k]
        new = np.isfinite(np.take_along_axis(scores, best, 1))
        owner = np.broadcast_to(user_ids[some][:, None], best.shape)
        made.append(pd.DataFrame({"user": owner[new], "item": item_ids[np.take_along_axis(shown, best, 1)[new]]}))
    return pd.concat(made, ignore_index=True)


if __name__ == "__main__":
    log = pd.read_parquet(sys.argv[1])
    one = type(log["user"].iloc[0])(sys.argv[2]) if len(sys.argv) > 2 else log["user"].iloc[0]
    for weighted in (False, True):
        made = recommend(log, weighted, k=5)
        print("with weights:" if weighted else "without:", *made.loc[made["user"] == one, "item"])
