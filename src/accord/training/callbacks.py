"""What follows a training: a progress bar, MLflow, anything with the same three methods."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from accord.errors import InputError, shown
from accord.training.trainer import Progress


class Callback(Protocol):
    """Follows a training; given to `accord.fit(callbacks=[…])`. A subclass has the methods that it needs.

    >>> class Losses(accord.Callback):
    ...     def __init__(self):
    ...         self.seen = []
    ...     def on_epoch(self, progress):
    ...         self.seen.append(round(progress.loss, 2))
    >>> losses = Losses()
    >>> rec = accord.fit(accord.load("demo"), "mf", "normal", epochs=2, callbacks=[losses])
    >>> len(losses.seen)
    2
    """

    def on_start(self, settings: Mapping[str, Any]) -> None:
        """Before training: what config.json will have, with model, method, options and seeds."""

    def on_epoch(self, progress: Progress) -> None:
        """After each epoch: its number, the loss, and the last check on the validation. What is solved or searched for
        counts parts of its work instead of epochs; `unit` says which."""

    def on_metrics(self, metrics: Mapping[str, float]) -> None:
        """Once it is evaluated: each metric on the test, mean over the runs, as `{"recall@20": 0.35}`."""


def watched_by(callbacks: Sequence[Callback]) -> Callable[[Progress], None] | None:
    """What tells all of them of an epoch; None where there is nobody to tell."""
    if not isinstance(callbacks, Sequence):
        raise InputError(f"callbacks is {shown(callbacks)}; give a list, as [MyCallback()].")
    if odd := [one for one in callbacks if not hasattr(one, "on_epoch")]:
        raise InputError(f"callbacks has {shown(odd[0])} in it; give objects of subclasses of accord.Callback.")
    if not callbacks:
        return None

    def watch(progress: Progress) -> None:
        for callback in callbacks:
            callback.on_epoch(progress)

    return watch
