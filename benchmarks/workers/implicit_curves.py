"""implicit's BPR, epoch by epoch."""

import os

from curves import serve
from implicit.cpu.bpr import BayesianPersonalizedRanking
from implicit_lists import rank
from turns import work


def train(pairs, case, turns):
    threads = int(os.environ["THREADS"])

    def fit(x, options, epoch_done):
        model = BayesianPersonalizedRanking(
            factors=case["dim"], iterations=case["epochs"], num_threads=threads, random_state=0, **options
        )
        model.fit(x, show_progress=False, callback=lambda *_: epoch_done(model))

    serve(pairs, case, turns, fit, rank)


work(train)
