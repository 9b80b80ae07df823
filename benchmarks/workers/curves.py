"""How good a model is after each epoch, and after how many CPU seconds: what a worker answers for its options."""

import time
from functools import partial

from quality import judges, matrix, ndcg


class Curve:
    """CPU seconds of training alone, and NDCG on the validation and the test, after each epoch."""

    def __init__(self, train, valid, test, rank):
        self.train, self.parts, self.rank = train, (valid, test), rank
        self.users = [judges(part, 10**9) for part in self.parts]
        self.points, self.spent = [], 0.0
        self.began = time.process_time()

    def epoch_done(self, model):
        self.spent += time.process_time() - self.began
        found = [
            ndcg(self.rank(model, self.train, users), users, part)
            for users, part in zip(self.users, self.parts, strict=True)
        ]
        self.points.append([self.spent, *found])
        self.began = time.process_time()


def serve(pairs, case, turns, fit, rank):
    """`fit(x, options, epoch_done)` trains, and says when an epoch is done; `rank(model, x, users)` gives lists."""
    parts = [matrix(pairs, part) for part in ("", "valid_", "test_")]

    def curve(options):
        made = Curve(*parts, rank)
        fit(parts[0], options, made.epoch_done)
        return {"points": made.points}

    turns.wait({})
    turns.done()
    turns.wait({str(number): partial(curve, options) for number, options in enumerate(case["grid"])})
