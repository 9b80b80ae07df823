"""implicit's ALS, told what each interaction counts for: python weights_implicit.py WEIGHTS [USER].

WEIGHTS is what `accord weights LOG -o weights.parquet` writes: user, item, weight and more.
"""

import sys

import pandas as pd
import scipy.sparse as sp
from implicit.cpu.als import AlternatingLeastSquares


def recommend(log: pd.DataFrame, weighted: bool, k: int = 20, factors: int = 32, alpha: float = 10.0) -> pd.DataFrame:
    """The k best new items of every user, best first: a row each, of user and item."""
    user, users = pd.factorize(log["user"].to_numpy())
    item, items = pd.factorize(log["item"].to_numpy())
    counts = log["weight"] / log["weight"].mean() if weighted else pd.Series(1.0, log.index)
    x = sp.csr_matrix((counts.astype("float32"), (user, item)), shape=(len(users), len(items)))
    model = AlternatingLeastSquares(factors, regularization=0.05, alpha=alpha, random_state=0, num_threads=1)
    model.fit(x, show_progress=False)
    rows = list(range(len(users)))
    found, _ = model.recommend(rows, x, N=k, filter_already_liked_items=True)
    made = pd.DataFrame({"user": users.repeat(found.shape[1]), "place": found.ravel()})
    made = made[made["place"] >= 0]
    return made.assign(item=items[made.pop("place")])


if __name__ == "__main__":
    log = pd.read_parquet(sys.argv[1])
    one = type(log["user"].iloc[0])(sys.argv[2]) if len(sys.argv) > 2 else log["user"].iloc[0]
    for weighted in (False, True):
        made = recommend(log, weighted, k=5)
        print("with weights:" if weighted else "without:", *made.loc[made["user"] == one, "item"])
