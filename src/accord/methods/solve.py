"""In the place of a method for a model that is solved: it has no loss, and its scores are no logits."""

from __future__ import annotations

from torch import Tensor

from accord.errors import InputError
from accord.methods.base import Method, TrainingContext


class Solve(Method):
    name = "none"
    summary = "the model is solved, not trained"
    learns = False

    def stages(self, context: TrainingContext) -> None:
        context.solve(self.target)

    def posterior(self, users: Tensor, items: Tensor) -> Tensor:
        raise InputError(f"model '{self.target.name}' gives no probability; train a learned model to find noise.")
