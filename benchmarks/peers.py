"""What people use instead of Accord, as its users would run it: implicit, RecTools and LightFM, each with a few options
of its models tried, the best by NDCG@20 on the validation, and measured as Accord is: a line for each in peers.jsonl.

    python benchmarks/peers.py prepare FOLDER built-in demo           # in Accord's environment: the parts of a log
    python benchmarks/peers.py prepare FOLDER MovieLens-1M ml-1m random "value>=5"
    .elsewhere-venv/bin/python benchmarks/peers.py measure FOLDER     # `make peers FOLDER=...` does both for built-in
"""

from __future__ import annotations

import importlib.metadata
import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

RESULTS = Path(__file__).with_suffix(".jsonl")
TOP, AT_ONCE = 20, 1000
Array = npt.NDArray[Any]
Ranked = Callable[[Array, int], Array]  # users, how many: items that these have not in train, the best first, -1: none


def prepare(folder: Path, name: str, source: str, split: str = "auto", clean: str | None = None) -> None:
    import accord
    from accord.evaluation.evaluate import Relevant, validation_part
    from accord.protocol import CORRECTED

    data = accord.load(source, split=split, clean=clean)
    train, valid, test = (
        data.training_csr(), data.csr(validation_part(data, CORRECTED)), Relevant.of_test(data, CORRECTED).pairs,
    )  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    parts = {
        "train": (train.owners, train.items),
        "valid": (valid.users, valid.items),
        "test": (test.users, test.items),
    }
    shape = train.num_users, train.num_items
    np.savez(folder / f"{name}.npz", shape=shape, **{part: np.stack([*rows]) for part, rows in parts.items()})


def tried(library: str, x: Any) -> Iterator[tuple[dict[str, Any], Ranked]]:
    """Every model and choice of options of a library, fitted on x [users, items]."""
    if library == "implicit":
        from implicit.bpr import BayesianPersonalizedRanking
        from implicit.cpu.als import AlternatingLeastSquares
        from implicit.nearest_neighbours import BM25Recommender

        als = [{"factors": d, "alpha": alpha, "regularization": 0.05} for d in (64, 128) for alpha in (1.0, 10.0, 40.0)]
        bpr = [{"factors": 64, "learning_rate": rate, "iterations": 100} for rate in (0.01, 0.05)]
        kinds = [(AlternatingLeastSquares, als), (BayesianPersonalizedRanking, bpr)]
        for kind, choices in [*kinds, (BM25Recommender, [{"K": k} for k in (50, 200)])]:
            for options in choices:
                given = {"num_threads": 1, **({} if kind is BM25Recommender else {"random_state": 0})}
                model = kind(**options, **given)
                model.fit(x, show_progress=False)
                yield (
                    {"model": kind.__name__, **options},
                    lambda users, n, m=model: m.recommend(users, x[users], N=n)[0],
                )
    elif library == "LightFM":
        from lightfm import LightFM

        for options in ({"no_components": 64, "learning_rate": rate} for rate in (0.02, 0.05)):
            model = LightFM(loss="warp", random_state=0, **options)
            for epochs in (10, 20, 50):  # 10, 30 and 80 in all
                model.fit_partial(x.tocoo(), epochs=epochs, num_threads=1)
                (item_bias, items), (_, users) = model.get_item_representations(), model.get_user_representations()
                total = options.get("epochs", 0) + epochs
                options = {**options, "epochs": total}
                yield (
                    {"model": "WARP", **options},
                    by_scores(lambda u, a=users, b=items, c=item_bias: a[u] @ b.T + c, x),
                )
    else:
        import pandas as pd
        from rectools.dataset import Dataset
        from rectools.models import EASEModel, PureSVDModel

        rows = x.tocoo()
        log = pd.DataFrame({"user_id": rows.row, "item_id": rows.col, "weight": 1.0, "datetime": pd.Timestamp(0)})
        data = Dataset.construct(log)
        ease = [{"regularization": l2} for l2 in (50.0, 150.0, 500.0, 1500.0)] if x.shape[1] <= 20_000 else []
        for kind, choices in ((EASEModel, ease), (PureSVDModel, [{"factors": d} for d in (16, 64, 256)])):
            for options in choices:
                model = kind(**options).fit(data)
                yield {"model": kind.__name__, **options}, lambda users, n, m=model: rectools_ranked(m, data, users, n)


