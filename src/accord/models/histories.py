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
from accord.kernels.neighbours import history_scores, sums_of_rows
from accord.models.base import EXACT, Model, Setup, memory_of

MOST_DENSE = 10_000  # items up to which sparse weights can be laid out as one dense matrix
OTHER = "choose another model, for example sparse-ease"
SPARSE = 0.4  # share of dense weights up to which those that are not left out are stored as sparse ones
SAMPLED, ROWS_AT_ONCE = 2**22, 2**10  # weights by which it is judged which are small; rows that are made sparse


def interaction_matrix(train: Csr, weight: npt.NDArray[np.float64] | None = None) -> Any:
    """X [U, I], sparse: what each interaction counts for, 1 if not given."""
    counts = np.ones(len(train.items)) if weight is None else weight
    return sp.csr_matrix((counts, train.items, train.ptr), shape=(train.num_users, train.num_items))


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
        0.0,
        ge=0,
        description="an interaction of a history counts half for every so many later ones; 0: all count the same",
    )
    omit_when_default: ClassVar[tuple[str, ...]] = ("recency",)


class CleanConfig(HistoryConfig):
    clean: bool = Field(False, description="an interaction counts for its p_real, where it is known, in histories too")
    omit_when_default: ClassVar[tuple[str, ...]] = ("recency", "clean")


class ScoresHistories(Model):
    """A solved model that knows its users by their histories alone: these are of the run, not of its weights."""

    solved = True
    logits = False

    Config: ClassVar[type[BaseConfig]] = HistoryConfig
    fades_by: ClassVar[str] = "recency"  # the option that says how fast a history does

    @classmethod
    def reads(cls, config: Any) -> tuple[str, ...]:
        return ("time",) if getattr(config, cls.fades_by, 0) else ()

    def history_counts(self, train: Csr) -> npt.NDArray[np.float64] | None:
        """What each interaction counts for in the history of its user: [n]; None: 1."""
        weight = train.columns.get("weight")  # a history counts as it did when the model was fitted
        if not self.in_order:
            return weight
        if "time" not in train.columns:
            problem = f"option recency of model {self.name} needs times, and the log has none; give "
            raise InputError(problem, ColumnArgument("time"), ", or leave the option out.")
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

    def _halved(self, ages: IntArray) -> npt.NDArray[np.float64]:
        with np.errstate(over="ignore"):
            result: npt.NDArray[np.float64] = np.exp2(-ages / getattr(self.config, self.fades_by))
        return result


class SparseWeights(ScoresHistories):
    """Scores X W with sparse weights W [I, I], of which a fitted model alone knows how many there are."""

    ends: Tensor | None
    columns: Tensor | None
    values: Tensor | None

    def __init__(self, config: Any, setup: Setup) -> None:
        super().__init__(config, setup)
        self.register_buffer("ends", torch.zeros(setup.num_items + 1, dtype=torch.int64))  # W row by row, as CSR has it
        self.register_buffer("columns", torch.empty(0, dtype=torch.int32))
        self.register_buffer("values", torch.empty(0, dtype=torch.float32))

    @property
    def histories(self) -> Any:
        """X [U, I], sparse: what each interaction counts for in the history of its user."""
        raise AssertionError("a model that scores X W says what X is")

    @property
    def weights(self) -> Any:
        """W [I, I], sparse; nothing is copied on a CPU."""
        parts = [part.cpu().numpy() for part in (self.values, self.columns, self.ends) if part is not None]
        return sp.csr_matrix(tuple(parts), shape=(self.num_items, self.num_items))

    def keep(self, weights: Any) -> None:
        self.ends = torch.from_numpy(weights.indptr.astype(np.int64)).to(self.place)
        self.columns = torch.from_numpy(weights.indices.astype(np.int32)).to(self.place)
        self.values = torch.from_numpy(weights.data.astype(np.float32)).to(self.place)

    @property
    def place(self) -> torch.device:
        return next(self.buffers()).device

    def leave_out_smallest(self, most: int | None = None) -> None:
        if self.values is None or self.columns is None or most is None or len(self.values) <= most:
            return
        large = self.values.abs() >= self.values.abs().kthvalue(len(self.values) - most).values
        self.ends = F.pad(large.cumsum(0), (1, 0))[self.ends]
        self.columns, self.values = self.columns[large], self.values[large]

    def make_room(self, tensors: Mapping[str, Tensor]) -> None:
        ends, columns = (tensors[name].long() for name in ("ends", "columns"))
        whole = len(ends) == self.num_items + 1 and int(ends[0]) == 0 and int(ends[-1]) == len(columns)
        if not whole or (ends.diff() < 0).any() or ((columns < 0) | (columns >= self.num_items)).any():
            raise ValueError("its weights are of no matrix of items by items")
        self.ends = torch.empty(len(ends), dtype=torch.int64)
        self.columns, self.values = torch.empty(len(columns), dtype=torch.int32), torch.empty(len(columns))

    def score_all(self, users: Tensor) -> Tensor:
        scores = history_scores(self.histories, self.weights, users.cpu().numpy())
        return torch.from_numpy(scores).to(self.place).unsqueeze(0)

    def fold_in(self, history: Tensor) -> Tensor:
        rows, counts = self.weights[history.cpu().numpy()], self.counts_of(history)
        rows = rows.sum(0) if counts is None else counts.cpu().numpy()[None] @ rows
        return torch.from_numpy(np.asarray(rows)).to(self.place)

    def user_counts(self, user: int) -> Tensor | None:
        return torch.from_numpy(self.histories[user].data).to(self.place)

    def contributions(self, history: Tensor, items: Tensor, user: int | None = None) -> Tensor:
        result, counts = self.weights_between(history, items), self.counts_in(history, user)
        return (result if counts is None else result * counts[:, None]).unsqueeze(0)

    def weights_between(self, rows: Tensor, columns: Tensor) -> Tensor:
        """Of W, some rows [n] and columns [m]: [n, m]."""
        result = self.weights[rows.cpu().numpy()][:, columns.cpu().numpy()].toarray()
        return torch.from_numpy(result).to(self.place)

    def item_to_item(self) -> Tensor | None:
        if self.num_items > MOST_DENSE:
            return None
        return torch.from_numpy(self.weights.toarray()).to(self.place)


