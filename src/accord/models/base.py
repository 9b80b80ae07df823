"""What a model is: something that scores pairs, and all items for a user. It knows no loss and no training.

It is built (shapes), and then learned by a training loop or solved by its own `fit`. Loading builds it and fills it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from accord.config import BaseConfig
from accord.data.csr import Csr
from accord.protocol import OwnRules, Protocol

MOST_WIDE = 2**14  # an embedding
EXACT = 2**19  # numbers of a table, up to which it is stored as it was trained


@dataclass(frozen=True)
class Setup:
    """What a model may know of the data: the training pairs, and the seeds of the runs in its stack."""

    train: Csr
    seeds: tuple[int, ...]
    protocol: Protocol
    members: tuple[nn.Module, ...] = ()  # methods, of a model that is made of others

    @property
    def runs(self) -> int:
        return len(self.seeds)

    @property
    def num_users(self) -> int:
        return self.train.num_users

    @property
    def num_items(self) -> int:
        return self.train.num_items


@dataclass(frozen=True)
class Shape:
    """How large a log is, as far as the cost of a solved model depends on it."""

    num_users: int
    num_items: int
    num_interactions: int
    by_user: int  # sum of n^2 over users of n interactions: no fewer than X'X has non-zeros
    by_item: int  # sum of n^2 over items of n interactions: no fewer than XX' has non-zeros
    num_judged: int | None = None  # users of the validation; None: all may be
    gpu: bool = False  # whether what can run on one does

    @classmethod
    def of(cls, train: Csr) -> Shape:
        by_user, by_item = (int(np.dot(n, n)) for n in (train.counts, train.popularity()))
        return cls(train.num_users, train.num_items, len(train.items), by_user, by_item)


class Cost(NamedTuple):
    """What a solved model takes, about: seconds on two cores of the machine in docs/performance.md, bytes in fitting.
    The seconds follow from sizes and options alone, so that what is decided by them is decided alike everywhere."""

    fit: float
    rank: float  # the best of all items, once, for all users
    memory: int


class Model(nn.Module):
    """Scores pairs for R runs at once. Every parameter carries the leading run dimension.

    >>> import torch
    >>> class Newest(accord.Model):
    ...     name, summary, solved, logits = "newest", "the items whose ids come last", True, False
    ...     def __init__(self, config, setup):
    ...         super().__init__(config, setup)
    ...         self.register_buffer("place", torch.arange(setup.num_items).float())
    ...     def fit(self, train, weight=None):
    ...         pass
    ...     def score_all(self, users):
    ...         return self.place.expand(1, len(users), -1).clone()
    >>> accord.fit(accord.load("demo"), Newest).recommend(["u0001"], k=1)["item"].to_pylist()
    ['i0600']
    """

    name: ClassVar[str]
    Config: ClassVar[type[BaseConfig]] = BaseConfig
    summary: ClassVar[str]
    Rules: ClassVar[type[OwnRules]] = OwnRules  # what it alone obeys of the protocol
    recordable: bool = False  # see layers.is_recordable
    only_looks_up: ClassVar[bool] = False  # see layers.tables_by_rows
    solved: ClassVar[bool] = False  # by `fit`; else it is learned with a method
    seeded: ClassVar[bool] = False  # whether a solved model draws random numbers: it then has a run for each seed
    own_scale: ClassVar[bool] = False  # whether a vote takes its scores as they are, not standardised within a user
    logits: ClassVar[bool] = True  # whether scores are logits, which probabilities can be made of
    reads_history: ClassVar[bool] = False  # whether a learned one scores users from their pairs, who may be new then
    user_vectors: ClassVar[bool] = True  # whether a learned one has them
    batching: ClassVar[Literal["pairs", "users"]] = "pairs"
    user_block: int | None = None  # score at most so many users at once
    most_items: ClassVar[float] = float("inf")  # that it can be fitted on
    on_progress: Callable[[float], None] | None = None  # gets the share of a fit that is done

    def __init__(self, config: Any, setup: Setup) -> None:
        super().__init__()
        self.config = config
        self.num_users, self.num_items, self.seeds = setup.num_users, setup.num_items, setup.seeds

    def fit(self, train: Csr, weight: npt.NDArray[np.float64] | None = None) -> None:
        """Solve the model, if that is what it is: `weight` says what each interaction counts for, 1 if not given."""
        raise AssertionError("a solved model says how it is fitted")

    def begin(self, train: Csr) -> None:
        """Get ready to be learned from these interactions: called once before the training loop, never in loading."""

    @classmethod
    def reads(cls, config: Any) -> tuple[str, ...]:
        """Columns of the training interactions that it needs with these options, besides weights."""
        return ()

    @classmethod
    def cost(cls, config: Any, shape: Shape) -> Cost:
        """What one run of a solved model takes with these options: here, of an inverse of items by items."""
        items, cells = shape.num_items, shape.num_users * shape.num_items
        if shape.gpu:
            return Cost(0.1 + 6e-14 * items**3 + 1.5e-9 * items**2 + 1e-9 * shape.by_user, 2e-10 * cells, 12 * items**2)
        fit = (2e-11 if items <= 4096 else 6.5e-12) * items**3 + 2e-9 * shape.by_user + 0.08  # float64, then float32
        return Cost(fit, 1e-9 * cells + 1e-10 * shape.num_interactions * items, 12 * items**2)

    @classmethod
    def least_numbers(cls, options: Mapping[str, Any], runs: int, num_users: int, num_items: int) -> int:
        """No more numbers than a run folder of these options holds: it is compared before the model is built."""
        users = num_users * options.get("user_vectors", cls.user_vectors)
        return num_items if cls.solved else runs * (users + num_items) * options.get("dim", 1)

    def make_room(self, tensors: Mapping[str, Tensor]) -> None:
        """Get ready to load `tensors` where the length of a buffer is known from them alone; ValueError if they cannot
        be of such a model."""

    def leave_out_smallest(self, most: int | None = None) -> None:
        """Drop the weights that change hardly any list, if there are many; all but the `most` largest between items."""

    def forward(self, users: Tensor, items: Tensor) -> Tensor:
        """Logits of pairs: users [R, B], items [R, B] -> [R, B]."""
        raise AssertionError("a model scores pairs")

    def score_all(self, users: Tensor) -> Tensor:
        """Logits of every item: users [B], the same for every run -> [R, B, I]. In memory of their own: ranking marks
        what was seen in them."""
        raise AssertionError("a model scores all items")

    def factors(self, users: Tensor) -> tuple[Tensor, Tensor] | None:
        """Vectors of users [R, B] and of all items, [R, B, d] and [R, I, d], whose products put a user's items in the
        order that `score_all` does; None if the model has none."""
        return None

    def contexts(self, users: Tensor, items: Tensor) -> tuple[Tensor, Tensor] | None:
        """Of pairs [R, P], the vectors of their users as they were before them, and those of all items: [R, P, d] and
        [R, I, d]; None: a model whose users are always the same."""
        return None

    def item_vectors(self) -> Tensor | None:
        """Vectors of all items [I, d], of the first run, whose cosine says how similar two are; None: it has none."""
        return None

    def item_to_item(self) -> Tensor | None:
        """What an item of a history adds to the score of each other: [I, I]; None: the model is no such sum."""
        return None

    def contributions(self, history: Tensor, items: Tensor, user: int | None = None) -> Tensor | None:
        """What each item of a history [n] adds to the scores of items [m]: [R, n, m]; None: scores are no such sum.
        `user`: of training, whose pairs these are, in their order; None: nobody's, the latest last."""
        return None

    def for_newcomers(self) -> Tensor | None:
        """Scores of the items for users without history: [I]; None: their popularity."""
        return None

    @property
    def in_order(self) -> bool:
        """Whether the order of a history says something: the latest item is the last."""
        return False

    def scores_of(self, history: Tensor) -> Tensor | None:
        """`fold_in` of a history in the order of time. Where that says nothing items go by their rows, as the order of
        a sum decides its last bits."""
        return self.fold_in(history if self.in_order else history.sort().values)

    def fold_in(self, history: Tensor) -> Tensor | None:
        """Logits of every item of a new user with this history [n] of item rows: [R, I]; None if the model cannot."""
        return None


def memory_of(device: torch.device) -> int:
    if device.type == "cuda":
        return int(torch.cuda.get_device_properties(device).total_memory)
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else 2**63


@torch.no_grad()
def compact(network: nn.Module, most: int | None = None) -> None:
    """Let large tables of a trained network take less room before it is evaluated, as a run folder then stores them:
    without the smallest weights between items, and rounded to half precision; small tables too where only the `most`
    largest weights of each model may stay."""
    for model in network.modules():
        if isinstance(model, Model):
            model.leave_out_smallest(most)
    for tensor in network.state_dict().values():
        if (
            tensor.dtype == torch.float32
            and tensor.numel() > (EXACT if most is None else 0)
            and tensor.abs().max() < torch.finfo(torch.half).max
        ):
            tensor.copy_(tensor.half())


def pairs_of_block(users: Tensor, num_items: int) -> tuple[Tensor, Tensor]:
    """Every pair of some users with all items, flat: [B * I] each."""
    return users.repeat_interleave(num_items), torch.arange(num_items, device=users.device).repeat(len(users))
