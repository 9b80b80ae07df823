"""How options are declared, checked and suggested: every mistake in one sentence."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from pydantic import BaseModel, ConfigDict, SerializerFunctionWrapHandler, ValidationError, model_serializer

from accord.errors import Argument, InputError, unknown

T = TypeVar("T", bound=BaseModel)
_may_import: ContextVar[bool] = ContextVar("may_import", default=True)


def full_name(model: str, method: str | None) -> str:
    """How a model with its method is called: the model alone where it is solved ("none" in files)."""
    return model if method in (None, "none") else f"{model} + {method}"


class BaseConfig(BaseModel):
    """Options of a model or method: frozen, and an unknown key is an error.

    >>> class Config(accord.BaseConfig):
    ...     width: int = 32
    >>> Config(width=64)
    Config(width=64)
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    later: ClassVar[tuple[str, ...]] = ()  # options that an earlier version had not

    @model_serializer(mode="wrap")
    def _as_before(self, written: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Later options that have their default are left out, as in files from before: results keep their keys."""
        fields = type(self).model_fields
        unchanged = {name for name in self.later if getattr(self, name) == fields[name].default}
        return {name: value for name, value in written(self).items() if name not in unchanged}


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
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        wanted = first["msg"][0].lower() + first["msg"][1:]
        raise InputError(f"option {key} of {where} is {first['input']!r}: {wanted}.") from None


def resolve(kind: str, spec: Any, known: Mapping[str, Any]) -> Any:
    """What a name, `package.module:Name` or an object stands for. The one place where a name becomes an import."""
    if not isinstance(spec, str):
        return spec
    if spec in known:
        return known[spec]
    if ":" not in spec:
        raise unknown(kind, spec, known)
    if not _may_import.get():
        raise InputError(
            f"a file names {spec}, which would import and run code; if you trust it, allow that with ",
            Argument("allow_imports", True),
            ".",
        )
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
