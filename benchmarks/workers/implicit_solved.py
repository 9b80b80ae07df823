"""implicit: alternating least squares, and item-kNN by cosine."""

import os

import numpy as np
from implicit.cpu.als import AlternatingLeastSquares
from implicit.nearest_neighbours import CosineRecommender
from quality import serve
from turns import TOP, work

KINDS = {"als": AlternatingLeastSquares, "cosine": CosineRecommender}


def train(pairs, case, turns):
    threads = int(os.environ["THREADS"])
    seed = {"random_state": 0} if case["model"] == "als" else {}

    def fit(x, options):
        model = KINDS[case["model"]](num_threads=threads, **seed, **case.get("options", {}), **options)
        model.fit(x, show_progress=False)
        return model

    def rank(model, x, users):
        return np.concatenate([
            model.recommend(some, x[some], N=TOP, filter_already_liked_items=True)[0]
            for some in np.array_split(users, -(-len(users) // 256))
        ])  # fmt: skip

    serve(pairs, case, turns, fit, rank)


work(train)