def by_scores(scores: Callable[[Array], Array], x: Any) -> Ranked:
    def ranked(users: Array, n: int) -> Array:
        values = scores(users)
        values[x[users].nonzero()] = -np.inf
        best = np.argpartition(-values, min(n, values.shape[1] - 1), axis=1)[:, :n]
        order = np.argsort(-np.take_along_axis(values, best, 1), axis=1, kind="stable")
        return np.take_along_axis(best, order, 1)

    return ranked


def rectools_ranked(model: Any, data: Any, users: Array, n: int) -> Array:
    made = model.recommend(users=users, dataset=data, k=n, filter_viewed=True)
    result = np.full((len(users), n), -1)
    result[np.searchsorted(users, made["user_id"]), made["rank"] - 1] = made["item_id"]
    return result


def ndcg(ranked: Ranked, pairs: Array, x: Any, masked: Any, popular: Array) -> float:
    """Mean NDCG@20 over the users of `pairs` [2, n]; who has no history gets what is popular, `masked` is left out."""
    import scipy.sparse as sp

    relevant = sp.csr_matrix((np.ones(pairs.shape[1], bool), (pairs[0], pairs[1])), x.shape)
    who, warm = np.unique(pairs[0]), np.diff(x.indptr) > 0
    deep = min(x.shape[1], TOP + int(np.diff(masked.indptr)[who].max()))
    gains = 1 / np.log2(np.arange(TOP) + 2)
    total = 0.0
    for start in range(0, len(who), AT_ONCE):
        users = who[start : start + AT_ONCE]
        lists = np.tile(popular[:deep], (len(users), 1))
        if warm[users].any():
            made = ranked(users[warm[users]], deep)
            lists[warm[users]] = -1
            lists[np.flatnonzero(warm[users])[:, None], np.arange(made.shape[1])] = made
        for user, items in zip(users, lists, strict=True):
            hidden = masked.indices[masked.indptr[user] : masked.indptr[user + 1]]
            items = items[(items >= 0) & ~np.isin(items, hidden)][:TOP]
            wanted = relevant.indices[relevant.indptr[user] : relevant.indptr[user + 1]]
            total += gains[: len(items)][np.isin(items, wanted)].sum() / gains[: min(TOP, len(wanted))].sum()
    return total / len(who)


def measure(folder: Path) -> None:
    import scipy.sparse as sp

    lines = map(json.loads, RESULTS.read_text(encoding="utf-8").splitlines()) if RESULTS.exists() else ()
    done = {(line["log"], line["library"]) for line in lines}
    packages = {"implicit": "implicit", "RecTools": "RecTools", "LightFM": "rectools-lightfm"}
    for file in sorted(folder.glob("*.npz"), key=lambda path: path.stat().st_size):
        parts = np.load(file)
        train, valid, test = (parts[name] for name in ("train", "valid", "test"))
        x = sp.csr_matrix((np.ones(train.shape[1], np.float32), tuple(train)), parts["shape"])
        nothing = sp.csr_matrix(x.shape, dtype=np.float32)
        later = sp.csr_matrix((np.ones(valid.shape[1], np.float32), tuple(valid)), x.shape)
        popular = np.argsort(-np.bincount(train[1], minlength=x.shape[1]), kind="stable")
        for library, package in packages.items():
            if (file.stem, library) in done:
                continue
            began, best, count = time.process_time(), (-1.0, 0.0, {}), 0
            for options, ranked in tried(library, x):
                count += 1
                figure = ndcg(ranked, valid, x, nothing, popular)
                if figure > best[0]:
                    best = figure, ndcg(ranked, test, x, later, popular), options
            line = {
                "log": file.stem, "library": library, "version": importlib.metadata.version(package), "tried": count,
                "options": best[2], "valid": round(best[0], 5), "test": round(best[1], 5),
                "cpu_seconds": round(time.process_time() - began, 1),
            }  # fmt: skip
            with RESULTS.open("a", encoding="utf-8") as out:
                out.write(json.dumps(line) + "\n")
            print(line, flush=True)


if __name__ == "__main__":
    what, where, *rest = sys.argv[1:]
    prepare(Path(where), *rest) if what == "prepare" else measure(Path(where))
