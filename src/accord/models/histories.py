"""What the models that score from a history have in common: the histories, and item-to-item weights that are dense."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from accord.config import BaseConfig
from accord.data.csr import Csr, IntArray
from accord.errors import ColumnArgument, InputError
from accord.kernels.cpu import in_threads
from accord.kernels.lookups import places_of
from accord.kernels.neighbours import history_scores
from accord.models.base import Model, Setup

MOST_DENSE = 10_000  # items up to which sparse weights can be laid out as one dense matrix


def interaction_matrix(train: Csr, weight: npt.NDArray[np.float64] | None = None) -> Any:
    """X [U, I], sparse: what each interaction counts for, 1 if not given."""
    counts = np.ones(len(train.items)) if weight is None else weight
    return sp.csr_matrix((counts, train.items, train.ptr), shape=(train.num_users, train.num_items))


def clean_target(train: Csr, x: Any) -> Any:
    """x, as `interaction_matrix` gives it, times p_real of every interaction where the log has such a column."""
    p_real = train.columns.get("p_real")
    return x if p_real is None else sp.csr_matrix((x.data * p_real, x.indices, x.indptr), shape=x.shape)


def item_quality(train: Csr, p_real: npt.NDArray[np.float64], prior: float = 5.0) -> npt.NDArray[np.float64]:
    """The logit of the share of an item's interactions that are real, drawn to that of all as if there were `prior`
    more of these: [I], of mean 0."""
    total = np.bincount(train.items, p_real, train.num_items)
    mean = float(p_real.mean())
    share = np.clip((total + prior * mean) / (train.popularity() + prior), 1e-3, 1 - 1e-3)
    logit = np.log(share / (1 - share))
    result: npt.NDArray[np.float64] = logit - logit.mean()
    return result


def power_or_zero(sums: npt.NDArray[np.float64], power: float) -> npt.NDArray[np.float64]:
    """sums^power, and 0 for who has nothing."""
    result = np.zeros(len(sums))
    np.power(sums, power, out=result, where=sums > 0)
    return result


def by_blocks_of_gram(
    x: Any,
    take: Callable[[slice, Any], None],
    at_once: int,
    on_progress: Callable[[float], None] | None = None,
    y: Any = None,
) -> None:
    """Give `take` the rows of x'x, or of x'y, sparse, a block of so many items at a time; threads share them out."""
    by_item, other = x.T.tocsr(), (x if y is None else y).tocsr()
    starts, finished = range(0, x.shape[1], at_once), count(1)

    def multiply(start: int) -> None:
        rows = slice(start, start + at_once)
        take(rows, by_item[rows] @ other)
        if on_progress is not None:
            on_progress(next(finished) / len(starts))

    in_threads(multiply, [(start,) for start in starts])


@contextmanager
def one_thread() -> Iterator[None]:
    """A time in which torch has one thread: with several, the last bits may depend on how many there are."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def ages(train: Csr) -> IntArray:
    """Of each interaction, how many of its user come after it in time; of one moment, those of later rows: [n]."""
    order = np.lexsort([train.columns["time"], train.users])
    result = np.empty(len(order), dtype=np.int64)
    result[order] = np.repeat(train.ptr[1:], train.counts) - 1 - np.arange(len(order))
    return result


class HistoryConfig(BaseConfig):
    recency: float = Field(
        0.0, ge=0, description="in a user's history, interactions count half every so many later ones; 0: all alike"
    )
    omit_when_default: ClassVar[tuple[str, ...]] = ("recency",)


class CleanConfig(HistoryConfig):
    clean: bool = Field(False, description="an interaction counts for its p_real, where it is known, in histories too")
    omit_when_default: ClassVar[tuple[str, ...]] = ("recency", "clean")


