"""DeCA and DeCA(p): denoising by cross-model agreement (WWW 2022).

Observed feedback is a corrupted view of real preference r. Besides the target f = P(r=1), two networks model the
corruption, h = P(observed | r=0) and h' = P(observed | r=1), and f is pulled towards a second opinion p on the same
pair: an auxiliary g trained with it (DeCA), or a frozen copy of f trained plainly before (DeCA(p)). Either may be of
any other family; a solved model is frozen in both."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from accord.config import BaseConfig
from accord.data.sampling import Batch
from accord.kernels.agreement import agreement, agreement_terms, labelled_agreement, log
from accord.methods.base import Build, Method, TrainingContext
from accord.methods.labels import labels_of
from accord.methods.normal import Pretrain
from accord.methods.partner import SolvedPartner
from accord.models import is_solved
from accord.models.base import Model
from accord.protocol import OwnRules, Protocol, rule


class AgreementConfig(BaseConfig):
    c1: float = Field(10.0, ge=0, description="C₁: how sure a negative is assumed to be when positives are denoised")
    c2: float = Field(10.0, ge=0, description="C₂: how sure a positive is assumed to be when negatives are denoised")
    alpha: float = Field(0.5, ge=0, le=1, description="α: weight between the two directions of the divergence")
    only: Literal["both", "dp", "dn"] = Field(
        "both", description="denoise both, only positives (dp) or only negatives (dn)"
    )
    h: str = Field("mf", description="model of the corruption networks h and h′: any learned model")
    alternate: bool = Field(True, description="denoise positives and negatives in turn; false: both at once")


class DeCARules(OwnRules):
    """In what the released code differs from the paper."""

    first_step: Literal["both", "dp"] = rule("both", "dp", "the first DeCA step does both sub-tasks at once, or DP")
    alpha_weighs: Literal["p-f", "f-p"] = rule("p-f", "f-p", "the divergence that alpha weighs in DeCA(p)")
    partner_start: Literal["same", "different"] = rule(
        "same", "different", "DeCA(p) starts from its frozen partner's initial weights, or from others"
    )


class DeCA(Method):
    name = "deca"
    summary = "denoising by agreement with an auxiliary model trained beside the target"
    recordable = True
    Rules = DeCARules

    class Config(AgreementConfig):
        g: str = Field("mf", description="the auxiliary model that should agree: any model; a solved one is frozen")

    per_run: ClassVar[tuple[str, ...]] = ("c1", "c2", "alpha")
    models = ("g", "h")
    c1: Tensor
    c2: Tensor
    alpha: Tensor

    def __init__(self, configs: Sequence[Any], build: Build, protocol: Protocol) -> None:
        super().__init__(configs, build, protocol)
        self.own_rules = protocol.rules_of(DeCARules)
        self.h = build(self.config.h, purpose="h")
        self.h_real = build(self.config.h, purpose="h real")
        self._make_partner(build)
        self.phase = "both"

    def _make_partner(self, build: Build) -> None:
        self.partner = self._partner_of(self.config.g, build)

    def _partner_of(self, spec: str, build: Build) -> Model | SolvedPartner:
        return SolvedPartner(spec, build) if is_solved(spec) else build(spec, purpose="partner")

    def stages(self, context: TrainingContext) -> None:
        partner = self.partner if isinstance(self.partner, SolvedPartner) else None
        if partner is not None:
            partner.solve(context, self.alpha.device)
        context.train(self)
        if partner is not None:
            partner.forget()

    def opinion(self, batch: Batch) -> Tensor:
        logits: Tensor = self.partner(batch.users, batch.items)
        return logits

    def begin_step(self, step: int) -> str:
        """Which sub-task a step works on: denoise positives (dp), negatives (dn), or both at once."""
        if self.config.only != "both":
            self.phase = str(self.config.only)
        elif not self.config.alternate or (step == 0 and self.own_rules.first_step == "both"):
            self.phase = "both"
        else:
            self.phase = "dp" if (step % 2 == 1) == (self.own_rules.first_step == "both") else "dn"
        return self.phase

    def loss(self, batch: Batch) -> Tensor:
        pairs, size = (batch.users, batch.items), batch.num_positives
        f, p = self.target(*pairs), self.opinion(batch)
        corruption = {"dp": (self.h,), "dn": (self.h_real,)}.get(self.phase, (self.h, self.h_real))
        h = [network(*pairs) for network in corruption]
        if self.phase == "both":  # the released code's form, the same on positives and negatives
            f1, p1, h0, h1 = (torch.sigmoid(x) for x in (f, p, *h))
            terms = agreement(f1, p1, self.alpha) - log(1 - h0) * (1 - f1) - log(1 - h1) * f1
        else:
            dp = self.phase == "dp"
            terms = agreement_terms(f, p, h[0], self.alpha, self.c1 if dp else self.c2, size, dp)
        if (labels := labels_of(batch)) is not None:
            labelled_terms = labelled_agreement(labels.r, f[:, :size], p[:, :size])
            if self.phase != "dn":
                labelled_terms = labelled_terms - (1 - labels.r) * log(torch.sigmoid(h[0][:, :size]))
            if self.phase != "dp":
                labelled_terms = labelled_terms - labels.r * log(torch.sigmoid(h[-1][:, :size]))
            terms = torch.cat([torch.where(labels.present, labelled_terms, terms[:, :size]), terms[:, size:]], 1)
        return batch.mean(terms)

    def belief(self, users: Tensor, items: Tensor) -> Tensor:
        """P(r=1 | observed) = h'f / (h'f + h(1 − f))."""
        f = torch.sigmoid(self.target(users, items))
        real = torch.sigmoid(self.h_real(users, items)) * f
        noise = torch.sigmoid(self.h(users, items)) * (1 - f)
        return real / (real + noise).clamp(min=1e-30)


class DeCAp(DeCA):
    name = "deca-p"
    summary = "denoising by agreement with a frozen copy of the target, trained plainly before"
    num_stages = 2
    models = ("partner", "h")

    class Config(AgreementConfig):
        partner: str | None = Field(
            None, description="model of the frozen partner: any model; the target's own kind if not given"
        )

        omit_when_default = ("partner",)

    def __init__(self, configs: Sequence[Any], build: Build, protocol: Protocol) -> None:
        super().__init__(configs, build, protocol)
        if self.own_rules.alpha_weighs == "f-p":  # the paper's equation; the released code weighs D[p‖f]
            self.alpha = 1 - self.alpha

    def _make_partner(self, build: Build) -> None:
        same = self.own_rules.partner_start == "same"
        if self.config.partner is None:
            self.partner = build(purpose="target" if same else "partner")
        else:
            self.partner = self._partner_of(self.config.partner, build)
        self.num_stages = 1 if isinstance(self.partner, SolvedPartner) else 2

    def stages(self, context: TrainingContext) -> None:
        if not isinstance(self.partner, SolvedPartner):
            context.train(Pretrain(self.partner, self.protocol))
        super().stages(context)

    def train(self, mode: bool = True) -> DeCAp:
        for network in self.children():
            network.train(mode and network is not self.partner)  # frozen: it only gives its opinion
        self.training = mode
        return self

    def opinion(self, batch: Batch) -> Tensor:
        with torch.no_grad():
            return super().opinion(batch)

    def belief(self, users: Tensor, items: Tensor) -> Tensor:
        return torch.sigmoid(self.target(users, items))
