"""Checkpoints: safetensors files, nothing of which is ever run. Of several processes the first writes the rows of all,
and any other number of processes can read them.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from torch import Tensor

from accord.io.tensors import read_tensors, write_tensors
from accord.nn.ranks import Ranks, Share

Stored = tuple[dict[str, Tensor], dict[str, str]]  # tensors by name, and a header of text
Shares = Mapping[str, Share]  # of tensors [R, rows, dim] whose rows are split between processes


def write(path: Path, tensors: Mapping[str, Tensor], header: dict[str, str], shares: Shares, ranks: Ranks) -> None:
    """Write a checkpoint in the place of the one before. Of tensors in `shares`, a process has its own rows."""
    every = {name: ranks.collect(t, 1, name) if name in shares else t for name, t in tensors.items()}
    if ranks.rank == 0:
        write_tensors(path, {name: tensor for name, tensor in every.items() if tensor is not None}, header)


def read(path: Path, shares: Shares) -> Stored | None:
    """The checkpoint, whoever wrote it, with this process's rows of the tensors in `shares`; None without one."""
    if not path.exists():
        return None
    tensors, header = read_tensors(path)
    for name, share in shares.items():
        if name in tensors and tensors[name].shape[1] == share.whole:  # others are refused by the caller
            tensors[name] = tensors[name][:, share.first : share.first + share.size].clone()
    return tensors, header


def in_folder(folder: Path) -> list[Path]:
    """Every checkpoint in a run folder."""
    return list(folder.glob("checkpoint-*.safetensors"))


def remove(folder: Path) -> None:
    for path in in_folder(folder):
        path.unlink(missing_ok=True)
