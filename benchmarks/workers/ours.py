"""Accord."""

import os

import numpy as np
import torch
from turns import TOP, work

from accord.data.interactions import Dataset, IdMap, Interactions
from accord.experiment import plan, train_stack
from accord.protocol import CORRECTED
from accord.ranking import Ranker

MODELS = {"gmf": "gmf", "mf": "mf", "neumf": "neumf", "lightgcn": "lightgcn", "cdae": "cdae"}


def train(pairs, case, turns):
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    nobody = np.zeros(0, dtype=np.int64)
    users, items = (IdMap.range(int(pairs[name])) for name in ("num_users", "num_items"))
    log, empty = Interactions.of(pairs["users"], pairs["items"]), Interactions.of(nobody, nobody)
    data = Dataset("pairs", log, empty, empty, users, items)
    rows = data.csr(data.train)
    options = {"train.batch_size": case["batch"], "train.early_stop": False, "model.dim": case["dim"]}
    runs = case.get("runs", 1)
    run = plan(data, MODELS[case["model"]], case.get("method", "normal"), "corrected", runs, options, 10**6, None)
    rankers = []

    def wait(method):
        device = torch.device("cpu")
        if not rankers:
            rankers.append(Ranker.of(method.target, method.score_all, runs, rows, rows, CORRECTED, device))

        def rank():
            return np.concatenate([best[0].numpy() for _, best, _ in rankers[0].rank(np.arange(rows.num_users), TOP)])

        turns.wait(rank)

    def epoch_done(method, epoch):
        turns.done()
        wait(method)

    turns.wait(None)
    train_stack(data, run, torch.device("cpu"), each_epoch=epoch_done)


work(train)
