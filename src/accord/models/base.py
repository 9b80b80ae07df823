"""What a model is: something that scores pairs, and all items for a user. It knows no loss and no training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from pydantic import BaseModel, ConfigDict
from torch import Tensor, nn

from accord.data.csr import Csr
from accord.data.user_shard import UserPart
from accord.nn.layers import Share
from accord.protocol import Protocol

MOST_WIDE = 2**14  # an embedding


class BaseConfig(BaseModel):
    """Options of a model or method: frozen, and an unknown key is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


@dataclass(frozen=True)
class Setup:
    """What a model may know of the data: the training pairs, and the seeds of the runs in its stack."""

    train: Csr
    seeds: tuple[int, ...]
    protocol: Protocol

    @property
    def runs(self) -> int:
        return len(self.seeds)

    @property
    def num_users(self) -> int:
        return self.train.num_users

    @property
    def num_items(self) -> int:
        return self.train.num_items

    @property
    def users(self) -> Share:
        """The rows of a table by user: of the users that are here, if others are elsewhere."""
        whole = self.train.everybody if isinstance(self.train, UserPart) else self.num_users
        return Share(self.train.first if isinstance(self.train, UserPart) else 0, self.num_users, whole)

    @property
    def items(self) -> int | Share:
        """The rows of a table by item that is only looked up in training and read by `Embedding.whole` in scoring."""
        if not isinstance(self.train, UserPart) or self.train.item_share is None:
            return self.num_items
        return Share(*self.train.item_share, self.num_items, fetched=True)


class Model(nn.Module):
    """Scores pairs for R runs at once. Every parameter carries the leading run dimension."""

    name: ClassVar[str]
    Config: ClassVar[type[BaseConfig]] = BaseConfig
    summary: ClassVar[str]
    recordable: ClassVar[bool] = False  # see layers.is_recordable
    only_looks_up: ClassVar[bool] = False  # see layers.tables_by_rows
    together: str | None = (
        "it does not say that users may be apart"  # why users cannot be on different ranks; not inherited
    )
    closed_form: ClassVar[bool] = False  # fitted without a loss; takes no method
    batching: ClassVar[Literal["pairs", "users"]] = "pairs"
    reduction: str = "mean"  # of the plain BCE
    masks_seen: bool = True  # whether seen items are removed before ranking
    user_block: int | None = None  # score at most so many users at once

    def __init__(self, config: Any, setup: Setup) -> None:
        super().__init__()
        self.config = config
        self.num_users, self.num_items, self.seeds = setup.num_users, setup.num_items, setup.seeds
        self.everybody = setup.users.whole

    def forward(self, users: Tensor, items: Tensor) -> Tensor:
        """Logits of pairs: users [R, B], items [R, B] -> [R, B]."""
        raise AssertionError("a model scores pairs")

    def score_all(self, users: Tensor) -> Tensor:
        """Logits of every item: users [B], the same for every run -> [R, B, I]."""
        raise AssertionError("a model scores all items")

    def factors(self, users: Tensor) -> tuple[Tensor, Tensor] | None:
        """Vectors of users [B, d] and of all items [I, d], of the first run, whose products put the items in the order
        that `score_all` does; None if the model has none."""
        return None

    def ready_to_score(self) -> None:
        """Do what scoring does once and ranks do together: they score different numbers of users."""

    def fold_in(self, history: Tensor) -> Tensor | None:
        """Logits of every item for somebody with this history [n] of item rows: [R, I]; None if the model cannot."""
        return None

    def decay(self, l2: Tensor) -> dict[nn.Parameter, Tensor]:
        """The gradient of l2 / 2 * sum(theta^2) / users is a factor [R] of each parameter."""
        return dict.fromkeys(self.parameters(), l2 / self.everybody)


def pairs_of_block(users: Tensor, num_items: int) -> tuple[Tensor, Tensor]:
    """Every pair of some users with all items, flat: [B * I] each."""
    return users.repeat_interleave(num_items), torch.arange(num_items, device=users.device).repeat(len(users))


def column(configs: Sequence[Any], name: str) -> Tensor:
    """A hyperparameter of each run as [R, 1], to go with [R, B]."""
    return torch.tensor([[float(getattr(config, name))] for config in configs])
