"""Small things that many tests need: tiny data, models and methods built by hand."""

from __future__ import annotations

import importlib.util
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import torch
from torch import Tensor, nn

from accord.data.csr import Csr
from accord.data.interactions import Dataset, IdMap, Interactions
from accord.data.load import load
from accord.data.simulate import simulate
from accord.data.split import split
from accord.methods import MethodSpec, find_method
from accord.methods.base import Build, Method
from accord.models import ModelSpec, build_model, class_of
from accord.models.base import Model, Setup
from accord.protocol import CORRECTED, Protocol
from accord.training.plan import plan
from accord.training.run import RunSpec
from accord.training.stack import train_stack
from accord.training.trainer import TrainState
from started import environment, programs

torch.set_num_threads(1)  # threads that wait for each other make tiny steps fifty times slower on a busy machine

CPU = torch.device("cpu")
Pairs = Sequence[tuple[int, int]]


def interactions(pairs: Pairs) -> Interactions:
    """Interactions whose ids are row numbers."""
    users, items = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    return Interactions.of(pa.array(users), pa.array(items))


def dataset(
    num_users: int, num_items: int, train: Pairs, valid: Pairs = (), test: Pairs = (), **parts: Pairs
) -> Dataset:
    """A dataset whose ids are row numbers; `parts`: valid_clean, test_noisy."""
    made = [interactions(part) for part in (train, valid, test)]
    more = {name: interactions(part) for name, part in parts.items()}
    return Dataset("tiny", *made, IdMap.range(num_users), IdMap.range(num_items), **more)


def csr(num_users: int, num_items: int, pairs: Pairs) -> Csr:
    users, items = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    return Csr.of(users, items, num_users, num_items)


def random_csr(num_users: int, num_items: int, share: float, seed: int = 0) -> Csr:
    """Each pair with chance `share`."""
    users, items = np.nonzero(np.random.default_rng(seed).random((num_users, num_items)) < share)
    return Csr.of(users, items, num_users, num_items)


def timed_csr(num_users: int, num_items: int, share: float, seed: int = 0) -> Csr:
    """The same at times that differ."""
    train = random_csr(num_users, num_items, share, seed)
    return replace(train, columns={"time": np.random.default_rng(seed).permutation(len(train.items))})


def histories(train: Csr) -> Iterator[npt.NDArray[np.int64]]:
    """The places of each user's interactions, by time."""
    for user in range(train.num_users):
        own = np.arange(*train.ptr[user : user + 2])
        yield own[np.argsort(train.columns["time"][own])]


def dense(train: Csr) -> npt.NDArray[np.float64]:
    """Ones where there is a pair: [U, I]."""
    matrix = np.zeros((train.num_users, train.num_items))
    matrix[train.users, train.items] = 1
    return matrix


@cache
def small_data() -> Dataset:
    """Simulated: 60 users, 40 items, 560 training pairs."""
    return simulate(users=60, items=40, interactions=700, seed=1, liked=0.4).dataset


@cache
def small_data_for(model: ModelSpec) -> Dataset:
    """The same with times where the model needs them."""
    return with_times(small_data()) if needs_times(model) else small_data()


def needs_times(model: ModelSpec) -> bool:
    kind = class_of(model)
    return kind is not None and "time" in kind.reads(None)


def with_times(data: Dataset) -> Dataset:
    """The same at times that say nothing."""
    rng = np.random.default_rng(0)

    def timed(part: Interactions | None) -> Interactions | None:
        if part is None:
            return None
        times = pa.array(rng.permutation(len(part)).astype(float))
        return Interactions(part.rows.append_column("time", times), (part.user_ids, part.item_ids))

    names = ("train", "valid", "test", "valid_clean", "test_noisy")
    return replace(data, **{name: timed(getattr(data, name)) for name in names})


def walk(users: int = 60, items: int = 30, steps: int = 24, seed: int = 0) -> Dataset:
    """Whoever took an item takes one of the next: what comes is known by what came last."""
    rng = np.random.default_rng(seed)
    places = (rng.integers(0, items, users)[:, None] + rng.integers(1, 3, (users, steps)).cumsum(1)) % items
    rows = np.repeat(np.arange(users), steps)
    log = Interactions.of(pa.array(rows), pa.array(places.ravel()), time=pa.array(np.tile(np.arange(steps), users)))
    return split(log.merged(), "chronological", (0.6, 0.2, 0.2))


def timed_data(rows: Interactions) -> Dataset:
    """Rows at times of no meaning, split by these, with labels: what has the value 1 is real."""
    times = pa.array(np.random.default_rng(0).permutation(len(rows)).astype(float))
    log = Interactions.of(rows.users, rows.items, value=pa.array(rows.column("value")), time=times)
    data = load(split(log, "chronological", clean="value>=1", name="timed"), labels="value>=1")
    assert data.comes_in_order
    return data


def make_model(
    spec: ModelSpec,
    train: Csr,
    seeds: Sequence[int] = (1,),
    protocol: Protocol = CORRECTED,
    **options: Any,
) -> Model:
    """A model at its start, or solved if that is what it is."""
    model = build_model(spec, options, Setup(train, tuple(seeds), protocol))
    if model.solved:
        model.fit(train, train.columns.get("weight"))
    return model


