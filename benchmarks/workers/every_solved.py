"""Accord's solved models one after another: what each takes to be fitted and to rank everybody, the faster of two."""

import os
from itertools import pairwise

import numpy as np
import torch
from pairs import dataset
from turns import TOP, clocks, work

from accord.evaluation.ranking import Ranker
from accord.models import SOLVED
from accord.training.plan import plan
from accord.training.stack import train_stack

CPU = torch.device("cpu")


def train(pairs, case, turns):
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    data = dataset(pairs)
    rows = data.csr(data.train)
    users = np.flatnonzero(rows.counts)

    def once(model):
        run = plan(data, model, "normal", "corrected", 1, {}, None, None)
        times = [clocks()]
        method = train_stack(data, run, CPU)[0]
        times.append(clocks())
        ranker = Ranker.of(method.target, method.score_all, 1, rows, rows, run.config.protocol, CPU)
        for _ in ranker.rank(users, TOP):
            pass
        times.append(clocks())
        return [after[1] - before[1] for before, after in pairwise(times)]

    turns.wait({})
    solved = [kind.name for kind in SOLVED]
    found = {name: [once(name), once(name)] for name in solved}
    cpu = {name: {"fit": min(a[0], b[0]), "rank": min(a[1], b[1])} for name, (a, b) in found.items()}
    turns.answer(cpu=cpu, users=len(users))
    turns.wait({})


work(train)
