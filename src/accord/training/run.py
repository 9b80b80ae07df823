"""What was run: a config that is enough to repeat it, and how to build its networks."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from accord.config import imports_allowed, make_config, with_declared
from accord.data.csr import Csr
from accord.errors import InputError, shown, unknown
from accord.evaluation.evaluate import MOST_KS, Evaluation
from accord.io.files import read_json
from accord.methods import METHODS, MethodSpec, method_for
from accord.methods.base import Build, Method
from accord.models import MODELS, ModelSpec, class_of, has_seeds, model_name
from accord.models.base import Setup
from accord.models.consensus import Consensus, Member
from accord.protocol import OwnRules, Protocol, preset_values
from accord.random import derive_seed
from accord.training.trainer import TrainConfig, TrainState

MOST_SEEDS = 1000
MOST_K = 10**6
LEAST_IN_A_BATCH, MOST_IN_A_BATCH = 64, 2048
SECTIONS = ("model", "method", "train", "protocol")


class RunConfig(BaseModel):
    """Everything that a stack of runs depends on besides the data. Written beside its result."""

    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=())

    model: str = Field(description="name, or module:Class of a caller's own")
    method: str | None = Field(description="name, or module:Class; none for models that are solved")
    model_options: dict[str, Any]
    method_options: dict[str, Any]
    train: TrainConfig
    protocol: Protocol
    seeds: tuple[int, ...] = Field(min_length=1, max_length=MOST_SEEDS)
    ks: tuple[Annotated[int, Field(ge=1, le=MOST_K)], ...] = Field(min_length=1, max_length=MOST_KS)
    varied: tuple[dict[str, Any], ...] = Field(
        default=(), description="options in which the runs differ, one entry per run: method.NAME or train.l2"
    )

    @model_validator(mode="after")
    def _varied_for_every_run(self) -> RunConfig:
        if self.varied and len(self.varied) != len(self.seeds):
            raise ValueError(f"varied has {len(self.varied)} entries for {len(self.seeds)} seeds")
        return self

    def own_options(self, section: str) -> list[dict[str, Any]]:
        """Of each run, the options of a section that are its own."""
        varied = self.varied or ({},) * len(self.seeds)
        prefix = f"{section}."
        return [{k.removeprefix(prefix): v for k, v in each.items() if k.startswith(prefix)} for each in varied]


@dataclass(frozen=True)
class RunSpec:
    """A config with the classes that it names, which need not be importable by name."""

    config: RunConfig
    model: ModelSpec
    method: MethodSpec
    trusted: bool = field(default=True, compare=False)  # whether names in the config may be imported

    @classmethod
    def load(
        cls, config: RunConfig, model: ModelSpec | None, method: MethodSpec | None, allow_imports: bool
    ) -> RunSpec:
        """The run of a saved config. A file names code to import only where the caller allows that."""
        run = cls(config, model or config.model, method or config.method or "none", allow_imports)
        check_rules(config.protocol, run.rule_kinds)
        return run

    @classmethod
    def read(
        cls, file: Path, model: ModelSpec | None = None, method: MethodSpec | None = None, allow_imports: bool = False
    ) -> RunSpec:
        content = read_json(file)
        try:
            content.pop("accord", None)
            config = RunConfig(**content)
        except (ValidationError, AttributeError, TypeError) as error:
            why = str(error)
            if isinstance(error, ValidationError):
                first = error.errors()[0]
                why = f"{'.'.join(map(str, first['loc']))}: {first['msg'].lower()}"
            raise InputError(f"{file} is not the config of a run ({why}); give the config.json of a run.") from None
        return cls.load(config, model, method, allow_imports)

    @cached_property
    def kind(self) -> type[Method]:
        with imports_allowed(self.trusted):
            return method_for(self.model, self.method)

    @property
    def rule_kinds(self) -> list[type[OwnRules]]:
        with imports_allowed(self.trusted):
            model_class = class_of(self.model)
        return [kind.Rules for kind in (model_class, self.kind) if kind is not None]

    @property
    def members(self) -> tuple[Member, ...]:
        if not is_of_members(self.model):
            return ()
        kind = class_of(self.model)
        assert kind is not None
        config: Any = make_config(kind.Config, self.config.model_options, f"model {kind.name}")
        members: tuple[Member, ...] = config.members
        return members

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the training interactions that it needs, besides weights and labels."""
        with imports_allowed(self.trusted):
            needed = [*self.kind.columns]
            partners = (self.config.method_options.get(name) for name in self.kind.models)
            for spec, options in ((self.model, self.config.model_options), *((one, {}) for one in partners if one)):
                if (kind := class_of(spec)) is not None:
                    needed += kind.reads(make_config(kind.Config, options, f"model {kind.name}"))
            for member in self.members:
                needed += self.of_member(member).columns
        return tuple(dict.fromkeys(needed))

    def with_seeds(self, seeds: tuple[int, ...]) -> RunSpec:
        """The same with other seeds; the runs' own options fall away, as they shape no network."""
        return self.updated(seeds=seeds, varied=())

    def updated(self, **changes: Any) -> RunSpec:
        return replace(self, config=self.config.model_copy(update=changes))

    def with_model(
        self, model: ModelSpec, method: MethodSpec, options: Mapping[str, Any] | None = None, runs: int | None = None
    ) -> RunSpec:
        """A run of another model and method on the same data, with the training and rules of this one.
        `runs`: that many, with seeds from this one's first on; as this one if not given."""
        config, given = self.config, by_section(options or {})
        if given["protocol"]:
            raise InputError(
                f"{model_name(model)}: a member or partner follows the protocol of its run; leave protocol options out."
            )
        learns = method_for(model, method).learns
        seeds = config.seeds if runs is None else tuple(config.seeds[0] + number for number in range(runs))
        update = {
            "model": reference(model), "method": reference(method) if learns else None,
            "model_options": given["model"], "method_options": given["method"],
            "train": make_config(TrainConfig, config.train.model_dump() | given["train"], "train"),
            "varied": (), "seeds": seeds if has_seeds(model) else seeds[:1],
        }  # fmt: skip
        return replace(self, config=config.model_copy(update=update), model=model, method=method)

    def on_everything(self, states: Sequence[TrainState], number: int) -> RunSpec:
        """One of its runs, to be trained with nothing held out: as many epochs as were best where that was known."""
        run = self.with_seeds(self.config.seeds[number : number + 1])
        if not states or self.config.protocol.early_stop != "best-ndcg":
            return run
        return run.updated(train=run.config.train.model_copy(update={"epochs": states[-1].best_epoch()}))

    def of_member(self, member: Member) -> RunSpec:
        if is_of_members(member.model):
            raise InputError(
                f"a member of a consensus is one model, and '{member.model}' is several; name its members."
            )
        where = f"member {member.label}"
        run = self.with_model(member.model, member.method or "normal", member.options, member.seeds)
        kind = class_of(member.model)
        if kind is not None:
            make_config(kind.Config, run.config.model_options, where)
        make_config(run.kind.Config, run.config.method_options, where)
        return run

    def build(self, train: Csr) -> Method:
        """The method with all its networks, each run at its own start; nothing is trained or solved."""
        config, kind = self.config, self.kind
        options = [
            make_config(kind.Config, config.method_options | each, f"method {config.method}")
            for each in config.own_options("method")
        ]
        seeds = tuple(derive_seed(s, f"member {m}") if m else s for m in range(kind.members) for s in config.seeds)
        with imports_allowed(self.trusted):
            members = tuple(self.of_member(member).build(train) for member in self.members)
        setup = Setup(train, seeds, config.protocol, members)

        build = Build(config.method, self.model, config.model_options, setup)
        with imports_allowed(self.trusted):
            return kind(options * kind.members, build, config.protocol)