def make_method(
    method: MethodSpec,
    options: Sequence[dict[str, Any]],
    train: Csr,
    model: ModelSpec = "mf",
    protocol: Protocol = CORRECTED,
    **model_options: Any,
) -> Method:
    """A method with one run for each of `options`, which may differ."""
    kind = find_method(method)
    seeds = tuple(range(1, len(options) * kind.members + 1))
    build = Build(kind.name, model, model_options, Setup(train, seeds, protocol))
    return kind([kind.Config(**given) for given in options] * kind.members, build, protocol)


def stages_of(method: Method) -> list[Method]:
    """What a method asks to be trained, in order; nothing is."""

    class Asked:
        def __init__(self) -> None:
            self.stages: list[Method] = []

        def train(self, stage: Method) -> None:
            self.stages.append(stage)

    lab = Asked()
    method.stages(lab)  # type: ignore[arg-type]
    return lab.stages


def spread(module: nn.Module, seed: int = 0, std: float = 0.7) -> None:
    """Weights far from their start, so that probabilities are not all one half."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            drawn = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
            parameter.copy_((drawn * std).to(parameter.dtype))


def with_dim(model: ModelSpec, dim: int = 4) -> dict[str, Any]:
    """A narrow model, where the model has a width."""
    config = getattr(class_of(model) or model, "Config", None)
    return {"model.dim": dim} if config is not None and "dim" in config.model_fields else {}


def plan_small(
    model: ModelSpec,
    method: MethodSpec,
    seeds: Sequence[int],
    data: Dataset | None = None,
    protocol: str | Protocol = "corrected",
    epochs: int = 2,
    **options: Any,
) -> RunSpec:
    """A run on little data with narrow networks; options are written `train__lr=0.1`."""
    given = with_dim(model) | {"train.batch_size": 128, "train.lr": 0.01}
    given |= {name.replace("__", "."): value for name, value in options.items()}
    return plan(data or small_data_for(model), model, method, protocol, list(seeds), given, epochs, [5, 20])


def train_small(
    model: ModelSpec,
    method: MethodSpec,
    seeds: Sequence[int],
    data: Dataset | None = None,
    protocol: str | Protocol = "corrected",
    epochs: int = 2,
    **options: Any,
) -> tuple[Method, list[TrainState]]:
    run = plan_small(model, method, seeds, data, protocol, epochs, **options)
    return train_stack(data or small_data_for(model), run, CPU)


def one_run(state: dict[str, Tensor], run: int, runs: int) -> dict[str, Tensor]:
    """Run `run` of a stack's weights; a method with members has them one after another."""
    return {name: tensor.unflatten(0, (-1, runs))[:, run] for name, tensor in state.items()}


def assert_same_weights(one: dict[str, Tensor], other: dict[str, Tensor]) -> None:
    """Bit for bit."""
    assert one.keys() == other.keys()
    for name, tensor in one.items():
        assert torch.equal(tensor, other[name]), f"{name} differs by {(tensor - other[name]).abs().max()}"


def assert_same_run(stack: dict[str, Tensor], run: int, alone: dict[str, Tensor], runs: int = 2) -> None:
    """Run `run` of a stack and the same run alone, to float tolerance: torch's vectorised functions (sigmoid on x86)
    round the last numbers of a tensor otherwise than the rest, and a stack has its ends elsewhere."""
    one, other = one_run(stack, run, runs), one_run(alone, 0, 1)
    assert one.keys() == other.keys()
    for name, tensor in one.items():
        torch.testing.assert_close(tensor, other[name], rtol=1e-4, atol=1e-6, msg=lambda m, name=name: f"{name}: {m}")


def run_python(*words: object, **more: Any) -> subprocess.CompletedProcess[str]:
    """Python with a script, or with `-c` and code, run to its end. What tests how Python starts needs a real one."""
    more = {"capture_output": True, "text": True, "env": environment()} | more
    return subprocess.run([str(programs() / "python"), *map(str, words)], check=False, **more)


def script(path: Path, name: str) -> ModuleType:
    """A script as a module, by its path: other folders have modules of the same name."""
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def assert_same_training(
    trained: tuple[Method, Sequence[TrainState]],
    expected: tuple[Method, Sequence[TrainState]],
    losses: tuple[float, float],
    weights: tuple[float, float],
) -> None:
    """What `train_stack` gave two times: the losses of every epoch and the weights are alike, within (rtol, atol)."""
    for state, other in zip(trained[1], expected[1], strict=True):
        both = [torch.tensor([entry["loss"] for entry in one.history]) for one in (state, other)]
        torch.testing.assert_close(*both, rtol=losses[0], atol=losses[1])
    found, wanted = (one[0].state_dict() for one in (trained, expected))
    for name, tensor in found.items():
        torch.testing.assert_close(
            tensor, wanted[name], rtol=weights[0], atol=weights[1], msg=lambda text, n=name: f"{n}: {text}"
        )
    assert found.keys() == wanted.keys()
