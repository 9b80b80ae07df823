"""Lists by a model of implicit."""

import numpy as np
from turns import TOP


def rank(model, x, users):
    return np.concatenate([
        model.recommend(some, x[some], N=TOP, filter_already_liked_items=True)[0]
        for some in np.array_split(users, -(-len(users) // 256))
    ])  # fmt: skip
