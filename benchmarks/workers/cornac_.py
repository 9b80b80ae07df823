"""Cornac, with its torch backend; its LightGCN works on DGL."""

import os

import numpy as np
import torch
from cornac.data import Dataset
from cornac.models import GMF, LightGCN, NeuMF
from turns import TOP, work

FOREVER = 10**6


def make(kind, turns, rank, **options):
    class Timed(kind):
        def early_stop(self, *arguments, **options):  # called at the end of each epoch
            turns.done()
            turns.wait({"one user at a time": lambda: rank(self)})
            return False

    return Timed(num_epochs=FOREVER, early_stopping={}, verbose=False, seed=0, **options)


def train(pairs, case, turns):
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    users, items = pairs["users"], pairs["items"]
    data = Dataset.from_uir(zip(users.tolist(), items.tolist(), np.ones(len(users)), strict=True), seed=0)

    def rank(model):
        unseen = np.ones(data.num_items, dtype=bool)
        for user in range(data.num_users):
            seen = data.matrix.indices[data.matrix.indptr[user] : data.matrix.indptr[user + 1]]
            unseen[seen] = False
            model.rank(user, np.flatnonzero(unseen), k=TOP)
            unseen[seen] = True

    dim, batch = case["dim"], case["batch"]
    if case["model"] == "lightgcn":
        model = make(LightGCN, turns, rank, emb_size=dim, num_layers=3, batch_size=batch, learning_rate=0.003)
    else:
        options = {"num_factors": dim, "batch_size": batch, "num_neg": 1, "lr": 0.003, "backend": "pytorch"}
        if case["model"] == "neumf":
            options["layers"] = (8 * dim, 4 * dim, 2 * dim, dim)
        model = make(NeuMF if case["model"] == "neumf" else GMF, turns, rank, **options)
    turns.wait({})
    model.fit(data)


work(train)
