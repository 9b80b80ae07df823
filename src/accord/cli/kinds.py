"""`accord models`, `accord methods`: what can be trained, and its options."""

from __future__ import annotations


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
