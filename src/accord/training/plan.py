"""From what a caller asked for to a run: everything that can be checked before a second is spent on training."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from numbers import Integral
from typing import Any

import torch

from accord.config import from_package, make_config
from accord.data.interactions import Dataset
from accord.errors import Argument, InputError, shown, unknown
from accord.evaluation.evaluate import MOST_KS
from accord.methods import MethodSpec, method_for, method_name
from accord.models import ModelSpec, class_of, has_seeds, model_name
from accord.protocol import PRESETS, Protocol
from accord.training.run import (
    MOST_K,
    MOST_SEEDS,
    RunConfig,
    RunSpec,
    by_section,
    check_rules,
    in_a_batch,
    is_of_members,
    recorded_rules,
    reference,
)
from accord.training.trainer import TrainConfig

FIRST_SEED = 2019  # the paper's seeds are 2019, 2020 and 2021
KS = {"electronics": (5, 10, 20, 50)}  # the paper ranks deeper there
DEFAULT_KS = (3, 5, 10, 20)
LONG = 32  # steps that a row may wait to be looked up again; taking so many one by one costs about as much as the rest
DEFAULT_LEARNED, DEFAULT_METHOD = "gmf", "deca"


def model_and_method(model: ModelSpec | None, method: MethodSpec | None) -> tuple[ModelSpec, MethodSpec]:
    """What is trained where one of the two, or neither, is named."""
    chosen = model or ("auto" if method is None else DEFAULT_LEARNED)
    if method is not None and method != "normal" and not method_for(chosen, method).learns:
        raise InputError(
            f"model '{model_name(chosen)}' is not trained with a method; leave the method {method_name(method)} out, "
            "or name a learned model (see 'accord models')."
        )
    return chosen, method or DEFAULT_METHOD


def plan(
    data: Dataset,
    model: ModelSpec = "gmf",
    method: MethodSpec = "deca",
    protocol: str | Protocol = "corrected",
    seeds: int | Sequence[int] = 1,
    options: Mapping[str, Any] | None = None,
    epochs: int | None = None,
    ks: Sequence[int] | None = None,
) -> RunSpec:
    if not len(data.train):
        raise InputError(f"{data.name} has no training interaction; give more data or other ", Argument("ratios"), ".")
    given = by_section(options or {})
    rules = _rules(protocol, given["protocol"], model, method)
    model_class, kind = class_of(model), method_for(model, method)
    if model_class is not None:
        make_config(model_class.Config, given["model"], f"model {model_name(model)}")
    if given["method"] and not kind.learns:
        raise InputError(
            f"model '{model_name(model)}' is solved, not trained with a method; it takes no method options."
        )
    train_options: dict[str, Any] = {}
    method_options: dict[str, Any] = {}
    published: Mapping[str, Any] | None = None
    if rules.settings != "default":
        published = from_package("settings", rules.settings)(data.name, model_name(model), method_name(method))
    for key, value in (published or {}).items():
        if key in TrainConfig.model_fields and kind.learns:
            train_options[key] = value
        elif key in kind.Config.model_fields:
            method_options[key] = value
    method_options |= given["method"]
    make_config(kind.Config, method_options, f"method {method_name(method)}")
    knows_order = model_class is not None and model_class.reads_history and "time" in model_class.reads(None)
    if rules.test_history == "train+valid" and ((kind.learns and not knows_order) or not data.comes_in_order):
        if "test_history" in given["protocol"]:
            raise InputError(
                "protocol.test_history=train+valid is for solved models and those that know order, and for logs with "
                "times whose validation and test came later; leave it out."
            )
        rules = rules.model_copy(update={"test_history": "train"})
    train_options |= given["train"] | ({} if epochs is None else {"epochs": epochs})
    settings = make_config(TrainConfig, train_options, "train")
    if rules.optimiser == "by-size":
        learns = kind.learns or is_of_members(model)
        rules = rules.model_copy(update={"optimiser": _optimiser(data, settings) if learns else "adam"})
    config = RunConfig(
        model=reference(model),
        method=reference(method) if kind.learns else None,
        model_options=given["model"],
        method_options=method_options,
        train=settings,
        protocol=rules,
        seeds=_seeds(seeds)[: None if has_seeds(model) else 1],
        ks=_ks(ks, data.name),
    )
    run = RunSpec(config, model, method)
    for member in run.members:
        run.of_member(member)
    return run


def _rules(protocol: str | Protocol, given: Mapping[str, Any], model: ModelSpec, method: MethodSpec) -> Protocol:
    """The protocol with what was given, and with the rules of single models and methods written out."""
    if isinstance(protocol, str):
        if protocol not in PRESETS:
            raise unknown("protocol", protocol, PRESETS)
        protocol = PRESETS[protocol]
    if given.get("name", protocol.name) != protocol.name:
        raise InputError(
            f"protocol.name is that of the preset, {protocol.name}; choose another with ", Argument("protocol"), "."
        )
    general = {name: value for name, value in given.items() if name in Protocol.model_fields}
    rules = make_config(Protocol, protocol.model_dump(include=set(Protocol.model_fields)) | general, "protocol")
    extra = (protocol.model_extra or {}) | {name: value for name, value in given.items() if name not in general}
    rules = Protocol(**rules.model_dump() | extra)
    kinds = [kind.Rules for kind in (class_of(model), method_for(model, method)) if kind is not None]
    return Protocol(**recorded_rules(check_rules(rules, kinds), kinds))


def _optimiser(data: Dataset, settings: TrainConfig) -> str:
    """Adam where a row is looked up again within some steps, and what costs nothing meanwhile where it waits longer."""
    steps = max(len(data.users), len(data.items)) / in_a_batch(settings, len(data.train))
    return "decoupled" if steps > LONG else "adam"


def _seeds(seeds: int | Sequence[int]) -> tuple[int, ...]:
    if isinstance(seeds, Integral):
        if not 1 <= int(seeds) <= MOST_SEEDS:
            raise InputError(f"seeds is {seeds}; give a number from 1 to {MOST_SEEDS:,}.")
        return tuple(range(FIRST_SEED, FIRST_SEED + int(seeds)))
    if not isinstance(seeds, Iterable):
        raise InputError(f"seeds is {shown(seeds)}; give a whole number, or a list of them.")
    chosen: list[Any] = list(seeds)  # numpy's integers are Integral, too
    whole = all(isinstance(seed, Integral) for seed in chosen)
    if not whole or not 1 <= len(chosen) <= MOST_SEEDS or len(set(chosen)) < len(chosen):
        raise InputError(f"seeds are {shown(chosen)}; give 1 to {MOST_SEEDS:,} different whole numbers.")
    return tuple(int(seed) for seed in chosen)


def _ks(ks: Sequence[int] | None, dataset: str) -> tuple[int, ...]:
    if ks is None:
        return KS.get(dataset, DEFAULT_KS)
    wanted: list[Any] = [ks] if isinstance(ks, Integral) else list(ks)
    if not wanted or not all(isinstance(k, Integral) and 1 <= int(k) <= MOST_K for k in wanted):
        raise InputError(f"k is {shown(wanted)}; give one or more whole numbers from 1 to {MOST_K:,}.")
    if len(set(wanted)) > MOST_KS:
        raise InputError(f"k has {len(set(wanted)):,} values; give at most {MOST_KS}.")
    return tuple(sorted({int(k) for k in wanted}))


def find_device(name: str) -> torch.device:
    """The device of a name; 'auto' is CUDA where there is one."""
    name = str(name)
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if name.partition(":")[0] not in ("cpu", "cuda"):
        raise unknown("device", name, ["auto", "cpu", "cuda"])
    if name.startswith("cuda") and not torch.cuda.is_available():
        raise InputError("torch finds no CUDA device here; use ", Argument("device", "cpu"), ".")
    return torch.device(name)
