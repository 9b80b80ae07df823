"""RecTools' EASE, told what each interaction counts for: python weights_rectools.py WEIGHTS [USER].

WEIGHTS is what `accord weights LOG -o weights.parquet` writes: user, item, weight and more.
"""

import sys

import pandas as pd
from rectools import Columns
from rectools.dataset import Dataset
from rectools.models import EASEModel


def recommend(
    log: pd.DataFrame, weighted: bool, k: int = 20, regularization: float = 500.0, power: float = 0.5
) -> pd.DataFrame:
    """The k best new items of every user, best first: a row each, of user and item."""
    made = log[["user", "item"]].set_axis([Columns.User, Columns.Item], axis=1)
    made[Columns.Weight] = log["weight"] ** power if weighted else 1.0  # least squares count the square of a number
    made[Columns.Datetime] = pd.Timestamp(0)  # RecTools asks for one; EASE reads none
    dataset = Dataset.construct(made)
    model = EASEModel(regularization=regularization, num_threads=1)
    model.fit(dataset)
    users = made[Columns.User].unique()
    found = model.recommend(users=users, dataset=dataset, k=k, filter_viewed=True)
    return found.rename(columns={Columns.User: "user", Columns.Item: "item"})[["user", "item"]]


if __name__ == "__main__":
    log = pd.read_parquet(sys.argv[1])
    one = type(log["user"].iloc[0])(sys.argv[2]) if len(sys.argv) > 2 else log["user"].iloc[0]
    for weighted in (False, True):
        made = recommend(log, weighted, k=5)
        print("with weights:" if weighted else "without:", *made.loc[made["user"] == one, "item"])
