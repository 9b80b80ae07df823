"""Accord: recommenders from noisy implicit feedback, denoised by cross-model agreement."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from accord.version import __version__

if TYPE_CHECKING:
    from accord.auditing.audit import Audit, audit
    from accord.config import BaseConfig
    from accord.data.columns import Columns
    from accord.data.interactions import Dataset, Interactions
    from accord.data.load import load
    from accord.data.simulate import simulate
    from accord.errors import InputError
    from accord.fitting import deterministic, fit
    from accord.methods.base import Method
    from accord.models.base import Model
    from accord.posteriors.estimate import Posterior, posterior
    from accord.protocol import CORRECTED, PUBLISHED, Protocol
    from accord.recommender.recommender import Recommender
    from accord.training.callbacks import Callback
    from accord.training.trainer import Progress

# Before torch is loaded: its threads must not spin while they wait for each other. On cores that others use too, that
# makes the many small operations of a training step ten times slower and more.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
# And its products must not depend on how many threads there are: the same training gives the same bits with any number.
os.environ.setdefault("MKL_CBWR", "AUTO,STRICT")

_HOME = {
    "auditing.audit": ("Audit", "audit"), "config": ("BaseConfig",), "errors": ("InputError",),
    "data.columns": ("Columns",), "data.interactions": ("Dataset", "Interactions"), "data.load": ("load",),
    "data.simulate": ("simulate",), "fitting": ("deterministic", "fit"), "methods.base": ("Method",),
    "models.base": ("Model",), "posteriors.estimate": ("Posterior", "posterior"),
    "protocol": ("CORRECTED", "PUBLISHED", "Protocol"), "recommender.recommender": ("Recommender",),
    "training.callbacks": ("Callback",), "training.trainer": ("Progress",),
}  # fmt: skip
_MODULES = {name: module for module, names in _HOME.items() for name in names}

__all__ = ["CORRECTED", "PUBLISHED", "Audit", "BaseConfig", "Callback", "Columns", "Dataset", "InputError"]
__all__ += ["Interactions", "Method", "Model", "Posterior", "Progress", "Protocol", "Recommender", "__version__"]
__all__ += ["audit", "deterministic", "fit", "load", "posterior", "simulate"]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used, so that the command line need not wait for torch."""
    if name not in _MODULES:
        raise AttributeError(f"module 'accord' has no attribute '{name}'")
    from importlib import import_module

    return getattr(import_module(f"accord.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
