"""A run folder is a file from anywhere: whatever is wrong with it is one sentence about the file."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from accord.errors import InputError
from accord.io.tensors import read_tensors, write_tensors
from accord.recommender import run_folder
from accord.recommender.recommender import Recommender


@pytest.fixture
def copied(run: Path, tmp_path: Path) -> Path:
    """A run folder to damage."""
    return Path(shutil.copytree(run, tmp_path / "copy"))


def refused(folder: Path, sentence: str) -> None:
    with pytest.raises(InputError) as found:
        Recommender.load(folder)
    assert str(found.value).startswith(sentence), str(found.value)
    assert "\n" not in str(found.value)


def test_a_folder_that_is_not_there(tmp_path):
    refused(tmp_path / "gone", f"{tmp_path / 'gone'} is not a run folder: there is no such folder.")


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"runs": []}, "it is of another number of runs"),
        ({"model": 3}, "model: Input should be a valid string"),
        ({"mean": {"recall@5": "high"}}, "mean.recall@5: Input should be a valid number"),
        ({"groups": {"warm": {"users": 3}}}, "groups.warm.mean: Field required"),
    ],
)
def test_metrics_that_are_none(copied, change, why):
    path = copied / "metrics.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    refused(copied, f"{path} is damaged ({why}); train again.")


def test_metrics_may_say_more_than_is_asked_for(copied):
    path = copied / "metrics.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"colour": "red"}))
    assert Recommender.load(copied).metrics["colour"] == "red"


@pytest.mark.parametrize(
    ("ids", "why"),
    [
        (pa.table({"name": ["a"]}), "it has no column of user ids"),
        (pa.table({"user": [1.5]}), "it has no column of user ids"),
        (pa.table({"user": ["a", "a"]}), "its user ids are not all there, each once"),
        (pa.table({"user": ["a", None]}), "its user ids are not all there, each once"),
        (pa.table({"user": pa.array([], pa.string())}), "its user ids are not all there, each once"),
    ],
)
def test_ids_that_are_none(copied, ids, why):
    pq.write_table(ids, copied / "users.parquet")
    refused(copied, f"{copied / 'users.parquet'} is damaged ({why}); train again.")


def test_test_pairs_of_somebody_unknown(copied):
    test = pq.read_table(copied / "test.parquet").slice(0, 1)
    stranger = test.set_column(0, "user", pa.array(["nobody"]))
    pq.write_table(stranger, copied / "test.parquet")
    refused(copied, f"{copied / 'test.parquet'} is damaged (it has ids that the run has no rows for); train again.")
    pq.write_table(test.rename_columns(["item", "user"]), copied / "test.parquet")
    refused(copied, f"{copied / 'test.parquet'} is damaged (it has no users and items); train again.")


def test_weights_of_another_model(copied):
    path = copied / "model.safetensors"
    tensors, header = read_tensors(path)
    (name, tensor) = next((n, t) for n, t in tensors.items() if n.endswith("item.weight"))
    for other in (tensor[:, :-1], tensor.double(), torch.cat([tensor, tensor])):
        write_tensors(path, tensors | {name: other.contiguous()}, header)
        refused(copied, f"{path} is of another model than config.json says; train again.")
    write_tensors(path, {**tensors, "more": tensor.clone()}, header)
    refused(copied, f"{path} is of another model than config.json says; train again.")


def test_weights_that_are_no_numbers(copied):
    path = copied / "model.safetensors"
    tensors, header = read_tensors(path)
    next(iter(tensors.values()))[0, 0, 0] = float("nan")
    write_tensors(path, tensors, header)
    refused(copied, f"{path} is damaged (target.")


def test_a_config_of_a_far_larger_model_is_refused_before_it_is_built(copied):
    path = copied / "config.json"
    content = json.loads(path.read_text())
    content["model_options"]["dim"] = 2**14
    path.write_text(json.dumps(content))
    refused(copied, f"{copied / 'model.safetensors'} is of another model than config.json says; train again.")


def test_a_log_may_be_missing_but_not_damaged(copied):
    (copied / "log.jsonl").write_text('{"epoch": 1}\n{"epoch"\n')
    refused(copied, f"{copied / 'log.jsonl'} is damaged (")
    (copied / "log.jsonl").unlink()
    assert Recommender.load(copied).history == []


@pytest.mark.parametrize("error", [KeyError("x"), RuntimeError("two\nlines"), AssertionError(), pa.ArrowInvalid("bad")])
def test_whatever_else_is_wrong_is_one_sentence_about_the_folder(error, tmp_path):
    told = r"is not a complete run folder \("
    with pytest.raises(InputError, match=told) as found, run_folder.as_sentences(tmp_path):
        raise error
    assert f"({type(error).__name__}: " in str(found.value)
    assert str(found.value).endswith("); train again.")
    assert "\n" not in str(found.value)
    with pytest.raises(InputError, match=r"^as it is$"), run_folder.as_sentences(tmp_path):
        raise InputError("as it is")
    with pytest.raises(MemoryError), run_folder.as_sentences(tmp_path):
        raise MemoryError
