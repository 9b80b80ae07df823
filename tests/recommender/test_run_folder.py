"""A run folder is a file from anywhere: whatever is wrong with it is one sentence about the file."""

from __future__ import annotations

import hashlib
import json
import shutil
from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

import accord
from accord.data.interactions import IdMap, Interactions
from accord.errors import InputError
from accord.fitting import fit
from accord.io.tensors import read_tensors, write_tensors
from accord.models import LEARNED
from accord.recommender import run_folder
from accord.recommender.recommender import Recommender
from accord.recommender.run_folder import read_evaluation, read_outside, read_seen, write_seen
from accord.training.run import RunSpec
from helpers import make_model, small_data, timed_csr


@pytest.fixture
def copied(run: Path, tmp_path: Path) -> Path:
    """A run folder as 0.1.0 wrote it, without a manifest, to damage."""
    folder = Path(shutil.copytree(run, tmp_path / "copy"))
    (folder / run_folder.MANIFEST).unlink()
    return folder


def refused(folder: Path, sentence: str) -> None:
    with pytest.raises(InputError) as found:
        Recommender.load(folder)
    assert str(found.value).startswith(sentence), str(found.value)
    assert "\n" not in str(found.value)


# --- the manifest


@pytest.fixture(scope="module")
def other(run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same data and settings with another seed: every file of it fits into the run, and is of another one."""
    folder = tmp_path_factory.mktemp("other") / "run"
    fit(small_data(), "mf", "normal", seeds=[7], epochs=1, options={"model.dim": 4}, out=folder)
    return folder


@pytest.fixture
def whole(run: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(run, tmp_path / "whole"))


@pytest.mark.parametrize("name", ["metrics.json", "model.safetensors", "config.json"])
def test_a_file_of_another_run_is_refused(whole, other, name):
    shutil.copy(other / name, whole / name)
    refused(whole, f"{whole / name} is not the file that this run was saved with")


def test_ids_in_another_order_and_seen_pairs_that_are_gone_are_refused(whole):
    users = pq.read_table(whole / "users.parquet")
    pq.write_table(users.take(list(reversed(range(len(users))))), whole / "users.parquet")
    refused(
        whole,
        f"{whole / 'users.parquet'} is not the file that this run was saved with, as manifest.json tells: it is of "
        "another run, or was changed or only partly copied; copy the whole folder again, or train again.",
    )


def test_a_manifest_names_every_file_with_its_size_and_hash(whole):
    said = json.loads((whole / "manifest.json").read_text())["files"]
    assert set(said) == {path.name for path in whole.iterdir()} - {"manifest.json"}
    for name, sums in said.items():
        content = (whole / name).read_bytes()
        assert sums == {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    (whole / "manifest.json").write_text(json.dumps({"files": {"config.json": said["config.json"]}}))
    refused(whole, f"{whole / 'manifest.json'} is damaged (it does not name every file of a run)")
    (whole / "manifest.json").write_text("[]")
    refused(whole, f"{whole / 'manifest.json'} is damaged")


def test_without_a_manifest_what_contradicts_itself_is_refused(copied, other):
    metrics = copied / "metrics.json"
    shutil.copy(other / "metrics.json", metrics)
    refused(copied, f"{metrics} is damaged (it is of runs with other seeds than config.json says); train again.")
    content = json.loads(metrics.read_text())
    metrics.write_text(json.dumps(content | {"method": "deca"}))
    refused(copied, f"{metrics} is damaged (it is of mf + deca, and config.json of another run); train again.")
    shutil.copy(other / "config.json", copied / "config.json")
    shutil.copy(other / "metrics.json", metrics)
    seen = pq.read_table(copied / "seen.parquet")
    pq.write_table(seen.slice(0, 0), copied / "seen.parquet")
    refused(copied, f"{copied / 'seen.parquet'} is damaged (it has no training pairs, and metrics.json says ")


@pytest.mark.parametrize("figure", ["NaN", "Infinity", "-Infinity"])
def test_a_figure_that_is_no_number_is_refused(copied, figure):
    path = copied / "metrics.json"
    content = json.loads(path.read_text())
    first = next(iter(content["mean"]))
    path.write_text(json.dumps(content | {"mean": content["mean"] | {first: float(figure)}}))
    refused(copied, f"{path} is damaged (mean.{first}: Input should be a finite number); train again.")


@pytest.mark.parametrize(
    "line", ['{"epoch": 1}', '{"stage": "1/1", "epoch": "x"}', "[1]", '{"stage":"1/1","epoch":1,"loss":{}}']
)
def test_a_log_of_another_shape_is_refused(copied, line):
    (copied / "log.jsonl").write_text(line + "\n")
    refused(copied, f"{copied / 'log.jsonl'} is damaged (")


@pytest.mark.parametrize("name", ["metrics.json", "config.json"])
def test_half_of_a_surrogate_pair_is_refused(copied, name):
    path = copied / name
    path.write_text(path.read_text().replace("mf", "\\ud800", 1))
    refused(copied, f"{path} is damaged (")


def test_far_too_many_values_of_k_are_refused(copied):
    path = copied / "config.json"
    content = json.loads(path.read_text())
    path.write_text(json.dumps(content | {"ks": list(range(1, 5001))}))
    refused(copied, f"{path} is not the config of a run (")


# --- files one by one


def test_a_folder_that_is_not_there(tmp_path):
    gone = tmp_path / "gone"
    refused(gone, f"{gone} is not a run folder: there is no such folder; give a folder that a training wrote.")
    gone.touch()
    refused(gone, f"{gone} is not a run folder: it is a file; give a folder that a training wrote.")


def test_a_folder_without_a_run_is_told_from_one_that_was_interrupted(tmp_path):
    refused(tmp_path, f"{tmp_path} is not a run folder: it has no config.json; give a folder that a training wrote.")
    (tmp_path / "checkpoint-main").mkdir()
    refused(tmp_path, f"{tmp_path} holds an interrupted training; run its command again with resume=True.")


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"runs": []}, "it is of another number of runs"),
        ({"model": 3}, "model: Input should be a valid string"),
        ({"mean": {"recall@5": "high"}}, "mean.recall@5: Input should be a valid number"),
        ({"groups": {"warm": {"users": 3}}}, "groups.warm.mean: Field required"),
        ({"members": [{"model": "ease", "weight": "much"}]}, "members.0.weight: Input should be a valid number"),
        (
            {"members": [{"model": "ease", "test_ndcg@20": "high"}]},
            "members.0.test_ndcg@20: Input should be a valid number",
        ),
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


def test_a_config_of_a_far_larger_model_is_refused_before_it_is_built(copied, monkeypatch):
    monkeypatch.delattr(RunSpec, "build")
    path = copied / "config.json"
    content = json.loads(path.read_text())
    content["model_options"]["dim"] = 2**14
    path.write_text(json.dumps(content))
    refused(copied, f"{copied / 'model.safetensors'} is of another model than config.json says; train again.")


@pytest.mark.parametrize("users", [3, 900])
@pytest.mark.parametrize(
    ("model", "options"),
    [
        *((model.name, {}) for model in LEARNED),
        ("cdae", {"user_vectors": False, "item_bias": True, "scores": "cosine"}),
    ],
)
def test_no_model_is_taken_for_another_by_the_shape_of_its_log(model, options, users):
    made = make_model(model, timed_csr(users, 30, 0.3), (1, 2), dim=4, **options)
    least = type(made).least_numbers({"dim": 4, **options}, 2, users, 30)
    assert least <= sum(tensor.numel() for tensor in made.state_dict().values())


def test_figures_without_their_weights_are_those_of_the_run(tmp_path):
    made = fit(small_data(), "popularity", device="cpu", out=tmp_path)
    assert {run_folder.EVALUATION, run_folder.REFIT} < {file.name for file in tmp_path.iterdir()} - {run_folder.MODEL}
    assert Recommender.load(tmp_path).evaluate().mean() == made.evaluate().mean()


def test_a_log_may_be_missing_but_not_damaged(copied):
    (copied / "log.jsonl").write_text('{"epoch": 1}\n{"epoch"\n')
    refused(copied, f"{copied / 'log.jsonl'} is damaged (Expecting ")
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


def test_a_run_folder_keeps_the_values_that_training_was_not_told(simulation, tmp_path):
    data, folder = simulation.dataset, tmp_path / "run"
    accord.fit(data, "popularity", out=folder)
    again = accord.Recommender.load(folder).trained_on
    assert again.table.select(["user", "item"]).equals(data.train.table.select(["user", "item"]))
    assert (again.column("value") == simulation.is_real).all()
    assert again.source_name("value") == data.train.source_name("value")


USERS, ITEMS = IdMap(pa.array(["a", "b", "c"])), IdMap(pa.array([10, 20, 30, 40]))


def parts(**columns):
    """Three training pairs with columns, and a validation pair without."""
    train = Interactions.of(pa.array(["a", "a", "c"]), pa.array([10, 30, 40]), **columns)
    return {"train": train, "valid": Interactions.of(pa.array(["b"]), pa.array([20]))}


@pytest.mark.parametrize("at_once", [1, 2, 100])
def test_pairs_and_their_columns_come_back(at_once, tmp_path, monkeypatch):
    monkeypatch.setattr(run_folder, "ROWS_AT_ONCE", at_once)
    path = tmp_path / "seen.parquet"
    write_seen(path, parts(value=[4.0, 5.0, 1.0], time=[2**60 + 1, 3, 2**60], weight=[0.5, 0.0, 2.0]), USERS, ITEMS)
    found = read_seen(path, USERS, ITEMS)
    train, valid = found["train"], found["valid"]
    assert (train.users.to_pylist(), train.items.to_pylist()) == (["a", "a", "c"], [10, 30, 40])
    assert train.column("value").tolist() == [4, 5, 1]
    assert train.column("weight").tolist() == [0.5, 0, 2]
    assert train.column("time").tolist() == [2**60 + 1, 3, 2**60]
    assert (valid.users.to_pylist(), valid.items.to_pylist()) == (["b"], [20])
    write_seen(path, parts(label=pa.array([1.0, None, 0.0])), USERS, ITEMS)
    assert read_seen(path, USERS, ITEMS)["train"].table.column("label").to_pylist() == [1.0, None, 0.0]
    assert pq.read_table(path).column("part").to_pylist() == ["train"] * 3 + ["valid"]


def test_what_was_not_there_does_not_appear(tmp_path):
    write_seen(tmp_path / "seen.parquet", parts(), USERS, ITEMS)
    assert pq.read_schema(tmp_path / "seen.parquet").names == ["user", "item", "part"]
    assert "weight" not in read_seen(tmp_path / "seen.parquet", USERS, ITEMS)["train"].names


def test_without_validation_there_is_an_empty_part(tmp_path):
    given = parts()
    write_seen(tmp_path / "seen.parquet", given | {"valid": given["valid"].slice(0, 0)}, USERS, ITEMS)
    found = read_seen(tmp_path / "seen.parquet", USERS, ITEMS)
    assert (len(found["train"]), len(found["valid"])) == (3, 0)


def test_a_pair_of_somebody_unknown_is_damage(tmp_path):
    write_seen(tmp_path / "seen.parquet", parts(), USERS, ITEMS)
    with pytest.raises(InputError, match=r"seen.parquet is damaged \(it has ids that the run has no rows for\)"):
        read_seen(tmp_path / "seen.parquet", IdMap(pa.array(["a", "b"])), ITEMS)


@pytest.mark.parametrize(
    "table",
    [
        {"user": ["a"], "warm": [True]},
        {"user": ["a"], "warm": [True], "ndcg@20": ["0.5"]},
        {"user": ["a"], "warm": [True], "ndcg@20": [datetime(2026, 1, 1)]},
        {"user": ["a", "nobody"], "warm": [True, True], "ndcg@20": [0.5, 0.5]},
        {"user": ["a"], "warm": [True], "ndcg@20": [float("nan")], "recall@20": [0.5]},
        {"user": ["a"], "warm": [True], "ndcg@20": [0.5], "recall@20": [float("inf")]},
    ],
)
def test_metrics_of_users_that_are_none(table, tmp_path):
    path = tmp_path / "evaluation.parquet"
    pq.write_table(pa.table({"user": ["c", "a"], "warm": [False, True], "ndcg@20": [0.25, 0.5]}), path)
    found = read_evaluation(path, USERS)
    assert (found.users.tolist(), found.warm.tolist()) == ([2, 0], [False, True])
    assert found.mean() == [{"ndcg@20": 0.375}]
    pq.write_table(pa.table({"user": ["c", "a"], "warm": [0, 1], "ndcg@20": [0.25, 0.5]}), path)
    assert read_evaluation(path, USERS).warm.dtype == bool, "it chooses users, and is no list of rows"
    pq.write_table(pa.table(table), path)
    with pytest.raises(InputError, match=r"evaluation.parquet is damaged \(it has no metrics of the run's users\)"):
        read_evaluation(path, USERS)


@pytest.mark.parametrize("columns", [{"label": [0.5, 1.01]}, {"label": [-0.01, 1]}, {"label": [None, 1]}, {}])
def test_labels_outside_the_log_that_are_none(columns, tmp_path):
    path, pairs = tmp_path / "outside.parquet", {"user": ["a", "c"], "item": [30, 10]}
    pq.write_table(pa.table(pairs | {"label": [0.0, 1.0]}), path)
    assert read_outside(path, ["seen.parquet"], USERS, ITEMS) is None, "left over from another run"
    assert read_outside(path, ["outside.parquet"], USERS, ITEMS).column("label").tolist() == [0, 1]
    pq.write_table(pa.table(pairs | columns), path)
    with pytest.raises(InputError, match=r"outside.parquet is damaged \(its labels are not all from 0 to 1\)"):
        read_outside(path, ["outside.parquet"], USERS, ITEMS)
