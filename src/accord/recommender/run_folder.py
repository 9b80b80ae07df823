"""A run folder is a file from anywhere: what must be true of it before anything is made of it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from torch import Tensor, nn

from accord.data.csr import Csr
from accord.data.interactions import IdMap, Interactions
from accord.errors import InputError
from accord.io.files import own_file, read_json, read_table
from accord.io.tensors import not_finite, read_tensors
from accord.methods.base import Method
from accord.models import MODELS
from accord.models.base import Model
from accord.training.run import RunConfig, RunSpec

Figures = dict[str, float]
REFIT = "refit.safetensors"  # weights of the run fitted again on the whole log


class _Said(BaseModel):
    """More may be there than is asked for."""

    model_config = ConfigDict(extra="allow", strict=True)


class _Data(_Said):
    name: str
    users: int
    items: int
    train: int
    valid: int
    test: int
    notes: list[str] = []


class _Group(_Said):
    users: int
    mean: Figures


class _Entry(_Said):
    seed: int
    metrics: Figures
    epochs: int
    train_seconds: float
    valid_ndcg: float | None = Field(None, alias="valid_ndcg@20")


class _Metrics(_Said):
    """What metrics.json says."""

    accord: str
    dataset: _Data
    model: str
    method: str
    protocol: dict[str, str | int | bool]
    runs: list[_Entry]
    mean: Figures
    std: Figures
    groups: dict[str, _Group]
    seconds: Figures
    device: str


@contextmanager
def as_sentences(folder: Path) -> Iterator[None]:
    """Whatever a folder's files bring about ends in one sentence about the folder."""
    try:
        yield
    except InputError:
        raise
    except (LookupError, TypeError, ValueError, RuntimeError, AssertionError, pa.ArrowException) as error:
        what = f"{type(error).__name__}: {error}".splitlines()[0]
        raise InputError(f"{folder} is not a complete run folder ({what}); train again.") from None


def read_metrics(path: Path, runs: int) -> dict[str, Any]:
    """metrics.json, of so many runs."""
    content: dict[str, Any] = read_json(path)
    try:
        if len(_Metrics.model_validate(content).runs) != runs:
            raise damaged(path, "it is of another number of runs")
    except ValidationError as error:
        first = error.errors()[0]
        raise damaged(path, f"{'.'.join(map(str, first['loc'])) or 'all of it'}: {first['msg']}") from None
    return content


def read_ids(path: Path, column: str) -> tuple[IdMap, pa.Table]:
    """The ids of a table, each once, and the table."""
    table = read_table(path)
    if column not in table.column_names or table.schema.field(column).type not in (pa.int64(), pa.string()):
        raise damaged(path, f"it has no column of {column} ids")
    ids = table.column(column).combine_chunks()
    if not len(ids) or ids.null_count or len(pc.unique(ids)) < len(ids):
        raise damaged(path, f"its {column} ids are not all there, each once")
    return IdMap(ids), table


def read_pairs(path: Path, users: IdMap, items: IdMap) -> Interactions:
    """Pairs whose users and items are known."""
    table = read_table(path)
    if table.column_names[:2] != ["user", "item"]:
        raise damaged(path, "it has no users and items")
    pairs = Interactions(table)
    if any(len(rows) and rows.min() < 0 for rows in pairs.rows_in(users, items)):
        raise damaged(path, "it has ids that the run has no rows for")
    return pairs


def read_method(path: Path, run: RunSpec, train: Csr, users: IdMap, items: IdMap) -> Method:
    """The trained method of a run from the file of its weights."""
    tensors = read_weights(path, run.config, users, items)
    built = run.build(train)
    require_same(path, tensors, built)
    built.load_state_dict(tensors)
    return built


def read_weights(path: Path, config: RunConfig, users: IdMap, items: IdMap) -> dict[str, Tensor]:
    """Weights that are numbers, and no fewer than a network of this config has: it is built only then."""
    tensors, _ = read_tensors(path)
    own = MODELS.get(config.model)
    least = 0 if own is None else own.least_numbers(config.model_options, len(config.seeds), len(users), len(items))
    if sum(map(Tensor.numel, tensors.values())) < least:
        raise of_another_model(path)
    if bad := not_finite(tensors):
        raise damaged(path, f"{bad} has numbers that are not finite")
    return tensors


def require_same(path: Path, tensors: Mapping[str, Tensor], network: nn.Module) -> None:
    """Whether tensors are of the names, shapes and kinds that a network has; it makes room where they say how much."""
    for place, model in network.named_modules():
        if isinstance(model, Model):
            inside = f"{place}." if place else ""
            own = {name.removeprefix(inside): t for name, t in tensors.items() if name.startswith(inside)}
            try:
                model.make_room(own)
            except (KeyError, ValueError, RuntimeError) as error:
                raise damaged(path, str(error)) from None
    given = (network.state_dict(), tensors)
    wanted, found = ({name: (t.shape, t.dtype) for name, t in each.items()} for each in given)
    if wanted != found:
        raise of_another_model(path)


def read_log(path: Path) -> list[dict[str, Any]]:
    """log.jsonl; none is as good as an empty one."""
    if not path.exists():
        return []
    try:
        return [json.loads(line) for line in own_file(path).read_text(encoding="utf-8").splitlines()]
    except (ValueError, RecursionError) as error:
        raise damaged(path, str(error)) from None


def damaged(path: Path, why: str) -> InputError:
    return InputError(f"{path} is damaged ({why}); train again.")


def of_another_model(path: Path) -> InputError:
    return InputError(f"{path} is of another model than config.json says; train again.")