class ScoresHistories(Model):
    """A solved model that knows its users by their histories alone: these are of the run, not of its weights."""

    solved = True
    logits = False

    Config = HistoryConfig

    @classmethod
    def reads(cls, config: Any) -> tuple[str, ...]:
        return ("time",) if getattr(config, "recency", 0) else ()

    def history_counts(self, train: Csr) -> npt.NDArray[np.float64] | None:
        """What each interaction counts for in the history of its user: [n]; None: 1."""
        weight = train.columns.get("weight")  # a history counts as it did when the model was fitted
        if not self.in_order:
            return weight
        if "time" not in train.columns:
            raise InputError(
                f"option recency of model {self.name} needs times, and the log has none; give ",
                ColumnArgument("time"),
                ", or leave the option out.",
            )
        share = self._halved(ages(train))
        return share if weight is None else weight * share

    @property
    def keeps_counts(self) -> bool:
        """Whether what histories count for is kept with the weights: a log does not say what is real."""
        return isinstance(self.config, CleanConfig) and self.config.clean

    def to_fit(self, train: Csr, weight: npt.NDArray[np.float64] | None) -> Any:
        """X [U, I], sparse, that weights between items are fitted to; histories count likewise from then on."""
        p_real = train.columns.get("p_real")
        if not self.keeps_counts or p_real is None:
            return interaction_matrix(train, weight)
        share = p_real / p_real.mean()
        self.count_histories(torch.from_numpy(share).float())
        return interaction_matrix(train, share if weight is None else weight * share)

    def count_histories(self, share: Tensor) -> None:
        """Let each interaction count for a share [n] of what it did."""
        raise AssertionError("a model that can be clean does")

    @property
    def in_order(self) -> bool:
        return bool(self.reads(self.config))

    def counts_of(self, history: Tensor) -> Tensor | None:
        """What each item of a history counts for, the last being the latest: [n]; None: 1."""
        if not self.in_order:
            return None
        return torch.from_numpy(self._halved(np.arange(len(history))[::-1])).float().to(history.device)

    def counts_in(self, history: Tensor, user: int | None) -> Tensor | None:
        """The same of a history that may be that of a user of training."""
        return self.counts_of(history) if user is None else self.user_counts(user)

    def user_counts(self, user: int) -> Tensor | None:
        """What each interaction of a user counts for: [n]; None: 1."""
        raise AssertionError("a model says what histories count for")

    def weights_between(self, rows: Tensor, columns: Tensor) -> Tensor:
        """Of W, some rows [n] and columns [m]: [n, m]."""
        raise AssertionError("a model that scores X W says what W is")

    def contributions(self, history: Tensor, items: Tensor, user: int | None = None) -> Tensor:
        result, counts = self.weights_between(history, items), self.counts_in(history, user)
        return (result if counts is None else result * counts[:, None]).unsqueeze(0)

    def _halved(self, ages: IntArray) -> npt.NDArray[np.float64]:
        with np.errstate(over="ignore"):
            result: npt.NDArray[np.float64] = np.exp2(-ages / self.config.recency)
        return result


class DenseItemToItem(ScoresHistories):
    """Scores X W with dense weights W [I, I]: what an item of a history adds to the score of each other. The histories
    are on the device, end to end."""

    most_items = 30_000
    needs: ClassVar[str] = "keeps an items x items matrix"

    weight: Tensor
    ptr: Tensor
    items: Tensor
    history_weight: Tensor | None

    def __init__(self, config: Any, setup: Setup) -> None:
        super().__init__(config, setup)
        if setup.num_items > self.most_items:
            raise InputError(
                f"{self.name} {self.needs}, and {setup.num_items:,} items are too many for that "
                f"(at most {self.most_items:,}); choose another model, for example sparse-ease."
            )
        train = setup.train
        self.register_buffer("ptr", torch.from_numpy(train.ptr), persistent=False)
        self.register_buffer("items", torch.from_numpy(train.items), persistent=False)
        counts = self.history_counts(train)
        if counts is None and self.keeps_counts:
            counts = np.ones(len(train.items))
        weight = None if counts is None else torch.from_numpy(counts).float()
        self.register_buffer("history_weight", weight, persistent=self.keeps_counts)
        self.register_buffer("weight", torch.empty(setup.num_items, setup.num_items, dtype=torch.float32))

    @classmethod
    def least_numbers(cls, options: Mapping[str, Any], runs: int, num_users: int, num_items: int) -> int:
        return num_items**2

    def score_all(self, users: Tensor) -> Tensor:
        _, places, starts = places_of(self.ptr, users)
        counts = None if self.history_weight is None else self.history_weight[places]
        items = self.items[places].long()
        return F.embedding_bag(items, self.weight, starts, mode="sum", per_sample_weights=counts).unsqueeze(0)

    def fold_in(self, history: Tensor) -> Tensor:
        rows, counts = self.weight[history], self.counts_of(history)
        return (rows if counts is None else rows * counts[:, None]).sum(0, keepdim=True)

    def user_counts(self, user: int) -> Tensor | None:
        return None if self.history_weight is None else self.history_weight[self.ptr[user] : self.ptr[user + 1]]

    def count_histories(self, share: Tensor) -> None:
        assert self.history_weight is not None, "it keeps them"
        self.history_weight = self.history_weight * share.to(self.history_weight)

    def weights_between(self, rows: Tensor, columns: Tensor) -> Tensor:
        return self.weight[rows.unsqueeze(1), columns]

    def item_to_item(self) -> Tensor:
        return self.weight