def is_of_members(model: ModelSpec) -> bool:
    kind = class_of(model)
    return kind is not None and issubclass(kind, Consensus)


def by_section(options: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Options such as `model.dim` and `train.lr`, apart by what they are of."""
    if not isinstance(options, Mapping):
        raise InputError(f"options is {shown(options)}; write it as {{'model.dim': 64}}.")
    sections: dict[str, dict[str, Any]] = {name: {} for name in SECTIONS}
    for key, value in options.items():
        section, _, name = key.partition(".")
        if section not in sections or not name:
            raise InputError(f"unknown option '{key}'; options are written {', '.join(f'{s}.NAME' for s in SECTIONS)}.")
        sections[section][name] = value
    return sections


def in_a_batch(settings: TrainConfig, size: int) -> int:
    """How many of so many positives, or users, a batch has."""
    return settings.batch_size or min(MOST_IN_A_BATCH, max(LEAST_IN_A_BATCH, size // 40))


def reference(spec: Any) -> str:
    """The name or dotted path by which a result says what it was made with."""
    return spec if isinstance(spec, str) else f"{spec.__module__}:{spec.__qualname__}"


def every_rule_kind(installed: bool = False) -> list[type[OwnRules]]:
    """The rules that our models and methods declare, each once; `installed`: those of other packages too."""
    groups: dict[str, Mapping[str, Any]] = {"method": METHODS, "model": MODELS}
    kinds = [
        kind.Rules
        for name, ours in groups.items()
        for kind in (with_declared(name, ours) if installed else ours).values()
        if hasattr(kind, "Rules")
    ]
    return [kind for kind in dict.fromkeys(kinds) if kind.model_fields]


def check_rules(protocol: Protocol, more: Iterable[type[OwnRules]] = ()) -> Protocol:
    """The protocol, if all that it says of single models and methods is what one of them declares."""
    kinds, extra = [*every_rule_kind(), *more], protocol.model_extra or {}
    if not extra.keys() <= {name for kind in kinds for name in kind.model_fields}:
        kinds = [*every_rule_kind(installed=True), *more]
    declared = {name for kind in kinds for name in kind.model_fields}
    for name in extra:
        if name not in declared:
            raise unknown("option of protocol", name, [*Protocol.model_fields, *sorted(declared)])
    for kind in kinds:
        protocol.rules_of(kind)
    return protocol


def recorded_rules(protocol: Protocol, kinds: Iterable[type[OwnRules]] = ()) -> dict[str, Any]:
    """The whole protocol as results have it: with what single models and methods obey of it, `kinds` its own."""
    rules = {
        name: value
        for kind in dict.fromkeys([*every_rule_kind(), *kinds])
        for name, value in protocol.rules_of(kind)
        if is_recorded(kind, name, value, protocol.name, kind in kinds)
    }
    return protocol.model_dump(mode="json") | rules


def is_recorded(kind: type[OwnRules], name: str, value: Any, preset: str, own: bool) -> bool:
    """Whether results say a rule of a model or method: one that came later, only where it changes anything."""
    field = kind.model_fields[name]
    as_before = preset_values(kind, preset)[name] == value == field.default
    return field.is_required() or (own and not as_before)


def run_entries(
    config: RunConfig,
    evaluation: Evaluation,
    states: Sequence[TrainState],
    validate: Callable[[], Sequence[float] | None],
) -> list[dict[str, Any]]:
    """One entry per run. Where no stage was trained, nothing was watched: `validate` then measures NDCG@20 of each."""
    entries = []
    watched = config.protocol.early_stop == "best-ndcg"
    measured = validate() if watched and not states else None
    for number, (seed, values) in enumerate(zip(config.seeds, evaluation.mean(), strict=True)):
        entry: dict[str, Any] = {"seed": seed, "metrics": values, "epochs": 0, "train_seconds": 0.0}
        result: float | None = None
        if states:
            last = states[-1]
            entry["epochs"] = last.stopped_at[number] or last.epoch
            entry["train_seconds"] = round(sum(state.seconds for state in states) / len(config.seeds), 3)
            best = last.best[number :: len(config.seeds)]  # of each member
            result = statistics.fmean(best) if watched and np.isfinite(best).all() else None
        elif measured is not None:
            result = measured[number]
        entries.append(entry | ({} if result is None else {"valid_ndcg@20": result}))
    return entries
