"""Accord."""

import os

import numpy as np
import torch
from pairs import dataset
from turns import TOP, work

from accord.evaluation.ranking import Ranker
from accord.protocol import CORRECTED
from accord.training.plan import plan
from accord.training.stack import train_stack


def train(pairs, case, turns):
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    data = dataset(pairs)
    rows = data.csr(data.train)
    options = {"train.batch_size": case["batch"], "train.early_stop": False, "model.dim": case["dim"]}
    runs = case.get("runs", 1)
    run = plan(data, case["model"], case.get("method", "normal"), "corrected", runs, options, 10**6, None)
    rankers = []

    def wait(method):
        if not rankers:
            device = torch.device("cpu")
            rankers.append(Ranker.of(method.target, method.score_all, runs, rows, rows, CORRECTED, device))

        def rank():
            for _ in rankers[0].rank(np.arange(rows.num_users), TOP):
                pass

        turns.wait({"blocks by memory": rank})

    def epoch_done(method, epoch):
        turns.done()
        wait(method)

    turns.wait({})
    train_stack(data, run, torch.device("cpu"), each_epoch=epoch_done)


work(train)
