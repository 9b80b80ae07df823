"""The models by name, and how to get one from a name, a dotted path or a class."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn

from accord.config import make_config, resolve
from accord.errors import InputError
from accord.models.base import Cost, Model, Setup, Shape
from accord.models.cdae import CDAE
from accord.models.consensus import Consensus
from accord.models.ease import EASE
from accord.models.gmf import GMF
from accord.models.graph_filter import GraphFilter
from accord.models.ials import IALS
from accord.models.item_knn import ItemKNN, NextKNN
from accord.models.lightgcn import LightGCN
from accord.models.mf import MF
from accord.models.plain import PlainModel
from accord.models.popularity import Popularity, Quality
from accord.models.sasrec import SASRec
from accord.models.slist import SLIST, SparseSLIST
from accord.models.sparse_ease import SparseEASE
from accord.models.user_knn import UserKNN
from accord.nn.layers import initialise

LEARNED: tuple[type[Model], ...] = (MF, GMF, CDAE, SASRec, LightGCN)
SOLVED: tuple[type[Model], ...] = (
    Popularity, EASE, SparseEASE, SLIST, SparseSLIST, ItemKNN, NextKNN, UserKNN, GraphFilter, IALS, Quality,
)  # fmt: skip
MODELS: dict[str, type[Model]] = {model.name: model for model in (*LEARNED, *SOLVED)}
MODELS |= {"auto": Consensus, "consensus": Consensus}  # two names of one: `auto` where it is to find its members
Factory = Callable[..., nn.Module]  # (num_users, num_items, **options) -> a module that scores pairs
ModelSpec = str | type[nn.Module] | Factory


def find_model(spec: ModelSpec) -> type[Model] | Factory:
    """The model behind a name, `package.module:Class` or a class of the caller's; a factory if it is not of ours."""
    if isinstance(spec, nn.Module):
        raise InputError(f"give the class {type(spec).__name__}, not an instance: each run starts from new weights.")
    result: type[Model] | Factory = resolve("model", spec, MODELS)
    if not callable(result):
        raise InputError(
            f"model '{spec}' is not a class or function that makes a torch.nn.Module; give one, or a name of those that"
            " 'accord models' lists."
        )
    return result


def class_of(spec: ModelSpec) -> type[Model] | None:
    """The model's class if it is one of ours (or derived from them), None if it is a plain module's."""
    result = find_model(spec)
    return result if isinstance(result, type) and issubclass(result, Model) else None


def is_solved(spec: ModelSpec) -> bool:
    kind = class_of(spec)
    return kind is not None and kind.solved


def has_seeds(spec: ModelSpec) -> bool:
    """Whether runs with different seeds differ: those of a solved model only if it draws random numbers."""
    kind = class_of(spec)
    return kind is None or not kind.solved or kind.seeded


def can_hold(spec: ModelSpec, num_items: int) -> bool:
    kind = class_of(spec)
    return kind is None or num_items <= kind.most_items


def cost_of(spec: ModelSpec, options: dict[str, Any], shape: Shape) -> Cost:
    kind = class_of(spec)
    assert kind is not None, "a plain module is learned"
    assert kind.solved, "what a learned model takes is its training's"
    return kind.cost(make_config(kind.Config, options, f"model {model_name(spec)}"), shape)


def model_name(spec: ModelSpec) -> str:
    if isinstance(spec, str):
        return spec
    return str(getattr(spec, "name", None) or getattr(spec, "__name__", spec))


def build_model(spec: ModelSpec, options: dict[str, Any], setup: Setup, purpose: str = "target") -> Model:
    """A model with every run at its own start; `purpose` names the random stream."""
    kind = class_of(spec)
    if kind is None:
        return PlainModel(find_model(spec), options, setup, purpose)
    model = kind(make_config(kind.Config, options, f"model {model_name(spec)}"), setup)
    initialise(model, setup.seeds, purpose)
    return model
