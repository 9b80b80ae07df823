"""The paper's figures, and the hyperparameters it gives for its datasets: `accord.settings` of `published`."""

from __future__ import annotations

import json
import tomllib
from functools import cache
from importlib import resources
from typing import Any

EVERYWHERE = {"lr": 0.001, "batch_size": 2048}  # the same in every cell of the paper's tables


@cache
def figures(name: str) -> Any:
    """The paper's tables (`published`), or what its released code gives when run today (`measured`)."""
    return json.loads(resources.files(__package__).joinpath(f"{name}.json").read_text())


@cache
def _table() -> dict[str, Any]:
    return tomllib.loads(resources.files(__package__).joinpath("settings.toml").read_text())


def paper_settings(dataset: str, model: str, method: str) -> dict[str, Any] | None:
    """The paper's hyperparameters for a cell of its tables, None where it has none.
    The paper gives none for WBPR, T-CE and Ensemble (and does not have R-CE): these train with those of Normal."""
    methods = _table().get(dataset, {}).get(model)
    return None if methods is None else {**EVERYWHERE, **methods.get(method, methods["normal"])}
