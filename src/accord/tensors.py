"""Tensors on disk, as safetensors: nothing in such a file is ever run."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Mapping
from pathlib import Path

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from accord.errors import InputError
from accord.files import replacing


def write_tensors(path: Path, tensors: Mapping[str, Tensor], header: dict[str, str] | None = None) -> None:
    """Tensors of any device and a header of text as a safetensors file."""
    with replacing(path) as temporary:
        try:
            save_file({name: tensor.contiguous().cpu() for name, tensor in tensors.items()}, temporary, header)
        except SafetensorError as error:  # it wraps what the system said
            said = re.search(r"os error (\d+)", str(error))
            number = int(said[1]) if said else errno.EIO
            raise OSError(number, os.strerror(number), str(path)) from error


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Tensors and header of a safetensors file."""
    try:
        with safe_open(path, "pt", backend="pread") as file:  # a mapped file, cut short by others, ends the process
            return {name: file.get_tensor(name) for name in file.keys()}, file.metadata() or {}  # noqa: SIM118
    except FileNotFoundError:
        raise InputError(
            f"{path} is missing: the run folder is not whole; finish it with --resume or train again."
        ) from None
    except (SafetensorError, OSError) as error:
        raise InputError(f"{path} is damaged ({error}); train again.") from None
