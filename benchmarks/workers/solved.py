"""Accord's solved models: fitted as `accord.fit` fits them, ranked as it ranks."""

import os

import numpy as np
import torch
from pairs import dataset
from quality import serve
from turns import TOP, work

from accord.evaluation.ranking import Ranker
from accord.training.plan import plan
from accord.training.stack import train_stack

CPU = torch.device("cpu")


def train(pairs, case, turns):
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    data = dataset(pairs)
    rows = data.csr(data.train)

    def fit(_, options):
        run = plan(data, case["model"], "normal", "corrected", 1, case.get("options", {}) | options, None, None)
        return run, train_stack(data, run, CPU)[0]

    def rank(made, _, users):
        run, method = made
        ranker = Ranker.of(method.target, method.score_all, 1, rows, rows, run.config.protocol, CPU)
        found = [(items[0], values[0] > -torch.inf) for _, items, values in ranker.rank(users, TOP)]
        return np.concatenate([torch.where(there, items, -1).numpy() for items, there in found])

    serve(pairs, case, turns, fit, rank)


work(train)
