"""`sasrec` beside RecTools' SASRec: CPU seconds of an epoch, and until the same NDCG@20 is reached; a line in
attention.jsonl. MovieLens-100k, with RecTools where PEERS_PYTHON is:

    python benchmarks/attention.py MovieLens-100k u.data

Both have the same width, layers, heads, dropout, length, batches of users and softmax over all items, the same learning
rates to choose from, one thread each, and turns. The last item of each user is the test, the one before the validation.
The quality to reach is a little below the best of the worse of the two on the validation; each takes the learning rate
that reaches it first there. An epoch of ours has all of a history, one of RecTools' its last `length` items.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import when
from reaching import SHARE, Curve, first_at
from turn import working

import accord

RESULTS = Path(__file__).with_suffix(".jsonl")
EPOCHS, RATES = 30, (0.001, 0.003)
SAME = {"dim": 64, "layers": 2, "heads": 2, "dropout": 0.2, "length": 100, "batch": 32}
OURS = {"dim": "model.dim", "layers": "model.blocks", "heads": "model.heads", "dropout": "model.dropout"}
OURS |= {"length": "model.length", "batch": "train.batch_size"}
THEIRS = {"dim": "n_factors", "layers": "n_blocks", "heads": "n_heads", "dropout": "dropout_rate"}
THEIRS |= {"length": "session_max_len", "batch": "batch_size"}


def parts(source: str, path: Path) -> Path:
    """For the workers: the parts of a log of users, items, ratings and times, by tabs or colons."""
    text = Path(source).read_text(encoding="latin-1").replace("::", "\t")
    rows = np.loadtxt(text.splitlines(), dtype=np.int64, delimiter="\t")
    log = pa.table({"user": rows[:, 0], "item": rows[:, 1], "time": rows[:, 3]})
    data = accord.load(log, split="leave-last-out")
    train, valid, test = data.training_csr(("time",)), data.csr(data.valid), data.csr(data.test)
    made = {"users": train.users, "items": train.items, "times": train.columns["time"]}
    made |= {f"{name}_users": part.users for name, part in (("valid", valid), ("test", test))}
    made |= {f"{name}_items": part.items for name, part in (("valid", valid), ("test", test))}
    np.savez(path, num_users=train.num_users, num_items=train.num_items, **made)
    return path


def main(name: str, source: str) -> None:
    ours, theirs = ({own[key]: SAME[key] for key in SAME} for own in (OURS, THEIRS))
    grids = {"Accord": [ours | {"train.l2": 0.0, "train.lr": rate} for rate in RATES]}
    grids["RecTools"] = [theirs | {"lr": rate} for rate in RATES]
    case = {"dim": SAME["dim"], "epochs": EPOCHS, "model": "sasrec", "method": "softmax"}
    scripts = dict(zip(grids, ("ours_curves", "rectools_curves"), strict=True))
    cases = {who: (scripts[who], case | {"grid": grid}) for who, grid in grids.items()}
    curves: dict[str, list[Curve]] = {who: [] for who in cases}
    with tempfile.TemporaryDirectory() as folder, working(cases, parts(source, Path(folder) / "log.npz")) as workers:
        for worker in workers.values():
            worker.ask("epoch")
        for number in range(len(RATES)):
            for who, worker in workers.items():
                curves[who].append(worker.ask(f"rank {number}")["points"])
    best = {who: max(point[1] for curve in own for point in curve) for who, own in curves.items()}
    quality = SHARE * min(best.values())
    line: dict[str, Any] = {"log": name, "settings": SAME, "epochs": EPOCHS, "rates": RATES, "quality": quality}
    for who, own in curves.items():
        first = [(point[0], number) for number, curve in enumerate(own) if (point := first_at(curve, quality))]
        reached, chosen = min(first)
        seconds = [float(one) for curve in own for one in np.diff([point[0] for point in curve])]
        line[who] = {"best": best[who], "rate": RATES[chosen], "epoch": float(np.median(seconds)), "reached": reached}
        line[who] |= {"reached_after": 1 + [point[0] for point in own[chosen]].index(reached), "curves": own}
    with RESULTS.open("a", encoding="utf-8") as file:
        file.write(json.dumps(line | when.measured() | {"processor": when.processor()}) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
