"""implicit's BPR, epoch by epoch."""

import os

import numpy as np
from curves import serve
from implicit.cpu.bpr import BayesianPersonalizedRanking
from turns import TOP, work


def train(pairs, case, turns):
    threads = int(os.environ["THREADS"])

    def fit(x, options, epoch_done):
        model = BayesianPersonalizedRanking(
            factors=case["dim"], iterations=case["epochs"], num_threads=threads, random_state=0, **options
        )
        model.fit(x, show_progress=False, callback=lambda *_: epoch_done(model))

    def rank(model, x, users):
        return np.concatenate([
            model.recommend(some, x[some], N=TOP, filter_already_liked_items=True)[0]
            for some in np.array_split(users, -(-len(users) // 256))
        ])  # fmt: skip

    serve(pairs, case, turns, fit, rank)


work(train)
