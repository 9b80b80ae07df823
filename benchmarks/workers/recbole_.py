"""RecBole, as it is but for names that numpy 2 and scipy have dropped since."""

import os
import tempfile
from functools import partial
from pathlib import Path

import numpy as np
import scipy.sparse as sp
import torch
from turns import TOP, work

for dropped, kept in {"float_": np.float64, "complex_": np.complex128, "unicode_": np.str_}.items():
    setattr(np, dropped, kept)
sp.dok_matrix._update = lambda matrix, entries: matrix._dict.update(entries)

from recbole.config import Config  # noqa: E402
from recbole.data import create_dataset, data_preparation  # noqa: E402
from recbole.utils import get_model, get_trainer, init_seed  # noqa: E402
from recbole.utils.case_study import full_sort_topk  # noqa: E402


def settings(case):
    if case["model"] == "neumf":  # a batch here counts positives and negatives
        return {
            "mf_embedding_size": case["dim"],
            "mlp_embedding_size": 4 * case["dim"],
            "mlp_hidden_size": [4 * case["dim"], 2 * case["dim"], case["dim"]],
            "dropout_prob": 0.0,
            "train_batch_size": 2 * case["batch"],
        }
    if case["model"] == "lightgcn":
        return {"embedding_size": case["dim"], "n_layers": 3, "train_batch_size": case["batch"]}
    return {
        "embedding_size": case["dim"],
        "train_batch_size": case["batch"],
        "train_neg_sample_args": None,
        "corruption_ratio": 0.5,
    }


def write_atomic(folder, pairs):
    """RecBole reads its own files. A user needs a test pair to be ranked: any item will do."""
    (folder / "pairs").mkdir()
    all_users = np.arange(int(pairs["num_users"]))
    other = {"valid": (all_users[:1], all_users[:1]), "test": (all_users, all_users % int(pairs["num_items"]))}
    for name, (users, items) in {"train": (pairs["users"], pairs["items"]), **other}.items():
        rows = np.stack([users, items], 1)
        head = "user_id:token\titem_id:token"
        np.savetxt(folder / f"pairs/pairs.{name}.inter", rows, "%d", delimiter="\t", header=head, comments="")


def train(pairs, case, turns):
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    folder = Path(tempfile.mkdtemp())
    os.chdir(folder)
    write_atomic(folder, pairs)
    name = {"neumf": "NeuMF", "lightgcn": "LightGCN", "cdae": "CDAE"}[case["model"]]
    options = {
        "data_path": str(folder), "benchmark_filename": ["train", "valid", "test"], "load_col": None,
        "use_gpu": False, "show_progress": False, "state": "ERROR", "epochs": 10**6, "topk": [TOP],
        "metrics": ["Recall"], "valid_metric": f"Recall@{TOP}", "learning_rate": 0.003,
        "eval_args": {"split": None, "group_by": "user", "order": "RO", "mode": "full"},
    }  # fmt: skip
    config = Config(model=name, dataset="pairs", config_dict=options | settings(case))
    init_seed(config["seed"], True)
    dataset = create_dataset(config)
    train_data, _, test_data = data_preparation(config, dataset)
    model = get_model(name)(config, train_data.dataset)
    kind = get_trainer(config["MODEL_TYPE"], config["model"])
    all_users = np.arange(1, dataset.user_num)

    def rank(block):
        for users in np.array_split(all_users, -(-len(all_users) // block)):
            full_sort_topk(users, model, test_data, TOP)

    ways = {f"full_sort_topk, {block:,} users at a time": partial(rank, block) for block in (64, 256, len(all_users))}

    class Timed(kind):
        def _train_epoch(self, *arguments, **options):
            evaluate = partial(self.evaluate, test_data, load_best_model=False)
            turns.wait({"trainer.evaluate": evaluate, **ways})
            loss = super()._train_epoch(*arguments, **options)
            turns.done()
            return loss

    Timed(config, model).fit(train_data, saved=False, verbose=False)


work(train)
