"""The same seed gives the same bits, in another process, with another number of threads, and on CUDA where asked."""

from __future__ import annotations

import os
import subprocess
import sys

import determinism
import pytest
import torch
from typer.testing import CliRunner

import accord
from accord.cli.app import app
from accord.config import with_declared
from accord.consensus.training import Trained
from accord.errors import InputError
from accord.models import MODELS
from accord.recommender.recommender import Recommender
from accord.training.stack import train_stack
from accord_lab.methods import ALL_METHODS
from helpers import plan_small, small_data

cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")


@pytest.fixture(scope="module")
def clicks():
    """Enough that torch shares its operations out among threads."""
    return accord.simulate(users=200, items=150, interactions=6_000, seed=3).dataset


@pytest.mark.parametrize(
    "case",
    [("neumf", "deca", 1), ("gmf", "deca-p", 3), ("cdae", "normal", 7), ("lightgcn", "tce", 1), ("ease", "normal", 1)],
    ids=str,
)
def test_one_thread_and_two_give_the_same_bits(case, clicks):
    found = []
    for threads in (1, 1, 2):
        torch.set_num_threads(threads)
        try:
            found.append(determinism.trained(clicks, case, "cpu"))
        finally:
            torch.set_num_threads(1)
    assert determinism.same(found[0], found[1]), "with one thread"
    assert determinism.same(found[0], found[2]), "with two"


def test_every_model_and_method_is_trained():
    closed = {"quality", "consensus"}  # parts of what auto finds
    later = {
        "slist",
        "sparse-slist",
        "next-knn",
        "sasrec",
        "softmax",
        "bsl",
        "deca-softmax",
    }  # which came after the campaign
    assert {*determinism.LEARNED, *determinism.CLOSED} == {*with_declared("model", MODELS)} - closed - later
    assert {*determinism.METHODS} == {*ALL_METHODS} - later


def test_a_difference_is_noticed():
    """The campaign's own judgement: other weights, or other weights in the same process, are no repetition."""
    case, parts = ("gmf", "deca", 1), dict.fromkeys(determinism.PARTS, "a")
    same = {"seconds": 1.0, "repeats": True, **parts}
    for other in (same | {"weights": "b"}, same | {"metrics": "b"}, same | {"noise": "b"}):
        assert determinism.verdicts({"x": {case: same}, "y": {case: other}}, ["x", "y"]) == {case: False}
    again = same | {"seconds": 2.0}
    assert determinism.verdicts({"x": {case: same}, "y": {case: again}}, ["x", "y"]) == {case: True}
    assert determinism.verdicts({"x": {case: same | {"repeats": False}}, "y": {case: again}}, ["x", "y"]) == {
        case: False
    }
    assert "**differs**" in determinism.grid("t", {case: False, ("gmf", "deca", 3): True}).rows[0]


def test_the_products_of_any_number_of_threads_unless_the_caller_says_otherwise():
    code = "import accord, os; print(os.environ['MKL_CBWR'])"
    for given, expected in (({}, "AUTO,STRICT"), ({"MKL_CBWR": "AVX2"}, "AVX2")):
        environment = {key: value for key, value in os.environ.items() if key != "MKL_CBWR"} | given
        found = subprocess.run(
            [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
        )
        assert found.stdout.strip() == expected


@pytest.fixture
def as_before(monkeypatch):
    """What is said for the whole process, taken back."""
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG", raising=False)
    yield
    os.environ.pop("CUBLAS_WORKSPACE_CONFIG", None)
    torch.use_deterministic_algorithms(False)
    torch.utils.deterministic.fill_uninitialized_memory = True


@pytest.mark.usefixtures("as_before")
@pytest.mark.parametrize(
    "command",
    [
        ["train", "no-such"],
        ["compare", "no-such"],
        ["audit", "no-such"],
        ["lab", "reproduce", "grid", "--dataset", "no-such"],
    ],
)
def test_deterministic_is_said_before_anything_runs(command):
    found = CliRunner().invoke(app, [*command, "--deterministic"])
    assert isinstance(found.exception, InputError)
    assert torch.are_deterministic_algorithms_enabled()
    assert os.environ["CUBLAS_WORKSPACE_CONFIG"] == ":4096:8"


@cuda
def test_deterministic_training_on_cuda_repeats_to_the_bit():
    wanted = [(model, method, 3) for model in determinism.LEARNED for method in ("normal", "tce", "deca-p")]
    names = ("deterministic", "deterministic, again")
    found = {name: determinism.run_worker("cuda", name, wanted, False) for name in names}
    good = determinism.verdicts(found, list(names))
    assert all(good.values()), [case for case, same in good.items() if not same]


@cuda
@pytest.mark.usefixtures("as_before")
@pytest.mark.parametrize("method", determinism.METHODS)
@pytest.mark.parametrize("model", determinism.LEARNED)
def test_every_operation_has_a_deterministic_form_on_cuda(model, method):
    """torch raises where it has none. Trained, ranked and judged, one after the other in this process."""
    accord.deterministic()
    for protocol in ("corrected", "published"):
        run = plan_small(model, method, (3, 5), protocol=protocol, epochs=3)
        trained, states = train_stack(small_data(), run, torch.device("cuda"))
        made = Recommender.of_training(Trained(run, trained, states), small_data())
        assert made.recommend(k=5).num_rows
        assert made.beliefs(small_data().train).num_rows
