"""Tensors on disk come back as they were, or are refused in one sentence."""

from __future__ import annotations

import errno
import os

import pytest
import torch
from safetensors import SafetensorError

from accord.errors import InputError
from accord.io import tensors as tensors_module
from accord.io.tensors import not_finite, read_tensors, write_tensors


def test_weights_that_are_cut_short_in_place_hurt_nobody_who_has_read_them(tmp_path):
    """With mapped files this would end the process by a signal, here and in the server."""
    whole = {"weight": torch.arange(100_000.0), "counts": torch.arange(7)}
    path = tmp_path / "model.safetensors"
    write_tensors(path, whole)
    tensors, _ = read_tensors(path)
    os.truncate(path, 0)
    assert all(tensors[name].equal(whole[name]) for name in whole)


def test_tensors_and_their_header_come_back(tmp_path):
    given = {
        "weight": torch.randn(3, 4).T,  # not contiguous
        "counts": torch.tensor([1, 2], dtype=torch.int32),
        "nothing": torch.empty(0, 5),
    }
    write_tensors(tmp_path / "a.safetensors", given, {"epoch": "3"})
    tensors, header = read_tensors(tmp_path / "a.safetensors")
    assert header == {"epoch": "3"}
    assert tensors.keys() == given.keys()
    for name, tensor in given.items():
        assert tensors[name].dtype == tensor.dtype
        assert torch.equal(tensors[name], tensor)
    write_tensors(tmp_path / "b.safetensors", given)
    assert read_tensors(tmp_path / "b.safetensors")[1] == {}


def test_a_damaged_file_is_one_sentence(tmp_path):
    path = tmp_path / "a.safetensors"
    with pytest.raises(InputError, match="is missing"):
        read_tensors(path)
    for content in (b"", b"\xff" * 100, b"\x08\0\0\0\0\0\0\0{}      "[:12]):
        path.write_bytes(content)
        with pytest.raises(InputError, match=r"a\.safetensors is damaged"):
            read_tensors(path)


def test_the_first_tensor_that_is_not_finite_is_named():
    fine = {"ids": torch.tensor([1, 2]), "weight": torch.ones(2)}
    assert not_finite(fine) is None
    assert not_finite(fine | {"bias": torch.tensor([0.0, float("nan")])}) == "bias"
    assert not_finite({"bias": torch.tensor([-float("inf")]), **fine}) == "bias"


def test_an_error_of_the_disk_is_an_error_of_the_system(tmp_path, monkeypatch):
    def full(*_):
        raise SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)")

    monkeypatch.setattr(tensors_module, "save_file", full)
    with pytest.raises(OSError, match="No space left") as caught:
        write_tensors(tmp_path / "a.safetensors", {"weight": torch.ones(2)})
    assert caught.value.errno == errno.ENOSPC
    assert list(tmp_path.iterdir()) == []


def test_tensors_that_share_memory_are_written_each(tmp_path):
    one = torch.arange(6.0)
    write_tensors(tmp_path / "file", {"one": one, "same": one, "none": torch.empty(0), "other": torch.empty(0)})
    found, _ = read_tensors(tmp_path / "file")
    assert torch.equal(found["one"], one)
    assert torch.equal(found["same"], one)
    assert found["none"].shape == found["other"].shape == (0,)
