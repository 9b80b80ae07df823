"""`sasrec` beside RecTools' SASRec on a GPU: seconds of training and NDCG@10 on the validation, every third epoch.

    python benchmarks/sasrec_gpu.py LOG.csv ours 45 >> benchmarks/sasrec-gpu.jsonl     # RecTools' settings
    python benchmarks/sasrec_gpu.py LOG.csv auto 25 >> benchmarks/sasrec-gpu.jsonl     # those that auto tries first
    python benchmarks/sasrec_gpu.py LOG.csv rectools 75 >> benchmarks/sasrec-gpu.jsonl # with RecTools installed too
    python benchmarks/sasrec_gpu.py LOG.csv alone >> benchmarks/sasrec-gpu.jsonl

The last item of each user is the test, the one before it the validation; the number is of seconds, ranking included.
`alone` fits some settings and tests each, with the validation in the histories.
"""

from __future__ import annotations

import contextlib
import json
import logging
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

import accord
from accord.consensus.families import ATTENTION_ON_GPU
from accord.data.interactions import Dataset
from accord.evaluation.ranking import Ranker
from accord.protocol import CORRECTED
from accord.training.plan import plan
from accord.training.stack import train_stack

MOST, EVERY, TOP = 400, 3, 10
SAME = {"model.dim": 256, "model.blocks": 2, "model.heads": 4, "model.dropout": 0.2, "model.length": 100}
SAME |= {"train.lr": 0.001, "train.batch_size": 128}  # what RecTools takes by itself
AUTO = {"model.dim": 128, "train.lr": 0.003, "method.temperature": 0.07}
ALONE: tuple[dict[str, Any], ...] = (
    {},
    {"model.dropout": 0.3},
    {"model.dropout": 0.2, "method.temperature": 0.05},
    {"model.dim": 256, "model.dropout": 0.3, "train.lr": 0.002},
    {"model.dropout": 0.3, "train.epochs": 64, "train.patience": 6},
    {"model.dropout": 0.4, "model.dim": 192, "train.epochs": 64, "train.patience": 6},
    {"model.dim": 256, "model.dropout": 0.4, "train.lr": 0.0015, "train.epochs": 48},
    {"model.dim": 256, "model.dropout": 0.35, "train.lr": 0.001, "train.epochs": 48},
)


class Enough(Exception):
    """The time is over."""


class Curve:
    """Seconds of training alone after each epoch, and NDCG on the validation after some."""

    def __init__(self, data: Dataset, most: float) -> None:
        self.held = np.full(len(data.users), -1)
        valid = data.csr(data.valid)
        self.held[valid.users] = valid.items
        self.points: list[list[float]] = []
        self.spent, self.most, self.start = 0.0, most, time.perf_counter()
        self.began = self.start

    def epoch_done(self, lists: Callable[[], np.ndarray]) -> None:
        torch.cuda.synchronize()
        self.spent += time.perf_counter() - self.began
        self.points.append([round(self.spent, 3)])
        if len(self.points) % EVERY == 0:
            users = np.flatnonzero(self.held >= 0)
            hits = lists()[users] == self.held[users, None]
            self.points[-1].append(round(float((hits / np.log2(np.arange(TOP) + 2)).sum(1).mean()), 5))
        if time.perf_counter() - self.start > self.most:
            raise Enough
        self.began = time.perf_counter()


def ours(data: Dataset, curve: Curve, options: dict[str, Any]) -> None:
    device, rows = torch.device("cuda"), data.training_csr(("time",))
    given = {"train.early_stop": False, "train.l2": 0.0, **options}
    run = plan(data, "sasrec", "softmax", "corrected", 1, given, MOST, None)

    def epoch_done(method: Any, _epoch: int) -> None:
        def lists() -> np.ndarray:
            ranker = Ranker.of(method.target, method.score_all, 1, rows, rows, CORRECTED, device)
            users = np.arange(len(data.users))
            return np.concatenate([items[0].cpu().numpy() for _, items, _ in ranker.rank(users, TOP)])

        method.eval()
        curve.epoch_done(lists)
        method.train()

    curve.start = curve.began = time.perf_counter()
    train_stack(data, run, device, each_epoch=epoch_done)


def rectools(data: Dataset, curve: Curve) -> None:
    import pandas as pd
    from pytorch_lightning import Callback, Trainer
    from rectools.dataset import Dataset as Log
    from rectools.models import SASRecModel

    rows, made = data.training_csr(("time",)), {}
    times = pd.to_datetime(rows.columns["time"], unit="s")
    frame = pd.DataFrame({"user_id": rows.users, "item_id": rows.items, "weight": 1.0, "datetime": times})
    log, users = Log.construct(frame), np.unique(rows.users)

    def lists() -> np.ndarray:
        made["model"].is_fitted = True
        found = made["model"].recommend(users=users, dataset=log, k=TOP, filter_viewed=True)
        result = np.full((len(data.users), TOP), -1)
        result[found["user_id"], found["rank"] - 1] = found["item_id"]
        return result

    class EachEpoch(Callback):
        def on_train_start(self, *_: Any) -> None:
            curve.start = curve.began = time.perf_counter()

        def on_train_epoch_end(self, _trainer: Any, module: Any) -> None:
            curve.epoch_done(lists)
            module.train()
            module.to("cuda")

    def trainer() -> Trainer:
        logging.getLogger("pytorch_lightning").setLevel(logging.ERROR)
        quiet = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)
        return Trainer(accelerator="gpu", devices=1, max_epochs=MOST, callbacks=[EachEpoch()], **quiet)

    torch.manual_seed(0)
    made["model"] = SASRecModel(loss="softmax", get_trainer_func=trainer, recommend_torch_device="cuda", epochs=MOST)
    made["model"].fit(log)


def alone(data: Dataset) -> None:
    for more in ALONE:
        options = {**ATTENTION_ON_GPU, "train.l2": 0.0, **more}
        made = accord.fit(data, "sasrec", "softmax", options=options, refit=False, ks=[10, 20], device="cuda")
        (run,) = made.metrics["runs"]
        figures = {name: round(run["metrics"][name], 5) for name in ("ndcg@10", "recall@10")}
        print(json.dumps({"who": "alone", "options": options, "valid_ndcg@20": run["valid_ndcg@20"], **figures}))


def main(log: str, who: str, most: str = "60") -> None:
    data = accord.load(log, split="leave-last-out")
    if who == "alone":
        alone(data)
        return
    curve = Curve(data, float(most))
    with contextlib.suppress(Enough):
        rectools(data, curve) if who == "rectools" else ours(data, curve, AUTO if who == "auto" else SAME)
    print(json.dumps({"who": who, "device": torch.cuda.get_device_name(), "points": curve.points}))


if __name__ == "__main__":
    main(*sys.argv[1:])
