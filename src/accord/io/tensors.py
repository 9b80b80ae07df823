"""Tensors on disk, as safetensors: reading such a file never runs code."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from accord.errors import InputError
from accord.io.files import file_inside, replacing

NARROWER = {  # of numbers that these have room for, which are written so
    torch.float32: (torch.float16,),
    torch.int64: (torch.int16, torch.int32),
    torch.int32: (torch.int16,),
}


def narrowed(tensor: Tensor) -> Tensor:
    """The same numbers in fewer bytes, where that is possible."""
    for kind in NARROWER.get(tensor.dtype, ()):
        narrow = tensor.to(kind)
        if torch.equal(narrow.to(tensor.dtype), tensor):
            return narrow
    return tensor


def write_tensors(path: Path, tensors: Mapping[str, Tensor], header: dict[str, str] | None = None) -> None:
    separate: dict[str, Tensor] = {}
    places = set()
    for name, tensor in tensors.items():
        copy = tensor.contiguous().cpu()
        separate[name] = copy.clone() if copy.data_ptr() in places else copy  # no two may share memory in a file
        places.add(copy.data_ptr())
    with replacing(path) as temporary:
        try:
            save_file(separate, temporary, header)
        except SafetensorError as error:  # which wraps the error of the system
            code = re.search(r"os error (\d+)", str(error))
            number = int(code[1]) if code else errno.EIO
            raise OSError(number, os.strerror(number), str(path)) from error


def not_finite(tensors: Mapping[str, Tensor]) -> str | None:
    """The name of a tensor that holds NaN or infinities."""
    return next((n for n, t in tensors.items() if t.is_floating_point() and not torch.isfinite(t).all()), None)


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    file_inside(path)
    try:
        with safe_open(path, "pt", backend="pread") as file:  # a mapped file that others truncate would crash us
            return {name: file.get_tensor(name) for name in file.keys()}, file.metadata() or {}  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise InputError(f"{path} is damaged ({error}); train again.") from None
