"""A file of pairs as accord's own data."""

import numpy as np

from accord.data.interactions import Dataset, IdMap, Interactions


def dataset(pairs):
    none = np.zeros(0, dtype=np.int64)
    users, items = (IdMap.range(int(pairs[name])) for name in ("num_users", "num_items"))
    times = {"time": pairs["times"]} if "times" in pairs else {}
    log, empty = Interactions.of(pairs["users"], pairs["items"], **times), Interactions.of(none, none)
    return Dataset("pairs", log, empty, empty, users, items)
