"""Accord's MF, or another learned model, epoch by epoch."""

import os

import numpy as np
import torch
from curves import serve
from pairs import dataset
from turns import TOP, work

from accord.evaluation.ranking import Ranker
from accord.protocol import CORRECTED
from accord.training.plan import plan
from accord.training.stack import train_stack

CPU = torch.device("cpu")


def train(pairs, case, turns):
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    data = dataset(pairs)
    rows = data.csr(data.train)

    def fit(_x, options, epoch_done):
        given = {"train.early_stop": False, "model.dim": case["dim"]} | options
        kind = case.get("model", "mf"), case.get("method", "normal")
        run = plan(data, *kind, "corrected", 1, given, case["epochs"], None)
        train_stack(data, run, CPU, each_epoch=lambda method, _epoch: epoch_done(method))

    def rank(method, _x, users):
        ranker = Ranker.of(method.target, method.score_all, 1, rows, rows, CORRECTED, CPU)
        return np.concatenate([items[0].numpy() for _, items, _ in ranker.rank(users, TOP)])

    serve(pairs, case, turns, fit, rank)


work(train)
