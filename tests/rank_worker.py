"""What a rank does in the tests: train the cases of a file, and let rank 0 write down what came out."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from accord.fitting import fit_run
from accord.io.tensors import write_tensors
from accord.nn.layers import shared_out
from accord.nn.ranks import ALONE, LARGE_TABLE, Ranks, SeveralRanks, joined
from accord.training.plan import plan
from helpers import small_data, with_dim

SENT: list[tuple[int, ...]] = []  # the shapes of what torch.distributed was given


def settings(case: dict[str, Any]) -> dict[str, Any]:
    options = with_dim(case["model"]) | {"train.batch_size": case.get("batch", 128), "train.lr": 0.01}
    given = {
        "protocol": case.get("protocol", "corrected"),
        "seeds": case.get("seeds", 1),
        "epochs": case.get("epochs", 2),
    }
    return given | {"options": options | case.get("options", {}), "ks": [5, 20], "device": case.get("device", "cpu")}


def trained(case: dict[str, Any], ranks: Ranks = ALONE) -> Any:
    given = settings(case)
    device = given.pop("device")
    return fit_run(small_data(), plan(small_data(), case["model"], case["method"], **given), device=device, ranks=ranks)


def found(recommender: Any) -> dict[str, Any]:
    return {
        "history": [{k: e.get(k) for k in ("loss", "valid")} for e in recommender.history],
        "test": recommender.metrics["mean"],
    }


def main(folder: Path) -> None:
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)  # sums in another order must not hide a mistake, nor look like one
    for name in ("all_reduce", "all_gather", "gather", "broadcast"):
        _watch(name)
    with joined() as ranks:
        assert isinstance(ranks, SeveralRanks)
        for number, case in enumerate(json.loads((folder / "cases.json").read_text())):
            ranks.large = case.get("large", LARGE_TABLE)
            recommender = trained(case, ranks)
            first, size = ranks.share(len(small_data().users))
            if recommender is not None:
                write_tensors(folder / f"{ranks.size}-{number}.safetensors", recommender.method.state_dict())
                said = found(recommender) | {"sent": dict(ranks.sent), "shapes": SENT, "share": [first, size]}
                said["by_user"] = sorted(shared_out(recommender.method))
                (folder / f"{ranks.size}-{number}.json").write_text(json.dumps(said))
            SENT.clear()
            ranks.sent.clear()


def _watch(name: str) -> None:
    """Note what is given to a collective."""
    call = getattr(dist, name)

    def watched(tensor: Any, *more: Any, **named: Any) -> Any:
        SENT.append((name, tuple(more[0].shape if name == "all_gather" else tensor.shape)))
        return call(tensor, *more, **named)

    setattr(dist, name, watched)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
