"""Checkpoints in a run folder: safetensors files, nothing of which is ever run."""

from __future__ import annotations

from pathlib import Path

from torch import Tensor

from accord.io.tensors import read_tensors


def read(path: Path) -> tuple[dict[str, Tensor], dict[str, str]] | None:
    return read_tensors(path) if path.exists() else None


def in_folder(folder: Path) -> list[Path]:
    return list(folder.glob("checkpoint-*.safetensors"))


def remove(folder: Path) -> None:
    for path in in_folder(folder):
        path.unlink(missing_ok=True)
