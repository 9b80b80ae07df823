"""One training on several ranks: it is what one process gives, moves no user's row, and survives the loss of a rank."""

from __future__ import annotations

import importlib
import json
import shutil
import signal
import subprocess
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch

import accord
import rank_worker
from accord.errors import InputError
from accord.io.files import only_writer
from accord.io.tensors import read_tensors
from accord.nn.layers import shared_out
from accord.nn.ranks import ALONE, LOST, SeveralRanks, _share_gpus
from accord.recommender.recommender import Recommender
from accord.training import checkpoints
from helpers import finish, plan_small, small_data, start_ranks

CASES = [
    *({"model": m, "method": k} for m in ("mf", "gmf", "neumf", "cdae") for k in ("normal", "deca", "deca-p")),
    *({"model": "gmf", "method": method} for method in ("wbpr", "rce", "ensemble")),
    {"model": "gmf", "method": "deca", "seeds": 3, "batch": 43},  # the last batch has one pair, so two ranks have none
    {"model": "cdae", "method": "deca", "seeds": 2, "batch": 59},
    {"model": "gmf", "method": "deca-p", "protocol": "published", "options": {"train.pretrain_early_stop": False}},
    {"model": "cdae", "method": "normal", "options": {"protocol.cdae_negatives": "cells"}, "batch": 9},
    *({"model": m, "method": "deca-p", "large": 10} for m in ("mf", "gmf", "neumf")),  # item tables are shared out too
    {"model": "gmf", "method": "deca", "large": 10, "seeds": 3, "batch": 43},
    {"model": "neumf", "method": "deca", "large": 10, "protocol": "published"},
    {"model": "lightgcn", "method": "deca"},
    {"model": "lightgcn", "method": "deca-p", "seeds": 2, "batch": 43, "protocol": "published"},
    {"model": "gmf", "method": "deca", "options": {"protocol.optimiser": "decoupled"}},
    {"model": "neumf", "method": "deca-p", "large": 10, "options": {"protocol.optimiser": "decoupled"}},
    {"model": "mf", "method": "normal", "epochs": 30, "options": {"train.patience": 1, "train.lr": 0.1}},  # stops early
]  # fmt: skip
RANKS = 3
BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What three ranks made of every case."""
    place = tmp_path_factory.mktemp("ranks")
    (place / "cases.json").write_text(json.dumps(CASES))
    for code, said in finish(start_ranks(RANKS, "python", rank_worker.__file__, place)):
        assert code == 0, said
    return place


@pytest.fixture
def in_float64():
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def name(case: dict[str, Any]) -> str:
    return " ".join(str(value) for value in case.values())


@pytest.mark.usefixtures("in_float64")
@pytest.mark.parametrize("case", CASES, ids=name)
def test_ranks_give_what_one_process_gives(case, folder):
    """The loss of every epoch, every check, the test's figures and every weight."""
    number = CASES.index(case)
    found = json.loads((folder / f"{RANKS}-{number}.json").read_text())
    alone = rank_worker.trained(case)
    expected = rank_worker.found(alone)
    assert len(found["history"]) == len(expected["history"])
    for mine, one in zip(found["history"], expected["history"], strict=True):
        assert mine["loss"] == pytest.approx(one["loss"], abs=2e-6)  # as the log rounds them
        assert mine["valid"] == (one["valid"] and pytest.approx(one["valid"], abs=2e-6))
    assert found["test"] == pytest.approx(expected["test"], abs=1e-12)
    weights, _ = read_tensors(folder / f"{RANKS}-{number}.safetensors")
    for key, tensor in alone.method.state_dict().items():
        torch.testing.assert_close(weights[key], tensor, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("case", CASES[:12], ids=name)
def test_no_user_row_moves_in_training(case, folder):
    """What torch.distributed was given, seen from outside: gradients of what all ranks hold, and single figures."""
    found = json.loads((folder / f"{RANKS}-{CASES.index(case)}.json").read_text())
    method = plan_small(case["model"], case["method"], (1,)).build(small_data().csr(small_data().train))
    by_user = shared_out(method)
    shared = {key: p.numel() for key, p in method.named_parameters() if key not in by_user}
    assert sorted(by_user) == found["by_user"]
    figures = {"loss", "diverged", "validation", "how many numbers are drawn"}
    at_the_end = {"test figures", "length of test figures", *by_user, *(f"length of {key}" for key in by_user)}
    assert set(found["sent"]) <= shared.keys() | figures | at_the_end
    calls = [(call, shape) for call, shape in found["shapes"]]
    sums = [place for place, (call, _) in enumerate(calls) if call == "all_reduce"]
    rows = [place for place, (call, _) in enumerate(calls) if call == "gather"]
    assert len(rows) == len(by_user) + 1, "each table once, and the test's figures"
    assert max(sums) < min(rows), "when all steps are taken, to be written down"
    assert max(calls[place][1][0] for place in sums) <= sum(shared.values())
    gathered = {tuple(shape) for call, shape in calls if call == "all_gather"}
    assert gathered <= {(1,)}, "how many numbers are drawn, and lengths"


def test_bytes_are_counted(folder):
    """MF's item table goes twice round the ring in every step: 4 bytes an element."""
    case = CASES[0]
    found = json.loads((folder / f"{RANKS}-0.json").read_text())
    data = small_data()
    steps = len(found["history"]) * -(-len(data.train) // 128)
    elements = len(data.items) * 4
    assert case["model"] == "mf"
    assert found["sent"]["target.item.weight"] == steps * round(2 * (RANKS - 1) / RANKS * 8 * elements)  # in float64


def test_shares_are_disjoint_and_whole():
    for everybody in range(4, 40):
        for size in range(1, 5):
            if -(-everybody // size) * (size - 1) >= everybody:
                with pytest.raises(InputError, match=f"{everybody} users are too few for {size} processes"):
                    SeveralRanks(0, size).share(everybody)
                continue
            shares = [SeveralRanks(rank, size).share(everybody) for rank in range(size)]
            assert [user for first, count in shares for user in range(first, first + count)] == list(range(everybody))


def test_one_process_has_everything_already():
    own = torch.arange(6.0).view(1, 3, 2)
    assert ALONE.share(5) == (0, 5)
    assert ALONE.item_share(10**6) is None
    assert ALONE.from_first("here") == "here"
    assert torch.equal(ALONE.joined(own, 3, "table"), own)
    assert torch.equal(ALONE.gathered(own, "table"), own.unsqueeze(0))
    assert ALONE.collect(own, 1, "table") is own
    ALONE.sum({"own": own})
    assert torch.equal(own, torch.arange(6.0).view(1, 3, 2))


# --- a rank that is killed

COMMAND = ["accord", "train", "demo", "--model", "gmf", "--method", "deca", "--epochs", "3", "--device", "cpu"]
COMMAND += ["--set", "train.early_stop=false", "--set", "train.checkpoint_seconds=0", "--set", "train.batch_size=256"]
COMMAND += ["--set", "model.dim=8", "--out"]


def test_a_killed_rank_ends_the_job_which_goes_on_with_any_number(tmp_path):
    """SIGKILL in the middle of an epoch; then one process and two ranks go on from the checkpoint of three."""
    cut = tmp_path / "cut"
    job = start_ranks(3, *COMMAND, cut)
    try:
        wait_for(lambda: list(cut.glob("checkpoint-1.safetensors")), job)
        time.sleep(0.1)
        job[1].send_signal(signal.SIGKILL)
        began = time.monotonic()
        ends = finish(job, 120)
    finally:
        finish(job)
    assert time.monotonic() - began < 120
    assert [code for code, _ in ends] == [2, -signal.SIGKILL, 2]
    said = [line for _, text in ends for line in text.splitlines() if line.startswith("accord: ")]
    assert set(said) == {
        f"accord: {InputError(*LOST).for_command}"
    }  # twice where one notices only when the first process has gone
    assert not (cut / "metrics.json").exists()
    assert [path.name for path in checkpoints.in_folder(cut)] == ["checkpoint-1.safetensors"]

    alone = tmp_path / "alone"
    shutil.copytree(cut, alone)
    two = start_ranks(2, *COMMAND, cut, "--resume")
    options = {"train.early_stop": False, "train.batch_size": 256, "model.dim": 8, "train.checkpoint_seconds": 0.0}
    whole = accord.fit("demo", "gmf", "deca", epochs=3, device="cpu", options=options)
    resumed = accord.fit("demo", "gmf", "deca", epochs=3, device="cpu", options=options, out=alone, resume=True)
    for code, text in finish(two):
        assert code == 0, text
    for other in (resumed, Recommender.load(cut)):
        assert [entry["epoch"] for entry in other.history] == [1, 2, 3]
        losses = [[entry["loss"] for entry in log] for log in (other.history, whole.history)]
        assert np.allclose(*losses, rtol=1e-4)
        assert other.metrics["mean"] == pytest.approx(whole.metrics["mean"], rel=0.02)
        for key, tensor in whole.method.state_dict().items():
            torch.testing.assert_close(other.method.state_dict()[key], tensor, rtol=0.05, atol=0.01)
    assert not checkpoints.in_folder(cut), "a finished run keeps no checkpoint"


def wait_for(what: Any, processes: Sequence[subprocess.Popen[str]], seconds: float = 90) -> None:
    deadline = time.monotonic() + seconds
    while not what():
        assert all(process.poll() is None for process in processes), [p.stderr and p.stderr.read() for p in processes]
        assert time.monotonic() < deadline
        time.sleep(0.02)


# --- the page


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("scale_ranks_page")


@pytest.fixture
def measured() -> Any:
    return json.loads((BENCHMARKS / "scale" / "ranks.json").read_text())


def test_the_page_says_what_was_measured(page, measured):
    shown = page.PAGE.read_text()
    gpu = page.GPU.read_text()
    assert page.filled(shown, page.parts(measured, gpu)) == shown, "run `python benchmarks/scale_ranks_page.py`"


def test_what_was_measured_is_what_was_asked_for(measured):
    """Equal to one process, a share of the user tables, bytes by the formula within 5%, and an end within 30 s."""
    for row in measured["equality"]["largest_relative_difference"]["float64"].values():
        assert max(max(parts.values()) for parts in row.values()) < 1e-5
    for number, found in measured["memory"]["ranks"].items():
        rows = measured["memory"]["ranks"]["1"]["user_rows"][0]
        assert max(found["user_rows"]) == pytest.approx(rows / int(number), rel=0.01)
    for row in measured["traffic"]["bytes_per_step_and_rank"].values():
        for found in row.values():
            assert found["interface"] == pytest.approx(found["formula"], rel=0.05)
            assert found["counted"] == pytest.approx(found["formula"], rel=0.01)
    assert measured["killed"]["seconds_until_the_job_ended"] < 30
    assert {f"resumed at {n}" for n in ("one process", 1, 2, 3)} <= measured["killed"].keys()


def test_two_jobs_do_not_write_to_one_folder(tmp_path):
    with only_writer(tmp_path):
        ends = finish(start_ranks(2, *COMMAND, tmp_path), 60)
    assert [code for code, _ in ends] == [2, 2]
    said = [line for line in ends[0][1].splitlines() if line.startswith("accord: ")]
    assert said == [f"accord: {tmp_path} is being written by another process; wait for it, or give another --out."]


@pytest.mark.parametrize(("ranks", "gpus", "share"), [(2, 2, False), (4, 1, True), (3, 2, True)])
def test_more_ranks_than_gpus_do_not_exchange_by_nccl(ranks, gpus, share, monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    monkeypatch.setenv("LOCAL_WORLD_SIZE", str(ranks))
    monkeypatch.setenv("LOCAL_RANK", "0")
    with warnings.catch_warnings(record=True) as said:
        assert _share_gpus() == share
    told = f"{ranks} processes share {gpus} GPU{'s' * (gpus > 1)}"
    expected = [f"{told}, so they exchange through the main memory, which is slow."] * share
    assert [str(warning.message) for warning in said] == expected
