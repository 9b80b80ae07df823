"""Exact lists over many items by an untrained GMF. `way`: as they are made now; as they were made before, each block in
fresh memory and the bias added into another; or the products alone.

Answers "epoch" with the seconds of everybody's lists, of which the system's, which clears fresh memory.
"""

import os

import numpy as np
import torch
from pairs import dataset
from turns import TOP, work

from accord.evaluation import ranking
from accord.training.plan import plan

CPU = torch.device("cpu")


def train(pairs, case, turns):
    torch.set_num_threads(1)
    data = dataset(pairs)
    rows, users = data.csr(data.train), np.arange(int(pairs["num_users"]))
    run = plan(data, "gmf", "normal", "corrected", 1, {"model.dim": case["dim"]}, None, None)
    method = run.build(rows).eval()
    target = method.target

    def before(users):
        weighted = target.user.weight[:, users] * target.out.weight.mT
        return weighted @ target.item.weight.mT + target.out.bias.unsqueeze(-1)

    score = method.score_all
    if case["way"] == "before":
        score, ranking.CPU_BLOCK_BYTES = before, ranking.BLOCK_BYTES
    ranker = ranking.Ranker.of(target, score, 1, rows, rows, run.config.protocol, CPU)

    def lists():
        for _ in ranker.rank(users, TOP):
            pass

    @torch.inference_mode()
    def products():
        items = target.item.weight.mT
        for block in ranker.blocks(users):
            target.user.weight[:, torch.from_numpy(block)] @ items

    called = products if case["way"] == "products" else lists
    while True:
        turns.wait({})
        system = os.times().system
        called()
        turns.done(system=os.times().system - system)


work(train)
