"""The methods by name, and how to get one from a name, a dotted path or a class."""

from __future__ import annotations

from accord.config import resolve
from accord.errors import InputError
from accord.methods.base import Method
from accord.methods.deca import DeCA, DeCAp
from accord.methods.normal import Normal, Solve
from accord.methods.softmax import BSL, Softmax
from accord.models import ModelSpec, is_solved

LISTED: tuple[type[Method], ...] = (Normal, Softmax, BSL, DeCA, DeCAp)
METHODS: dict[str, type[Method]] = {method.name: method for method in LISTED}
MethodSpec = str | type[Method]


def find_method(spec: MethodSpec) -> type[Method]:
    result = resolve("method", spec, METHODS)
    if not (isinstance(result, type) and issubclass(result, Method)):
        raise InputError(f"method '{spec}' is not a subclass of accord.Method.")
    return result


def method_for(model: ModelSpec, spec: MethodSpec) -> type[Method]:
    """The method that a model is trained with: a solved one and a consensus need none."""
    return Solve if is_solved(model) else find_method(spec)


def method_name(spec: MethodSpec) -> str:
    return spec if isinstance(spec, str) else str(getattr(spec, "name", spec.__name__))
