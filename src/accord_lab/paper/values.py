"""The paper's published figures, as data."""

from __future__ import annotations

import json
from functools import cache
from importlib import resources
from typing import Any


@cache
def figures(name: str) -> Any:
    """The paper's tables (`published`), or what its released code gives when run today (`measured`)."""
    return json.loads(resources.files(__package__).joinpath(f"{name}.json").read_text())
