"""`accord doctor`, `accord models`, `accord methods`: what is there, whether it works, and what can be trained."""

from __future__ import annotations

import platform
import time

import typer

from accord.version import __version__

LIBRARIES = ("torch", "numpy", "scipy", "pyarrow", "pydantic", "safetensors", "typer", "rich", "pooch")


def doctor() -> None:
    """Versions, device, data on this machine, and a one-second self-test."""
    from importlib.metadata import PackageNotFoundError, version

    import torch

    from accord.cli.display import print_table, say
    from accord.data import catalog

    rows = [("accord", __version__), ("python", platform.python_version())]
    for name in LIBRARIES:
        try:
            rows.append((name, version(name)))
        except PackageNotFoundError:
            rows.append((name, "missing: install accord again"))
    cuda = torch.cuda.get_device_name() if torch.cuda.is_available() else "none"
    rows += [("cpu threads", str(torch.get_num_threads())), ("cuda", cuda)]
    rows += [(f"data: {name}", catalog.location(name) or "not downloaded yet") for name in catalog.names()]
    passed, sentence = self_test()
    print_table(["what", "found"], [*rows, ("self-test", sentence)])
    if not passed:
        say("accord: the self-test failed; reinstall accord, or report this with the table above.")
        raise typer.Exit(1)


def self_test() -> tuple[bool, str]:
    """Train MF for a few epochs on a small simulation: the loss must fall, and recall must beat chance."""
    from accord.data.simulate import simulate
    from accord.fitting import fit

    began = time.perf_counter()
    data = simulate(users=200, items=100, interactions=4000, seed=1).dataset
    trained = fit(data, "mf", "normal", epochs=8, options={"train.lr": 0.02, "train.early_stop": False}, device="cpu")
    losses = [entry["loss"][0] for entry in trained.history]
    recall = trained.metrics["mean"]["recall@20"]
    seconds = time.perf_counter() - began
    passed = losses[-1] < losses[0] and recall > 20 / 100
    return passed, f"{'passed' if passed else 'FAILED'} in {seconds:.1f} s (loss {losses[0]:.3f} to {losses[-1]:.3f})"


def models() -> None:
    """The models and their options."""
    from accord.cli.display import describe_kinds
    from accord.config import with_declared
    from accord.models import MODELS

    describe_kinds("model", with_declared("model", MODELS).values())


def methods() -> None:
    """The methods and their options."""
    from accord.cli.display import describe_kinds, describe_options
    from accord.config import with_declared
    from accord.methods import METHODS
    from accord.training.trainer import TrainConfig

    describe_kinds("method", with_declared("method", METHODS).values())
    describe_options("train", "train", "for every method", TrainConfig)
