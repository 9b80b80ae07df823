"""Tensors on disk come back as they were, or are refused in one sentence."""

from __future__ import annotations

import os

import torch

from accord.io.tensors import read_tensors, write_tensors


def test_weights_that_are_cut_short_in_place_hurt_nobody_who_has_read_them(tmp_path):
    """With mapped files this would end the process by a signal, here and in the server."""
    whole = {"weight": torch.arange(100_000.0), "counts": torch.arange(7)}
    path = tmp_path / "model.safetensors"
    write_tensors(path, whole)
    tensors, _ = read_tensors(path)
    os.truncate(path, 0)
    assert all(tensors[name].equal(whole[name]) for name in whole)
