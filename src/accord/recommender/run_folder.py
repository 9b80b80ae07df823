"""The files of a run folder, read without trusting them: a folder may come from anywhere."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from torch import Tensor

from accord.config import full_name
from accord.data.columns import SAVED
from accord.data.csr import Csr
from accord.data.interactions import IdMap, Interactions
from accord.errors import Argument, InputError
from accord.evaluation.evaluate import Evaluation
from accord.io.files import file_inside, parsed, read_json, write_json
from accord.io.parquet import read_batches, read_table
from accord.io.tensors import NARROWER, narrowed, not_finite, read_tensors, write_tensors
from accord.methods.base import Method
from accord.models import MODELS
from accord.models.base import Model
from accord.models.consensus import Member
from accord.training.run import RunConfig, RunSpec

Checked = TypeVar("Checked", bound=BaseModel)
Figures = dict[str, Annotated[float, Field(allow_inf_nan=False)]]
MODEL = "model.safetensors"  # weights of what was evaluated
REFIT = "refit.safetensors"  # weights of the run fitted again on the whole log
EVALUATION = "evaluation.parquet"  # metrics of every user, where the weights that they are of are not stored
OUTSIDE = "outside.parquet"  # pairs that are not in the log and have a label
MORE = (MODEL, REFIT, EVALUATION, OUTSIDE)  # files that a run may have besides those of all
MANIFEST = "manifest.json"  # 0.1.0 wrote none
FILES = (
    *("config.json", "metrics.json", "log.jsonl"),
    *("users.parquet", "items.parquet", "seen.parquet", "test.parquet"),
)

ROWS_AT_ONCE = 2**22
PARTS = ("train", "valid", "rest")


class _Content(BaseModel):
    """What a file must have; it may have more."""

    model_config = ConfigDict(extra="allow", strict=True)


class _Data(_Content):
    name: str
    users: int
    items: int
    train: int
    valid: int
    test: int
    notes: list[str] = []


class _Group(_Content):
    users: int
    mean: Figures


class _Entry(_Content):
    seed: int
    metrics: Figures
    epochs: int
    train_seconds: float
    valid_ndcg: float | None = Field(None, alias="valid_ndcg@20", allow_inf_nan=False)


class _Judged(Member):
    """A member of a consensus, and what it reaches alone."""

    model_config = ConfigDict(extra="allow", strict=True)

    valid_ndcg: float | None = Field(None, alias="valid_ndcg@20", allow_inf_nan=False)
    test_ndcg: float | None = Field(None, alias="test_ndcg@20", allow_inf_nan=False)


class _NewItems(_Content):
    items: int
    users: int
    recall: Figures = Field(alias="recall@20")
    others: Figures


class _Metrics(_Content):
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
    members: list[_Judged] = []
    refit: dict[str, Any] = {}
    new_items: _NewItems | None = None


class _Epoch(_Content):
    """A line of log.jsonl; of a run that diverged, figures are null or no numbers."""

    stage: str
    epoch: int
    loss: list[float | None] | None = None
    valid: list[float | None] | None = None


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


def require_finished(folder: Path) -> None:
    """Whether a training ended here; if not, whether one began."""
    if not folder.is_dir():
        why = "it is a file" if folder.exists() else "there is no such folder"
        raise InputError(f"{folder} is not a run folder: {why}; give a folder that a training wrote.")
    there = [name for name in (*FILES, MODEL, MANIFEST) if (folder / name).exists()]
    if "config.json" not in there and any(folder.glob("checkpoint-*")):
        why = f"{folder} holds an interrupted training; run its command again with "
        raise InputError(why, Argument("resume", True), ".")
    if not there:
        raise InputError(f"{folder} is not a run folder: it has no config.json; give a folder that a training wrote.")


def write_manifest(folder: Path) -> None:
    """The size and sha256 of every file of a run, so that parts of two runs are never taken for one."""
    there = [name for name in (*FILES, *MORE) if (folder / name).exists()]
    write_json(folder / MANIFEST, {"files": {name: _sum(folder / name) for name in there}})


def check_manifest(folder: Path) -> Collection[str]:
    """The files, which are those that were saved together; none where a folder does not tell."""
    if not (folder / MANIFEST).exists():
        return ()
    content = read_json(folder / MANIFEST)
    listed = content.get("files") if isinstance(content, dict) else None
    if not isinstance(listed, dict) or set(FILES).difference(listed) or {MODEL, EVALUATION}.isdisjoint(listed):
        raise damaged(folder / MANIFEST, "it does not name every file of a run")
    for name in (name for name in (*FILES, *MORE) if name in listed):
        if _sum(file_inside(folder / name)) != listed[name]:
            raise InputError(
                f"{folder / name} is not the file that this run was saved with, as {MANIFEST} tells: it is of "
                "another run, or was changed or only partly copied; copy the whole folder again, or train again."
            )
    return listed.keys()


def _sum(path: Path) -> dict[str, Any]:
    with path.open("rb") as file:
        return {"bytes": path.stat().st_size, "sha256": hashlib.file_digest(file, "sha256").hexdigest()}


def refit_alone(metrics: Mapping[str, Any]) -> bool:
    """Whether a run folder has the weights that recommend, and not those that were evaluated."""
    return bool(metrics.get("refit", {}).get("alone"))


def write_methods(folder: Path, method: Method, final: Method | None, metrics: Mapping[str, Any]) -> None:
    """Write the weights of what was evaluated, and of what was fitted again; or of this alone."""
    for name, one in ((MODEL, None if refit_alone(metrics) else method), (REFIT, final)):
        if one is not None:
            write_tensors(folder / name, {key: narrowed(tensor) for key, tensor in one.state_dict().items()})


def remove_others(folder: Path) -> None:
    listed = read_json(folder / MANIFEST)["files"]
    for name in set(MORE) - set(listed):
        (folder / name).unlink(missing_ok=True)


def read_metrics(path: Path, config: RunConfig) -> dict[str, Any]:
    content: dict[str, Any] = read_json(path)
    metrics = _checked(path, _Metrics, content)
    if len(metrics.runs) != len(config.seeds):
        raise damaged(path, "it is of another number of runs")
    if (metrics.model, metrics.method) != (config.model, config.method or "none"):
        raise damaged(path, f"it is of {full_name(metrics.model, metrics.method)}, and config.json of another run")
    if [run.seed for run in metrics.runs] != list(config.seeds):
        raise damaged(path, "it is of runs with other seeds than config.json says")
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
    table = read_table(path)
    if table.column_names[:2] != ["user", "item"]:
        raise damaged(path, "it has no users and items")
    pairs = Interactions(table)
    if any(len(rows) and rows.min() < 0 for rows in pairs.rows_in(users, items)):
        raise damaged(path, "it has ids that the run has no rows for")
    return pairs


def read_outside(path: Path, listed: Collection[str], users: IdMap, items: IdMap) -> Interactions | None:
    """Pairs outside the log and their labels, if the file is of the run."""
    if path.name not in listed:
        return None
    pairs = read_pairs(path, users, items)
    label = pairs.column("label") if "label" in pairs.names else np.array([np.nan])
    if not ((label >= 0) & (label <= 1)).all():
        raise damaged(path, "its labels are not all from 0 to 1")
    return pairs


def write_seen(path: Path, parts: Mapping[str, Interactions], users: IdMap, items: IdMap) -> None:
    """Write pairs under the caller's ids, each with the part that it belongs to."""
    types = {"user": users.ids.type, "item": items.ids.type} | dict.fromkeys(SAVED, pa.float64())
    times = {part.rows.schema.field("time").type for part in parts.values() if "time" in part.names}
    types["time"] = pa.int64() if times == {pa.int64()} else pa.float64()
    train = parts["train"].rows.schema
    fields = [train.field(name).with_type(kind) for name, kind in types.items() if name in train.names]
    schema = pa.schema([*fields, ("part", pa.dictionary(pa.int32(), pa.string()))])
    with pq.ParquetWriter(path, schema) as writer:
        for part in (name for name in PARTS if name in parts):
            for start in range(0, len(parts[part]), ROWS_AT_ONCE):
                rows = parts[part].slice(start, ROWS_AT_ONCE).table
                columns = [
                    rows.column(field.name) if field.name in rows.column_names else pa.nulls(len(rows), field.type)
                    for field in fields
                ]
                marks = pa.DictionaryArray.from_arrays(np.zeros(len(rows), np.int32), pa.array([part]))
                writer.write_table(pa.table([*columns, marks], schema.names).cast(schema, safe=False))


