"""What was run: a config that is enough to repeat it, and how to build its networks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from accord.config import make_config
from accord.data.csr import Csr
from accord.errors import InputError
from accord.methods import ClosedForm, MethodSpec, find_method
from accord.methods.base import Method
from accord.models import ModelSpec, build_model
from accord.models.base import Model, Setup
from accord.nn.layers import derive_seed
from accord.protocol import Protocol
from accord.training.trainer import TrainConfig

MOST_SEEDS = 1000
MOST_K = 10**6


class RunConfig(BaseModel):
    """Everything that a stack of runs depends on besides the data. Written beside its result."""

    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=())

    model: str = Field(description="name, or module:Class of a caller's own")
    method: str | None = Field(description="name, or module:Class; none for models fitted in closed form")
    model_options: dict[str, Any]
    method_options: dict[str, Any]
    train: TrainConfig
    protocol: Protocol
    seeds: tuple[int, ...] = Field(min_length=1, max_length=MOST_SEEDS)
    ks: tuple[Annotated[int, Field(ge=1, le=MOST_K)], ...] = Field(min_length=1)
    varied: tuple[dict[str, Any], ...] = Field(
        default=(), description="options in which the runs of a stack differ, one entry a run: method.NAME or train.l2"
    )

    def own_options(self, section: str) -> list[dict[str, Any]]:
        """Of each run, the options of a section that are its own."""
        varied = self.varied or ({},) * len(self.seeds)
        prefix = f"{section}."
        return [{k.removeprefix(prefix): v for k, v in own.items() if k.startswith(prefix)} for own in varied]


@dataclass(frozen=True)
class Run:
    """A config with the classes that it names, which need not be importable by name."""

    config: RunConfig
    model: ModelSpec
    method: MethodSpec | None

    @classmethod
    def load(cls, config: RunConfig, model: ModelSpec | None, method: MethodSpec | None, allow_imports: bool) -> Run:
        """The run of a saved config. A file names code to import only where the caller allows that."""
        options = [config.method_options, *config.own_options("method")]
        partners = [own.get("g") for own in options]
        named = [None if model else config.model, None if method else config.method, *partners]
        foreign = [name for name in named if isinstance(name, str) and ":" in name]
        if foreign and not allow_imports:
            raise InputError(
                f"the run was made with {foreign[0]}, which loading would import and run; "
                "allow that with --allow-imports if you trust it (in Python: allow_imports=True, or give the class)."
            )
        return cls(config, model or config.model, method or config.method)

    def with_seeds(self, seeds: tuple[int, ...]) -> Run:
        """The same with other seeds; the runs' own options fall away, as they shape no network."""
        return Run(self.config.model_copy(update={"seeds": seeds, "varied": ()}), self.model, self.method)

    def build(self, train: Csr) -> Method:
        """The method with all its networks, each run at its own start."""
        config = self.config
        if self.method is None:
            setup = Setup(train, config.seeds, config.protocol)
            return ClosedForm(build_model(self.model, config.model_options, setup))
        kind = find_method(self.method)
        options = [
            make_config(kind.Config, config.method_options | own, f"method {config.method}")
            for own in config.own_options("method")
        ]
        seeds = tuple(derive_seed(s, f"member {m}") if m else s for m in range(kind.members) for s in config.seeds)
        setup = Setup(train, seeds, config.protocol)

        def build(spec: ModelSpec | None = None, purpose: str = "target") -> Model:
            if spec is None:
                return build_model(self.model, config.model_options, setup, purpose)
            return build_model(spec, {}, setup, purpose)

        return kind(options * kind.members, build, config.protocol)
