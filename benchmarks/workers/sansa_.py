"""SANSA: sparse approximate EASE, by an incomplete Cholesky factor and its sparse inverse."""

import logging

import numpy as np
import sansa
from quality import serve
from turns import TOP, work

logging.disable(logging.WARNING)


def train(pairs, case, turns):
    def fit(x, options):
        given = case.get("options", {}) | options
        config = sansa.SANSAConfig(
            l2=given["l2"],
            weight_matrix_density=min(1.0, given["per_item"] / x.shape[1]),
            gramian_factorizer_config=sansa.ICFGramianFactorizerConfig(),
            lower_triangle_inverter_config=sansa.UMRUnitLowerTriangleInverterConfig(),
        )
        return sansa.SANSA(config).fit(x)

    def rank(model, x, users):
        """Dense blocks: `recommend` fails where a user has fewer than TOP scores."""
        lists = []
        for some in np.array_split(users, -(-len(users) // 256)):
            scores, seen = model.forward(x[some]).toarray(), x[some]
            scores[np.repeat(np.arange(len(some)), np.diff(seen.indptr)), seen.indices] = -np.inf
            best = np.argpartition(-scores, TOP, 1)[:, :TOP]
            order = np.argsort(-np.take_along_axis(scores, best, 1), 1, kind="stable")
            lists.append(np.take_along_axis(best, order, 1))
        return np.concatenate(lists)

    serve(pairs, case, turns, fit, rank)


work(train)