class SparseItemToItem(ScoresHistories):
    """Scores X W with sparse weights W [I, I], of which a fitted model alone knows how many there are."""

    ends: Tensor
    columns: Tensor
    values: Tensor
    counts: Tensor | None

    def __init__(self, config: Any, setup: Setup) -> None:
        super().__init__(config, setup)
        train = setup.train
        self.plain_histories = interaction_matrix(train, self.history_counts(train)).astype(np.float32)  # [U, I]
        counts = torch.from_numpy(self.plain_histories.data) if self.keeps_counts else None
        self.register_buffer("counts", counts)  # [n], in the order of the histories
        self.register_buffer("ends", torch.zeros(setup.num_items + 1, dtype=torch.int64))  # W row by row, as CSR has it
        self.register_buffer("columns", torch.empty(0, dtype=torch.int32))
        self.register_buffer("values", torch.empty(0, dtype=torch.float32))

    @property
    def histories(self) -> Any:
        """X [U, I], sparse: what each interaction counts for in the history of its user; nothing is copied on a CPU."""
        if self.counts is None:
            return self.plain_histories
        result = self.plain_histories
        return sp.csr_matrix((self.counts.cpu().numpy(), result.indices, result.indptr), shape=result.shape)

    def count_histories(self, share: Tensor) -> None:
        assert self.counts is not None, "it keeps them"
        self.counts = self.counts * share.to(self.counts)

    @property
    def weights(self) -> Any:
        """W [I, I], sparse; nothing is copied on a CPU."""
        parts = [part.cpu().numpy() for part in (self.values, self.columns, self.ends)]
        return sp.csr_matrix(tuple(parts), shape=(self.num_items, self.num_items))

    def keep(self, columns: Any) -> None:
        """Keep W, given column by column: CSR rows of W'."""
        weights = columns.T.tocsr()
        self.ends = torch.from_numpy(weights.indptr.astype(np.int64))
        self.columns = torch.from_numpy(weights.indices.astype(np.int32))
        self.values = torch.from_numpy(weights.data.astype(np.float32))

    def make_room(self, tensors: Mapping[str, Tensor]) -> None:
        ends, columns = (tensors[name].long() for name in ("ends", "columns"))
        whole = len(ends) == self.num_items + 1 and int(ends[0]) == 0 and int(ends[-1]) == len(columns)
        if not whole or (ends.diff() < 0).any() or ((columns < 0) | (columns >= self.num_items)).any():
            raise ValueError("its weights are of no matrix of items by items")
        self.columns, self.values = torch.empty(len(columns), dtype=torch.int32), torch.empty(len(columns))

    def score_all(self, users: Tensor) -> Tensor:
        scores = history_scores(self.histories, self.weights, users.cpu().numpy())
        return torch.from_numpy(scores).to(self.values.device).unsqueeze(0)

    def fold_in(self, history: Tensor) -> Tensor:
        rows, counts = self.weights[history.cpu().numpy()], self.counts_of(history)
        rows = rows.sum(0) if counts is None else counts.cpu().numpy()[None] @ rows
        return torch.from_numpy(np.asarray(rows)).to(self.values.device)

    def user_counts(self, user: int) -> Tensor:
        return torch.from_numpy(self.histories[user].data).to(self.values.device)

    def weights_between(self, rows: Tensor, columns: Tensor) -> Tensor:
        result = self.weights[rows.cpu().numpy()][:, columns.cpu().numpy()].toarray()
        return torch.from_numpy(result).to(self.values.device)

    def item_to_item(self) -> Tensor | None:
        if self.num_items > MOST_DENSE:
            return None
        return torch.from_numpy(self.weights.toarray()).to(self.values.device)
