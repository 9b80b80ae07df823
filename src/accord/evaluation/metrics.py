"""Ranking metrics with binary gains, as functions of the hits.

`hits` [..., K] says which of the K ranked items are relevant, `relevant` [...] how many relevant items there are.
"""

from __future__ import annotations

import torch
from torch import Tensor


def recall(hits: Tensor, relevant: Tensor) -> Tensor:
    return hits.sum(-1) / relevant


def precision(hits: Tensor, relevant: Tensor) -> Tensor:
    return hits.double().mean(-1)


def hit_rate(hits: Tensor, relevant: Tensor) -> Tensor:
    return hits.any(-1).double()


def mrr(hits: Tensor, relevant: Tensor) -> Tensor:
    """One over the rank of the first hit."""
    ranks = torch.arange(1, hits.shape[-1] + 1, device=hits.device, dtype=torch.float64)
    return (hits / ranks).amax(-1)


def ndcg(hits: Tensor, relevant: Tensor) -> Tensor:
    """DCG divided by that of an ideal list, which has all relevant items first."""
    k = hits.shape[-1]
    discounts = 1 / torch.log2(torch.arange(2, k + 2, device=hits.device, dtype=torch.float64))
    ideal = discounts.cumsum(0)[relevant.clamp(1, k).long() - 1]
    return (hits * discounts).sum(-1) / ideal


METRICS = {metric.__name__: metric for metric in (recall, ndcg, precision, mrr, hit_rate)}


def at_each_k(hits: Tensor, relevant: Tensor, ks: list[int]) -> dict[str, Tensor]:
    """Every metric at every K, named as `recall@20`: [...] each."""
    return {f"{name}@{k}": metric(hits[..., :k], relevant) for name, metric in METRICS.items() for k in ks}
