"""RecTools' SASRec, epoch by epoch."""

import logging
import os

import numpy as np
import pandas as pd
import torch
from curves import serve
from pytorch_lightning import Callback, Trainer
from rectools.dataset import Dataset
from rectools.models import SASRecModel
from turns import TOP, work

now = {}  # the curve that is measured: RecTools copies its trainer, with what that holds


class EachEpoch(Callback):
    def on_train_epoch_end(self, _trainer, module):
        now["model"].is_fitted = True
        now["epoch_done"](now["model"])
        module.train()


def trainer():
    logging.getLogger("pytorch_lightning").setLevel(logging.ERROR)
    quiet = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)
    return Trainer(accelerator="cpu", max_epochs=now["epochs"], callbacks=[EachEpoch()], **quiet)


def train(pairs, case, turns):
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    log = pd.DataFrame({"user_id": pairs["users"], "item_id": pairs["items"], "weight": 1.0})
    data = Dataset.construct(log.assign(datetime=pd.to_datetime(pairs["times"], unit="s")))

    def fit(_x, options, epoch_done):
        torch.manual_seed(0)
        now.update(epoch_done=epoch_done, epochs=case["epochs"])
        now["model"] = SASRecModel(**options, loss="softmax", get_trainer_func=trainer)
        now["model"].fit(data)

    def rank(model, _x, users):
        made = model.recommend(users=users, dataset=data, k=TOP, filter_viewed=True)
        result = np.full((len(users), TOP), -1)
        result[np.searchsorted(users, made["user_id"]), made["rank"] - 1] = made["item_id"]
        return result

    serve(pairs, case, turns, fit, rank)


work(train)