def read_seen(path: Path, users: IdMap, items: IdMap) -> dict[str, Interactions]:
    """Read the pairs of each part. Ids become rows at once, of four bytes each."""
    batches: dict[str, list[pa.RecordBatch]] = {part: [] for part in PARTS}
    for batch in read_batches(path, {"user", "item", "part"}):
        rows = batch.select([name for name in ("user", "item", *SAVED) if name in batch.schema.names])
        for place, ids in enumerate((users, items)):
            column = ids.rows(rows.column(place))
            if len(column) and column.min() < 0:
                raise damaged(path, "it has ids that the run has no rows for")
            rows = rows.set_column(place, rows.schema.names[place], pa.array(column, pa.int32()))
        part_names = batch.column("part").cast(pa.string())
        for part, selected in batches.items():
            selected.append(rows.filter(pc.equal(part_names, part)))
    return {
        part: Interactions(pa.Table.from_batches(rows).combine_chunks(), (users, items))
        for part, rows in batches.items()
    }


def read_method(path: Path, run: RunSpec, train: Csr, users: IdMap, items: IdMap) -> Method:
    """The trained method of a run from the file of its weights: finite numbers, of the names, shapes and types that a
    network of its config has."""
    (tensors, _), config = read_tensors(path), run.config
    of_another_model = InputError(f"{path} is of another model than config.json says; train again.")
    kind = MODELS.get(config.model)
    least = 0 if kind is None else kind.least_numbers(config.model_options, len(config.seeds), len(users), len(items))
    if sum(map(Tensor.numel, tensors.values())) < least:  # before a network is built that may not fit into memory
        raise of_another_model
    if bad := not_finite(tensors):
        raise damaged(path, f"{bad} has numbers that are not finite")
    method = run.build(train)
    for place, model in method.named_modules():
        if isinstance(model, Model):  # it makes room where the tensors say how much
            prefix = f"{place}." if place else ""
            try:
                model.make_room(
                    {name.removeprefix(prefix): t for name, t in tensors.items() if name.startswith(prefix)}
                )
            except (KeyError, ValueError, RuntimeError) as error:
                raise damaged(path, str(error)) from None
    made = method.state_dict()
    tensors = {
        n: t.to(made[n].dtype) if n in made and t.dtype in NARROWER.get(made[n].dtype, ()) else t
        for n, t in tensors.items()
    }
    expected, given = ({n: (t.shape, t.dtype) for n, t in each.items()} for each in (made, tensors))
    if expected != given:
        raise of_another_model
    method.load_state_dict(tensors)
    return method


