"""Checkpoints. One process writes a file; several write a folder, each its own rows (torch.distributed.checkpoint), and
any other number of processes can read it.

All are safetensors: nothing in them is ever run. A folder's `state.json` is written last: without it, it is half
written and not there.
"""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from safetensors import SafetensorError
from torch import Tensor

from accord.errors import InputError
from accord.io.files import read_json, write_json
from accord.io.tensors import read_tensors, write_tensors
from accord.nn.ranks import LOST, LostRank, Ranks, Share

STATE = "state.json"
Stored = tuple[dict[str, Tensor], dict[str, str]]  # tensors by name, and a header of text
Shares = Mapping[str, Share]  # of tensors [R, rows, dim] whose rows are split between processes


def write(path: Path, tensors: Mapping[str, Tensor], header: dict[str, str], shares: Shares, ranks: Ranks) -> None:
    """Write a checkpoint in the place of the one before. Of tensors in `shares`, a process has its own rows."""
    if ranks.size == 1:
        write_tensors(path, tensors, header)
        older = _folders(path)
    else:
        number = 1 + max(
            (int(folder.name.rpartition("-")[2]) for folder in path.parent.glob(f"{path.stem}-at-*")), default=0
        )
        folder = path.with_name(f"{path.stem}-at-{ranks.from_first(number)}")
        _write_rows(folder, tensors, header, shares, ranks)
        older = [path, *(other for other in path.parent.glob(f"{path.stem}-at-*") if other != folder)]
    if ranks.rank == 0:
        remove(older)


def read(path: Path, shares: Shares, ranks: Ranks) -> Stored | None:
    """The latest checkpoint, whoever wrote it; None where there is none."""
    folders = _folders(path)
    if folders:
        return _read_rows(folders[-1], shares, ranks)
    if not path.exists():
        return None
    tensors, header = read_tensors(path)
    for name, share in _known(shares, {name: tensor.shape for name, tensor in tensors.items()}).items():
        tensors[name] = tensors[name][:, share.first : share.first + share.size].clone()
    return tensors, header


def _known(shares: Shares, shapes: Mapping[str, Sequence[int]]) -> Shares:
    """Those of tensors that are here; one of another number of rows is none that we know."""
    return {name: shares[name] for name, shape in shapes.items() if name in shares and shape[1] == shares[name].whole}


def found(folder: Path) -> list[Path]:
    """Every checkpoint in a run folder."""
    return [*folder.glob("checkpoint-*.safetensors"), *folder.glob("checkpoint-*-at-*")]


def remove(paths: list[Path]) -> None:
    for path in paths:
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def _folders(path: Path) -> list[Path]:
    """What several processes have written, the latest last."""
    whole = [folder for folder in path.parent.glob(f"{path.stem}-at-*") if (folder / STATE).exists()]
    return sorted(whole, key=lambda folder: int(folder.name.rpartition("-")[2]))


def _write_rows(
    folder: Path, tensors: Mapping[str, Tensor], header: dict[str, str], shares: Shares, ranks: Ranks
) -> None:
    from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageWriter
    from torch.distributed.checkpoint.state_dict_saver import save

    here = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    shapes = {name: list(tensor.shape) for name, tensor in here.items()}
    for name in here.keys() & shares.keys():
        shapes[name][1] = shares[name].whole
    kinds = {name: str(tensor.dtype).removeprefix("torch.") for name, tensor in here.items()}
    with _with_care(folder):
        writer = HuggingFaceStorageWriter(str(folder), save_distributed=True)
        save(_placed(here, shapes, shares), storage_writer=writer)
    if ranks.rank == 0:
        write_json(folder / STATE, {"header": header, "shapes": shapes, "kinds": kinds})


def _read_rows(folder: Path, shares: Shares, ranks: Ranks) -> Stored:
    from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader
    from torch.distributed.checkpoint.state_dict_loader import load

    state = read_json(folder / STATE)
    shares = _known(shares, state["shapes"])
    here = {}
    for name, (*shape,) in state["shapes"].items():
        if name in shares:
            shape[1] = shares[name].size
        here[name] = torch.empty(shape, dtype=getattr(torch, state["kinds"][name]))
    with _with_care(folder):
        alone = ranks.size == 1
        places = here if alone else _placed(here, state["shapes"], shares)
        load(places, storage_reader=HuggingFaceStorageReader(str(folder)), no_dist=alone)
    return here, state["header"]


def _placed(here: Mapping[str, Tensor], shapes: Mapping[str, list[int]], shares: Shares) -> dict[str, Any]:
    """Rows of a table as what they are: a part of it, whose place in it is known."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import DTensor, Shard

    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    placed: dict[str, Any] = dict(here)
    for name in here.keys() & shares.keys():
        runs, rows, dim = shapes[name]
        size, stride = torch.Size([runs, rows, dim]), (rows * dim, dim, 1)
        placed[name] = DTensor.from_local(here[name], mesh, [Shard(1)], run_check=False, shape=size, stride=stride)
    return placed


@contextmanager
def _with_care(folder: Path) -> Iterator[None]:
    """Without what torch says about its own formats, and with one sentence for what can go wrong."""
    from torch.distributed.checkpoint.api import CheckpointException

    failures: list[BaseException] = []
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except CheckpointException as error:
        failures = [failed for failed, _ in error.failures.values()]
    except (SafetensorError, RuntimeError) as error:
        failures = [error]
    for failed in failures:
        if isinstance(failed, OSError):
            raise failed
        if not isinstance(failed, RuntimeError):
            raise InputError(f"{folder} is damaged ({failed}); train again.") from failed
    if failures:
        raise LostRank(*LOST) from failures[0]
