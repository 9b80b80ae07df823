"""Small runs that are trained into a folder, to be killed, replaced and compared."""

from __future__ import annotations

from pathlib import Path

import accord
from helpers import small_data

OPTIONS = {"train.checkpoint_seconds": 0, "train.batch_size": 128, "model.dim": 4}


def train(folder: Path, seed: int = 3, resume: bool = False, method: str = "normal") -> None:
    accord.fit(
        small_data(), "gmf", method, seeds=[seed, seed + 1], epochs=1, device="cpu", options=OPTIONS, out=folder,
        resume=resume,
    )  # fmt: skip
