"""implicit: BPR by stochastic gradient descent, one pair after the other."""

import os
from functools import partial

import numpy as np
import scipy.sparse as sp
from implicit.cpu.bpr import BayesianPersonalizedRanking
from turns import TOP, work


def train(pairs, case, turns):
    shape = int(pairs["num_users"]), int(pairs["num_items"])
    ones = np.ones(len(pairs["users"]), dtype=np.float32)
    log = sp.csr_matrix((ones, (pairs["users"], pairs["items"])), shape=shape)
    threads = int(os.environ["THREADS"])
    model = BayesianPersonalizedRanking(factors=case["dim"], iterations=10**6, num_threads=threads, random_state=0)
    all_users = np.arange(shape[0])

    def rank(block):
        for users in np.array_split(all_users, -(-len(all_users) // block)):
            model.recommend(users, log[users], N=TOP, filter_already_liked_items=True)

    ways = {f"{block:,} users at a time": partial(rank, block) for block in (64, 256, shape[0])}

    def epoch_done(*_):
        turns.done()
        turns.wait(ways)

    turns.wait({})
    model.fit(log, show_progress=False, callback=epoch_done)


work(train)
