"""The terms of DeCA's loss: the torch code that defines them, and the kernel for CUDA."""

from __future__ import annotations

import torch
from torch import Tensor

from accord.kernels import cuda

GUARD = 1e-5  # under every logarithm, as in the released code


def log(x: Tensor) -> Tensor:
    return torch.log(x + GUARD)


def agreement(f: Tensor, p: Tensor, alpha: Tensor) -> Tensor:
    """K = α D[p‖f] + (1 − α) D[f‖p], where D[a‖b] = a log(a/b) + (1 − a) log((1 − a)/(1 − b)).
    Both directions share their logarithms: with w = α p − (1 − α) f, K = w log(p/f) + (2α − 1 − w) log((1−p)/(1−f))."""
    weight = alpha * p - (1 - alpha) * f
    return weight * (log(p) - log(f)) + (2 * alpha - 1 - weight) * (log(1 - p) - log(1 - f))


def reference_terms(f: Tensor, p: Tensor, h: Tensor, alpha: Tensor, c: Tensor, num_positives: int, dp: bool) -> Tensor:
    """K − L of each pair, from the logits of f, p and of h (a DP step, C₁) or h' (DN, C₂): [R, P + N]."""
    f, p, h = torch.sigmoid(f), torch.sigmoid(p), torch.sigmoid(h)
    positive = torch.arange(f.shape[1], device=f.device) < num_positives
    likelihood = log(torch.where(positive, h, 1 - h))  # of what was observed
    likely = likelihood * (1 - f) - c * f * ~positive if dp else likelihood * f - c * (1 - f) * positive
    return agreement(f, p, alpha) - likely


def labelled_agreement(r: Tensor, f: Tensor, p: Tensor) -> Tensor:
    """K where a label gives the real preference r: the cross-entropy of both models with it, from their logits."""
    f, p = torch.sigmoid(f), torch.sigmoid(p)
    return -r * (log(f) + log(p)) - (1 - r) * (log(1 - f) + log(1 - p))


def agreement_terms(f: Tensor, p: Tensor, h: Tensor, alpha: Tensor, c: Tensor, num_positives: int, dp: bool) -> Tensor:
    if cuda.usable(f):
        return cuda.agreement_terms(f, p, h, alpha, c, num_positives, dp, GUARD)
    return reference_terms(f, p, h, alpha, c, num_positives, dp)
