"""implicit: alternating least squares, and item-kNN by cosine."""

import os

from implicit.cpu.als import AlternatingLeastSquares
from implicit.nearest_neighbours import CosineRecommender
from implicit_lists import rank
from quality import serve
from turns import work

KINDS = {"als": AlternatingLeastSquares, "cosine": CosineRecommender}


def train(pairs, case, turns):
    threads = int(os.environ["THREADS"])
    seed = {"random_state": 0} if case["model"] == "als" else {}

    def fit(x, options):
        model = KINDS[case["model"]](num_threads=threads, **seed, **case.get("options", {}), **options)
        model.fit(x, show_progress=False)
        return model

    serve(pairs, case, turns, fit, rank)


work(train)
