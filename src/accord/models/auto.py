"""Auto: the consensus of whatever the log and the budget allow, found by a search."""

from __future__ import annotations

from pydantic import Field

from accord.config import BaseConfig
from accord.models.consensus import Consensus


class Auto(Consensus):
    """A consensus whose members are not given: its method finds them, and the run is then one of a consensus."""

    name = "auto"
    summary = "the default: tries the model families that the log's size allows, and lets the best of each vote"

    class Config(BaseConfig):
        budget: float = Field(120.0, gt=0, description="seconds for the search on two ordinary cores, by a cost model")
        recency: bool = Field(True, description="try histories that fade, where the log has times")
        omit_when_default = ("recency",)

        @property
        def members(self) -> tuple[()]:
            return ()
