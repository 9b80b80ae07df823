"""How options are declared, checked and suggested, and how names become classes."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from pydantic import BaseModel, ConfigDict, SerializerFunctionWrapHandler, ValidationError, model_serializer

from accord.errors import Argument, InputError, invalid_option, unknown

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

T = TypeVar("T", bound=BaseModel)
Kind = TypeVar("Kind")
_may_import: ContextVar[bool] = ContextVar("may_import", default=True)


def full_name(model: str, method: str | None) -> str:
    """The name of a model with its method; the model alone if it is solved ("none" in files)."""
    return model if method in (None, "none") else f"{model} + {method}"


class BaseConfig(BaseModel):
    """Options of a model or method: frozen, and an unknown key is an error.

    >>> class Config(accord.BaseConfig):
    ...     width: int = 32
    >>> Config(width=64)
    Config(width=64)
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    omit_when_default: ClassVar[tuple[str, ...]] = ()  # options newer than files that were written without them

    @model_serializer(mode="wrap")
    def _omit_defaults(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        fields = type(self).model_fields
        omitted = {name for name in self.omit_when_default if getattr(self, name) == fields[name].default}
        return {name: value for name, value in serialize(self).items() if name not in omitted}


@contextmanager
def imports_allowed(allowed: bool) -> Iterator[None]:
    """Whether names that come from a file may be imported within the block. What was refused outside stays refused."""
    before = _may_import.set(allowed and _may_import.get())
    try:
        yield
    finally:
        _may_import.reset(before)


def make_config(config: type[T], options: Mapping[str, Any], where: str) -> T:
    """A config from options; an unknown key, a bad type or a bad range is an InputError."""
    for key in options:
        if key not in config.model_fields:
            raise unknown(f"option of {where}", key, config.model_fields)
    try:
        return config(**options)
    except ValidationError as error:
        raise invalid_option(error, where) from None


def resolve(kind: str, spec: Any, registered: Mapping[str, Any]) -> Any:
    """What a registered name, one of an entry point, `package.module:Name` or an object stands for: the only place that
    imports by name."""
    if not isinstance(spec, str):
        return spec
    if spec in registered:
        return registered[spec]
    if ":" not in spec:
        if spec not in (entries := declared(f"{kind}s")):
            raise unknown(kind, spec, [*registered, *entries])
        return from_package(f"{kind}s", spec)
    if not _may_import.get():
        why = f"a file names {spec}, and loading it would import and run code; if you trust it, give "
        raise InputError(why, Argument("allow_imports", True), ".")
    module_name, _, name = spec.partition(":")
    folder = str(Path.cwd())
    if folder not in sys.path:  # `my.module:MyModel` may be a file of the working folder
        sys.path.insert(0, folder)
    try:
        module = importlib.import_module(module_name)
    except ImportError as error:
        raise InputError(f"{kind} '{spec}': cannot import '{module_name}' ({error}).") from error
    if not hasattr(module, name):
        raise InputError(f"{kind} '{spec}': '{module_name}' has no '{name}'.")
    return getattr(module, name)


@cache
def declared(group: str) -> dict[str, EntryPoint]:
    """What installed packages declare in a group of ours (models, methods, executors, settings), by name."""
    from importlib.metadata import entry_points

    return {entry.name: entry for entry in sorted(entry_points(group=f"accord.{group}"), key=lambda entry: entry.name)}


def from_package(group: str, name: str) -> Any:
    """What an installed package declares under a name."""
    try:
        return declared(group)[name].load()
    except KeyError:
        raise InputError(f"no installed package declares '{name}' in accord.{group}; install accord again.") from None
    except (ImportError, AttributeError) as error:
        raise InputError(f"'{name}' of accord.{group} cannot be loaded: {error}.") from error


def with_declared(kind: str, registered: Mapping[str, Kind]) -> dict[str, Kind]:
    """Our models or methods, and after them those that installed packages declare."""
    group = f"{kind}s"
    return {**registered, **{name: from_package(group, name) for name in declared(group) if name not in registered}}


def describe(config: type[BaseModel]) -> list[tuple[str, str, str]]:
    return [
        (name, "" if field.is_required() else str(field.default), field.description or "")
        for name, field in config.model_fields.items()
    ]
