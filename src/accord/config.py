"""From what a caller wrote (names, dotted paths, key=value) to checked configs; every mistake in one sentence."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from accord.errors import InputError, unknown

T = TypeVar("T", bound=BaseModel)


def make_config(config: type[T], options: Mapping[str, Any], where: str) -> T:
    """A config from options; an unknown key, a bad type or a bad range is an InputError."""
    for key in options:
        if key not in config.model_fields:
            raise unknown(f"option of {where}", key, config.model_fields)
    try:
        return config(**options)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        wanted = first["msg"][0].lower() + first["msg"][1:]
        raise InputError(f"option {key} of {where} is {first['input']!r}: {wanted}.") from None


def resolve(kind: str, spec: Any, known: Mapping[str, Any]) -> Any:
    """What a name, `package.module:Name` or an object stands for."""
    if not isinstance(spec, str):
        return spec
    if spec in known:
        return known[spec]
    if ":" not in spec:
        raise unknown(kind, spec, known)
    module_name, _, name = spec.partition(":")
    here = str(Path.cwd())
    if here not in sys.path:  # a file beside the caller is what `my.module:MyModel` means
        sys.path.insert(0, here)
    try:
        module = importlib.import_module(module_name)
    except ImportError as error:
        raise InputError(f"{kind} '{spec}': cannot import '{module_name}' ({error}).") from error
    if not hasattr(module, name):
        raise InputError(f"{kind} '{spec}': '{module_name}' has no '{name}'.")
    return getattr(module, name)


def describe(config: type[BaseModel]) -> list[tuple[str, str, str]]:
    """Each option of a config: its name, default and meaning."""
    return [
        (name, "" if field.is_required() else str(field.default), field.description or "")
        for name, field in config.model_fields.items()
    ]
