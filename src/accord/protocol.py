"""Every rule that changes a reported number, by name. Two presets: `published` and `corrected`."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class Protocol(BaseModel):
    """How a model is trained and scored, apart from its own hyperparameters."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: Literal["published", "corrected"] = Field(description="the preset that the other fields started from")

    # scoring
    ties: Literal["index", "popularity"] = Field(
        description="equal scores are ranked by item index, or by training popularity and then a seeded shuffle"
    )
    rank_by: Literal["probability", "logit"] = Field(
        description="what is ranked; float32 probabilities tie where logits do not"
    )
    cold_users: Literal["model", "popularity"] = Field(
        description="users with no training history are scored by the model, or get the popular items"
    )
    validation: Literal["clean", "all"] = Field(
        description="validation pairs: only those known to be real where the data says so, or all; the same are masked"
    )
    test_overlap: Literal["keep", "remove"] = Field(
        description="test pairs of a validation that was cut from the test: they are masked and cannot be hit"
    )
    duplicate_test: Literal["keep", "merge"] = Field(description="duplicate test pairs count twice, or once")

    # training
    negatives: Literal["all", "unseen"] = Field(
        description="negatives are drawn from all items, or exactly from those the user has not in train"
    )
    early_stop: Literal["loss-rise", "best-ndcg"] = Field(
        description="stop at the second rise of validation BCE, last weights kept; or restore the best NDCG@20"
    )
    seeds: Literal[3, 10] = Field(description="how many seeds a result that is compared needs")
    settings: Literal["paper", "default"] = Field(
        description="hyperparameters of the paper's table where it has them, or one set of defaults for all"
    )

    # DeCA
    first_step: Literal["both", "dp"] = Field(description="the first DeCA step does both sub-tasks at once, or DP")
    alpha_weighs: Literal["p-f", "f-p"] = Field(description="the divergence that alpha weighs in DeCA(p)")
    partner_start: Literal["same", "different"] = Field(
        description="DeCA(p) starts from its frozen partner's initial weights, or from others"
    )

    # CDAE
    cdae_mask: bool = Field(description="whether seen items are removed before ranking with CDAE")
    cdae_scoring_dropout: bool = Field(description="whether CDAE scores with its input dropout on")
    cdae_reduction: Literal["sum", "mean"] = Field(description="plain BCE of CDAE is summed, or averaged")
    cdae_l2: Literal["norm", "squared"] = Field(
        description="CDAE's penalty: l2 times the tensors' norms, or the squared one of every other model"
    )
    cdae_item_norm: Literal["batch", "train"] = Field(
        description="item norms in CDAE's input: within the batch, or over the training data"
    )
    cdae_negatives: Literal["cells", "users"] = Field(
        description="CDAE's negatives: any unseen cell of the batch's users, or one for each positive's user"
    )


PUBLISHED = Protocol(
    name="published",
    ties="index",
    rank_by="probability",
    cold_users="model",
    validation="clean",
    test_overlap="keep",
    duplicate_test="keep",
    negatives="all",
    early_stop="loss-rise",
    seeds=3,
    settings="paper",
    first_step="both",
    alpha_weighs="p-f",
    partner_start="same",
    cdae_mask=False,
    cdae_scoring_dropout=True,
    cdae_reduction="sum",
    cdae_l2="norm",
    cdae_item_norm="batch",
    cdae_negatives="cells",
)

CORRECTED = Protocol(
    name="corrected",
    ties="popularity",
    rank_by="logit",
    cold_users="popularity",
    validation="all",
    test_overlap="remove",
    duplicate_test="merge",
    negatives="unseen",
    early_stop="best-ndcg",
    seeds=10,
    settings="default",
    first_step="dp",
    alpha_weighs="f-p",
    partner_start="different",
    cdae_mask=True,
    cdae_scoring_dropout=False,
    cdae_reduction="mean",
    cdae_l2="squared",
    cdae_item_norm="train",
    cdae_negatives="users",
)

PRESETS = {"published": PUBLISHED, "corrected": CORRECTED}
