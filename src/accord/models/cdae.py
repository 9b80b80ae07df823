"""CDAE: a denoising autoencoder of a user's history, with a vector for each user.

With cosines and without vectors of users, `softmax` trains it in few epochs, and a history is all that scoring needs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Literal

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from accord.data.csr import Csr
from accord.kernels.lookups import places_of, row_dot, run_offsets
from accord.models.base import MOST_WIDE, Model, Setup
from accord.models.mf import START_OF_COSINES, ProductOrCosine, biased, start_from_factors, with_bias
from accord.nn.layers import Embedding, Linear, Streams, unit
from accord.protocol import OwnRules, rule

MOST_RECORDED = 2**23  # interactions over all runs that a GPU reads in every step, so that it can record one


class CDAERules(OwnRules):
    cdae_mask: bool = rule(False, True, "whether seen items are removed before ranking with CDAE")
    cdae_scoring_dropout: bool = rule(True, False, "whether CDAE scores with its input dropout on")
    cdae_reduction: Literal["sum", "mean"] = rule("sum", "mean", "plain BCE of CDAE is summed, or averaged")
    cdae_l2: Literal["norm", "squared"] = rule(
        "norm", "squared", "CDAE's penalty: l2 times the tensors' norms, or the squared one of every other model"
    )
    cdae_item_norm: Literal["batch", "train"] = rule(
        "batch", "train", "item norms in CDAE's input: within the batch, or over the training data"
    )
    cdae_negatives: Literal["cells", "users"] = rule(
        "cells", "users", "CDAE's negatives: any unseen cell of the batch's users, or one for each positive's user"
    )

    @property
    def reduction(self) -> Literal["mean", "sum"]:
        return self.cdae_reduction

    @property
    def penalty(self) -> Literal["squared", "norm"]:
        return self.cdae_l2

    @property
    def mask_seen(self) -> bool:
        return self.cdae_mask

    @property
    def user_negatives(self) -> Literal["cells", "users"]:
        return self.cdae_negatives


class CDAE(Model):
    name = "cdae"
    summary = "autoencoder of the user's history with input dropout and a user vector"
    batching = "users"
    reads_history = True
    Rules = CDAERules

    class Config(ProductOrCosine):
        dim: int = Field(32, ge=1, le=MOST_WIDE, description="width of the hidden layer")
        dropout: float = Field(0.5, ge=0, lt=1, description="share of the history dropped at the input in training")
        user_vectors: bool = Field(True, description="a vector for each user, added to the sum of the history")
        omit_when_default: ClassVar[tuple[str, ...]] = (*ProductOrCosine.omit_when_default, "user_vectors")

    ptr: Tensor
    items: Tensor
    item_counts: Tensor
    scales: Tensor

    def __init__(self, config: Any, setup: Setup) -> None:
        super().__init__(config, setup)
        rules, train = setup.protocol.rules_of(CDAERules), setup.train
        self.norms_of_batch = rules.cdae_item_norm == "batch"
        self.scoring_dropout = rules.cdae_scoring_dropout
        if self.norms_of_batch:
            self.user_block = 2048  # the norms depend on who is scored together
        self.cosine = config.scores == "cosine"
        bound = None if self.cosine else config.dim**-0.5
        self.encoder = Linear(setup.runs, setup.num_items, config.dim, START_OF_COSINES if self.cosine else "torch")
        self.user = Embedding(setup.runs, setup.num_users, config.dim, std=1.0) if config.user_vectors else None
        # the decoder is a linear layer whose rows are looked up by item
        self.decoder = Embedding(setup.runs, setup.num_items, config.dim, START_OF_COSINES, bound)
        has_bias = config.item_bias or not self.cosine  # products always have one
        self.decoder_bias = Embedding(setup.runs, setup.num_items, 1, 0.0, bound) if has_bias else None
        self.dropout = Streams(setup.seeds, "cdae dropout")
        self.recordable = setup.runs * len(train.items) <= MOST_RECORDED
        for name, array in (("ptr", train.ptr), ("items", train.items), ("item_counts", train.popularity())):
            self.register_buffer(name, torch.from_numpy(array), persistent=False)
        counts = self.ptr.diff().repeat_interleave(self.ptr.diff())
        self.register_buffer("scales", self._scaled(counts, self.item_counts[self.items.long()]), persistent=False)

    def begin(self, train: Csr) -> None:
        if self.config.start == "factors":
            start_from_factors(train, None, self.encoder.weight, self.decoder.weight)

    def forward(self, users: Tensor, items: Tensor) -> Tensor:
        hidden, place = self.encode_each(users)
        return biased(row_dot(hidden, self._decoder(), place, items), self.decoder_bias, items)

    def factors(self, users: Tensor) -> tuple[Tensor, Tensor]:
        return with_bias(self.encode(list(users)).view(*users.shape, -1), self._decoder(), self.decoder_bias)

    def _decoder(self) -> Tensor:
        return unit(self.decoder.weight) if self.cosine else self.decoder.weight

    def _hidden(self, summed: Tensor) -> Tensor:
        return unit(summed) if self.cosine else torch.tanh(summed)

    def encode_each(self, users: Tensor) -> tuple[Tensor, Tensor]:
        """Hidden vectors of the users among [R, B], or of all; and where each user's is found: [R, B]."""
        runs = len(users)
        keys = (users + run_offsets(runs, self.num_users, users.device)).view(-1)
        present = torch.zeros(runs * self.num_users, dtype=torch.long, device=users.device).index_fill_(0, keys, 1)
        if users.is_cuda and self.recordable:  # all users are encoded, so that the shapes of all steps are the same
            return self.encode_all(present.float()).view(runs, self.num_users, -1), users
        everyone = [each.nonzero().squeeze(1) for each in present.view(runs, -1)]  # each user is encoded once
        of_runs = list(torch.split(self.encode(everyone), [len(each) for each in everyone]))
        return pad_sequence(of_runs, batch_first=True), (present.view(runs, -1).cumsum(1) - 1).gather(1, users)

    def encode_all(self, present: Tensor) -> Tensor:
        """Hidden vectors of every user of every run, [R * U, dim]; `present` [R * U] is 1 for those of the batch."""
        num_runs, num_items, dim = self.encoder.weight.shape
        counts = self.ptr.diff()
        size, device = len(self.items), self.items.device
        owner = torch.repeat_interleave(torch.arange(self.num_users, device=device), counts, output_size=size)
        owners = (owner + run_offsets(num_runs, self.num_users, device)).view(-1)
        places = (self.items + run_offsets(num_runs, num_items, device)).view(-1)
        values = self.scales.repeat(num_runs)
        if self.norms_of_batch:
            within = torch.zeros(num_runs * num_items, device=device).index_add_(0, places, present[owners])
            values = self._scaled(counts[owner].repeat(num_runs), within[places].clamp(min=1))
        if self.training or self.scoring_dropout:
            values = values * self._kept([size] * num_runs, device)
        rows = self.encoder.weight.view(-1, dim).index_select(0, places) * values.unsqueeze(1)
        summed = torch.zeros(num_runs * self.num_users, dim, device=device).index_add(0, owners, rows)
        summed = summed.view(num_runs, self.num_users, dim) + self.encoder.bias.unsqueeze(1)
        return self._hidden(summed if self.user is None else summed + self.user.weight).view(-1, dim)

    def encode(self, of_runs: Sequence[Tensor]) -> Tensor:
        """Hidden vectors [n, dim] of the users of each run, end to end."""
        users, sizes = torch.cat(list(of_runs)), [len(each) for each in of_runs]
        counts = torch.tensor(sizes, device=users.device)
        runs = torch.repeat_interleave(torch.arange(len(sizes), device=users.device), counts, output_size=len(users))
        # not bias[runs]: threads would add up its gradient in any order
        summed = self._sums(runs, users) + self.encoder.bias.index_select(0, runs)
        if self.user is not None:
            summed = summed + F.embedding(users + runs * self.num_users, self.user.weight.view(-1, summed.shape[-1]))
        return self._hidden(summed)

    def _sums(self, runs: Tensor, users: Tensor) -> Tensor:
        """What the histories of users [n] in runs [n] add up to at the input: [n, dim]."""
        owner, entries, starts = places_of(self.ptr, users)
        places = self.items[entries].long() + runs[owner] * self.num_items
        num_runs, _, dim = self.encoder.weight.shape
        values = self.scales[entries]
        if self.norms_of_batch:
            counts = (self.ptr[users + 1] - self.ptr[users])[owner]
            values = self._scaled(counts, torch.bincount(places, minlength=num_runs * self.num_items)[places])
        if self.training or self.scoring_dropout:
            values = values * self._kept(torch.bincount(runs[owner], minlength=num_runs).tolist(), values.device)
        return F.embedding_bag(places, self.encoder.weight.view(-1, dim), starts, mode="sum", per_sample_weights=values)

    def _scaled(self, of_user: Tensor, of_item: Tensor) -> Tensor:
        """1 / sqrt(|x_u| * |x_i|), the norms being roots of these counts."""
        return (of_user * of_item).to(self.encoder.weight).pow(-0.25)

    def _kept(self, counts: list[int], device: torch.device) -> Tensor:
        keep: float = 1 - self.config.dropout
        return self.dropout.uniform(counts, device).lt_(keep).div_(keep)

    def score_all(self, users: Tensor) -> Tensor:
        num_runs = len(self.encoder.weight)
        hidden = self.encode([users] * num_runs).view(num_runs, len(users), -1)
        return biased(hidden @ self._decoder().mT, self.decoder_bias)

    def fold_in(self, history: Tensor) -> Tensor:
        values = self._scaled(torch.tensor(len(history)), self.item_counts[history].clamp(min=1))
        hidden = self._hidden(torch.einsum("rnd,n->rd", self.encoder.weight[:, history], values) + self.encoder.bias)
        return biased(torch.einsum("rd,rid->ri", hidden, self._decoder()).unsqueeze(1), self.decoder_bias).squeeze(1)

    def item_vectors(self) -> Tensor:
        return self.decoder.weight[0]