class SparseItemToItem(SparseWeights):
    """Scores X W with weights that are solved as sparse ones."""

    counts: Tensor | None

    def __init__(self, config: Any, setup: Setup) -> None:
        super().__init__(config, setup)
        train = setup.train
        self.plain_histories = interaction_matrix(train, self.history_counts(train)).astype(np.float32)  # [U, I]
        counts = torch.from_numpy(self.plain_histories.data) if self.keeps_counts else None
        self.register_buffer("counts", counts)  # [n], in the order of the histories

    @property
    def histories(self) -> Any:
        if self.counts is None:
            return self.plain_histories
        result = self.plain_histories
        return sp.csr_matrix((self.counts.cpu().numpy(), result.indices, result.indptr), shape=result.shape)

    def count_histories(self, share: Tensor) -> None:
        assert self.counts is not None, "it keeps them"
        self.counts = self.counts * share.to(self.counts)


class DenseItemToItem(SparseWeights):
    """Scores X W with weights W [I, I] that are solved as a dense matrix, and stay one unless leaving out the smallest
    makes them sparse. The histories are on the device, end to end."""

    most_items = 60_000  # 14 GB
    needs: ClassVar[str] = "keeps an items x items matrix"
    left_out: ClassVar[float] = 0.0  # share of the sum of squares that the smallest weights may have which are left out

    weight: Tensor | None
    ptr: Tensor
    items: Tensor
    history_weight: Tensor | None

    def __init__(self, config: Any, setup: Setup) -> None:
        super().__init__(config, setup)
        if setup.num_items > self.most_items:
            raise InputError(
                f"{self.name} {self.needs}, and {setup.num_items:,} items are too many for that "
                f"(at most {self.most_items:,}); {OTHER}."
            )
        train = setup.train
        self.register_buffer("ptr", torch.from_numpy(train.ptr), persistent=False)
        self.register_buffer("items", torch.from_numpy(train.items), persistent=False)
        counts = self.history_counts(train)
        if counts is None and self.keeps_counts:
            counts = np.ones(len(train.items))
        weight = None if counts is None else torch.from_numpy(counts).float()
        self.register_buffer("history_weight", weight, persistent=self.keeps_counts)
        self.register_buffer("weight", torch.empty(0, 0))
        self.ends = self.columns = self.values = None  # a buffer of None is not stored

    def require_memory(self) -> None:
        """Refuse weights that cannot be held while they are dense."""
        if (size := 4 * self.num_items**2 / 2**30) > (most := memory_of(self.place) / 2**30):
            raise InputError(f"{self.name} {self.needs}, {size:.1f} GiB, of {most:.1f} GiB of memory; {OTHER}.")

    def leave_out_smallest(self, most: int | None = None) -> None:
        if self.weight is None:
            super().leave_out_smallest(most)
            return
        count = self.weight.numel()
        if count <= (EXACT if most is None else 2 * most):  # a dense one takes half as much
            return
        sizes = np.sort(self.weight.flatten()[:: max(1, self.weight.numel() // SAMPLED)].abs().cpu().numpy())
        squares = np.square(sizes, dtype=np.float64).cumsum()
        smallest = int(np.searchsorted(squares, self.left_out * squares[-1]))
        if most is not None:
            smallest = max(smallest, int(len(sizes) * (1 - most / count)))
        least = max(float(sizes[smallest]), 1e-30)
        if most is None and (sizes >= least).mean() > SPARSE:
            return
        large = [(block, block.abs() >= least) for block in torch.split(self.weight, ROWS_AT_ONCE)]
        self.ends = F.pad(torch.cat([kept.sum(1) for _, kept in large]).cumsum(0), (1, 0))
        self.columns = torch.cat([kept.nonzero()[:, 1].int() for _, kept in large])
        self.values, self.weight = torch.cat([block[kept] for block, kept in large]), None

    def make_room(self, tensors: Mapping[str, Tensor]) -> None:
        if "weight" not in tensors:
            self.weight = None
            super().make_room(tensors)
        elif tensors["weight"].shape == (self.num_items, self.num_items):
            self.weight = torch.empty(self.num_items, self.num_items)

    @property
    def histories(self) -> Any:
        ones = torch.ones(len(self.items))
        parts = (ones if self.history_weight is None else self.history_weight, self.items, self.ptr)
        return sp.csr_matrix(tuple(part.cpu().numpy() for part in parts), shape=(self.num_users, self.num_items))

    def score_all(self, users: Tensor) -> Tensor:
        if self.weight is None:
            own, weights = (self.ptr, self.items, self.history_weight), (self.ends, self.columns, self.values)
            return sums_of_rows(users, own, weights).unsqueeze(0) if users.is_cuda else super().score_all(users)
        _, places, starts = places_of(self.ptr, users)
        counts = None if self.history_weight is None else self.history_weight[places]
        items = self.items[places].long()
        return F.embedding_bag(items, self.weight, starts, mode="sum", per_sample_weights=counts).unsqueeze(0)

    def fold_in(self, history: Tensor) -> Tensor:
        if self.weight is None:
            return super().fold_in(history)
        rows, counts = self.weight[history], self.counts_of(history)
        return (rows if counts is None else rows * counts[:, None]).sum(0, keepdim=True)

    def user_counts(self, user: int) -> Tensor | None:
        return None if self.history_weight is None else self.history_weight[self.ptr[user] : self.ptr[user + 1]]

    def count_histories(self, share: Tensor) -> None:
        assert self.history_weight is not None, "it keeps them"
        self.history_weight = self.history_weight * share.to(self.history_weight)

    def weights_between(self, rows: Tensor, columns: Tensor) -> Tensor:
        return super().weights_between(rows, columns) if self.weight is None else self.weight[rows[:, None], columns]

    def item_to_item(self) -> Tensor | None:
        return super().item_to_item() if self.weight is None else self.weight


class WithFactors(SparseWeights):
    """Scores X (W + V A'), W of another such class: by V [I, d] and A [I, d] all items count for all others."""

    basis: Tensor
    spread: Tensor

    def __init__(self, config: Any, setup: Setup, dim: int) -> None:
        super().__init__(config, setup)
        self.dim = max(0, dim)
        self.register_buffer("basis", torch.zeros(setup.num_items, self.dim))  # V
        self.register_buffer("spread", torch.zeros(setup.num_items, self.dim))  # A

    def score_all(self, users: Tensor) -> Tensor:
        scores = super().score_all(users)
        if self.dim:
            taken = torch.from_numpy(self.histories[users.cpu().numpy()] @ self.basis.cpu().numpy()).to(self.spread)
            scores.baddbmm_(taken.unsqueeze(0), self.spread.mT.unsqueeze(0))
        return scores

    def fold_in(self, history: Tensor) -> Tensor:
        scores = super().fold_in(history)
        if not self.dim:
            return scores
        rows, counts = self.basis[history], self.counts_of(history)
        return scores + (rows.sum(0) if counts is None else counts @ rows) @ self.spread.mT

    def weights_between(self, rows: Tensor, columns: Tensor) -> Tensor:
        result = super().weights_between(rows, columns)
        return result + self.basis[rows] @ self.spread[columns].mT if self.dim else result

    def item_to_item(self) -> Tensor | None:
        weights = super().item_to_item()
        return weights + self.basis @ self.spread.mT if weights is not None and self.dim else weights
