"""What labels say of training pairs: of a labelled one the real preference r is known, and every loss asks here.

Data without labels has no column `label`; then nothing here changes a bit."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from accord.data.csr import Csr
from accord.data.sampling import Batch


class BatchLabels(NamedTuple):
    """Of the positives of a batch, [R, P] each."""

    present: Tensor  # whether it has a label
    r: Tensor  # the label; 1 where there is none, as a positive is otherwise taken


def labels_of(batch: Batch) -> BatchLabels | None:
    """None where the data has no labels."""
    if "label" not in batch.columns:
        return None
    label = batch.column("label")
    present = ~torch.isnan(label)
    return BatchLabels(present, torch.where(present, label, 1.0))


def targets(batch: Batch, logits: Tensor) -> Tensor:
    """What each pair should be: r where it is known, else 1 for a positive and 0 for a negative; [R, P + N]."""
    result = torch.zeros_like(logits)
    labels = labels_of(batch)
    result[:, : batch.num_positives] = 1 if labels is None else labels.r.to(logits)
    return result


def labelled(train: Csr) -> npt.NDArray[np.bool_]:
    label = train.columns.get("label")
    return np.zeros(len(train.items), dtype=bool) if label is None else ~np.isnan(label)


def note(train: Csr, learns: bool, name: str) -> list[str]:
    """What a user should know of the labels in a training; nothing where there are none."""
    mask = labelled(train)
    if not mask.any():
        return []
    if not learns:
        return [f"model '{name}' ignores labels; train auto or a learned model, or make weights with 'accord weights'."]
    return [f"{mask.sum():,} of {len(mask):,} training interactions have a label, which the loss takes as the truth."]
