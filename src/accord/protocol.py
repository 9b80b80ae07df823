"""Every rule that changes a reported number, by name. Two presets: `published` and `corrected`.

Rules of a single model or method are declared in its module, as a subclass of `OwnRules`; they are part of the protocol
too: written into every result, and given as `protocol.NAME`."""

from __future__ import annotations

from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, SerializerFunctionWrapHandler, ValidationError, model_serializer

from accord.errors import invalid_option

PresetName = Literal["published", "corrected"]
NAMES: tuple[PresetName, ...] = ("published", "corrected")


def rule(published: Any, corrected: Any, description: str, before: Any = ...) -> Any:
    """A field with a value for each preset; `before` is what was done before the field existed.
    A rule with a `before` is written only where the preset differs from it, and only into the results of the model or
    method that declares it: all other results keep their keys."""
    return Field(before, description=description, json_schema_extra={"published": published, "corrected": corrected})


def preset_values(rules: type[BaseModel], name: str) -> dict[str, Any]:
    """The values that the rules of a class have under a preset."""
    extras = {field: info.json_schema_extra for field, info in rules.model_fields.items()}
    return {field: extra[name] for field, extra in extras.items() if isinstance(extra, dict)}


class OwnRules(BaseModel):
    """Rules of a single model or method; none by default."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @property
    def reduction(self) -> Literal["mean", "sum"]:
        """How the loss of a batch is reduced: the means over positives and over negatives, or one sum."""
        return "mean"

    @property
    def penalty(self) -> Literal["squared", "norm"]:
        """L2 of the target: l2 / 2 * sum(theta^2) / users, or l2 times the norm of each tensor."""
        return "squared"

    @property
    def mask_seen(self) -> bool:
        """Whether seen items are removed before ranking."""
        return True

    @property
    def user_negatives(self) -> Literal["cells", "users"]:
        """Negatives of a batch of users: any unseen cell of theirs, or one for each positive's user."""
        return "users"


Own = TypeVar("Own", bound=OwnRules)


class Protocol(BaseModel):
    """How a model is trained and scored, apart from its hyperparameters.

    >>> accord.CORRECTED.model_copy(update={"ties": "index"}).ties
    'index'
    """

    model_config = ConfigDict(frozen=True, extra="allow")  # extra: what models and methods declare

    name: PresetName = Field(description="the preset that the other fields started from")

    # scoring
    ties: Literal["index", "popularity"] = rule(
        "index",
        "popularity",
        "equal scores are ranked by item index, or by training popularity and then a seeded shuffle",
    )
    rank_by: Literal["probability", "logit"] = rule(
        "probability", "logit", "what is ranked; float32 probabilities tie where logits do not"
    )
    cold_users: Literal["model", "popularity"] = rule(
        "model", "popularity", "users without training history are scored by the model, or get popular items"
    )
    validation: Literal["clean", "all"] = rule(
        "clean",
        "all",
        "validation pairs: only those known to be real where the data says so, or all; the same are masked",
    )
    test_overlap: Literal["keep", "remove"] = rule(
        "keep", "remove", "test pairs of a validation that was cut from the test: they are masked and cannot be hit"
    )
    test_history: Literal["train", "train+valid"] = rule(
        "train",
        "train+valid",
        "what the tested model was fitted on: train; or, if each user's validation and test came later by the log's"
        " times, train and validation (solved models and their consensus)",
        before="train",
    )
    duplicate_test: Literal["keep", "merge"] = rule("keep", "merge", "duplicate test pairs count twice, or once")

    # training
    negatives: Literal["all", "unseen"] = rule(
        "all", "unseen", "negatives are drawn from all items, or only from those that the user does not have in train"
    )
    optimiser: Literal["adam", "decoupled", "by-size"] = rule(
        "adam",
        "by-size",
        "Adam with the penalty in its gradient; or without momentum and with a decoupled penalty, so that steps cost"
        " nothing for rows that are not looked up; or the second for large tables only, see below",
        before="adam",
    )
    early_stop: Literal["loss-rise", "best-ndcg"] = rule(
        "loss-rise",
        "best-ndcg",
        "stop at the second rise of validation BCE, last weights kept; or restore the best NDCG@20",
    )
    seeds: Literal[3, 10] = rule(3, 10, "how many seeds a result that is compared needs")
    settings: Literal["paper", "default"] = rule(
        "paper", "default", "hyperparameters of the paper's table where it has them, or one set of defaults for all"
    )

    @model_serializer(mode="wrap")
    def _omit_defaults(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Rules that have a `before` are written only where they differ from it, so that results keep their keys."""
        omitted = {(name, info.default) for name, info in Protocol.model_fields.items() if not info.is_required()}
        return {name: value for name, value in serialize(self).items() if (name, value) not in omitted}

    def rules_of(self, rules: type[Own]) -> Own:
        """The rules that a model or method declares, with the given values or those of the preset."""
        given = {name: value for name, value in (self.model_extra or {}).items() if name in rules.model_fields}
        try:
            return rules(**preset_values(rules, self.name) | given)
        except ValidationError as error:
            raise invalid_option(error, "protocol") from None


PRESETS: dict[str, Protocol] = {name: Protocol(name=name, **preset_values(Protocol, name)) for name in NAMES}
PUBLISHED, CORRECTED = PRESETS.values()