def read_evaluation(path: Path, users: IdMap) -> Evaluation:
    table = read_table(path)
    names = [one.name for one in table.schema if "@" in one.name and one.type == pa.float64()]
    rows = users.rows(table.column("user"))
    values = {name: np.asarray(table.column(name))[None] for name in names}
    if not names or (len(rows) and rows.min() < 0) or not all(np.isfinite(each).all() for each in values.values()):
        raise damaged(path, "it has no metrics of the run's users")
    return Evaluation(rows, values, np.asarray(table.column("warm"), dtype=bool))


def read_log(path: Path) -> list[dict[str, Any]]:
    """log.jsonl; none is as good as an empty one."""
    if not path.exists():
        return []
    try:
        entries = [parsed(line) for line in file_inside(path).read_bytes().decode().splitlines()]
    except (ValueError, RecursionError) as error:
        raise damaged(path, str(error)) from None
    for entry in entries:
        _checked(path, _Epoch, entry)
    return entries


def _checked(path: Path, kind: type[Checked], content: Any) -> Checked:
    try:
        return kind.model_validate(content)
    except ValidationError as error:
        first = error.errors()[0]
        raise damaged(path, f"{'.'.join(map(str, first['loc'])) or 'an entry'}: {first['msg']}") from None


def damaged(path: Path, why: str) -> InputError:
    return InputError(f"{path} is damaged ({why}); train again.")
