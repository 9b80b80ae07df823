"""Adam in two forms, each as it suits the device and the size of a table.

With the penalty in the gradient, as the paper has it, every row moves at every step. Decoupled, it has no momentum and
weights decay apart from the gradient: with factor k = 1 - lr * decay,

    v <- beta2 * v + (1 - beta2) * g^2,    w <- k * w - lr * g / (sqrt(v / (1 - beta2^t)) + eps)

so n steps without a gradient are w <- k^n * w and v <- beta2^n * v, however many they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from accord.kernels import cuda
from accord.nn.layers import Embedding
from accord.nn.row_adam import RowsAtOnce, RowsStepByStep

LARGE = 2**17  # elements from which a parameter is worth a kernel of its own


class Adam(torch.optim.Adam):
    """torch's fused Adam; on CUDA large tables are updated, penalty included, in one pass over their bytes."""

    def __init__(
        self, parameters: Iterable[nn.Parameter], lr: float, by_rows: Sequence[Embedding] = (), decoupled: bool = False
    ) -> None:
        """`by_rows`: tables that are updated row by row, until `release`."""
        parameters, betas = list(parameters), (0.0 if decoupled else 0.9, 0.999)
        super().__init__(parameters, lr=lr, betas=betas, fused=True, capturable=any(p.is_cuda for p in parameters))
        self.by_rows, self.decoupled = list(by_rows), decoupled

    @property
    def remembers(self) -> tuple[str, ...]:
        """What of a parameter's state the next step depends on."""
        return ("step", "exp_avg_sq") if self.decoupled else ("step", "exp_avg", "exp_avg_sq")

    def start(self) -> None:
        """Begin, or go on from the state that was put in place."""
        by_rows = {table.weight for table in self.by_rows}
        for parameter in self.state.keys() - by_rows:  # torch's Adam has averages that decide nothing, too
            self.state[parameter].setdefault("exp_avg", torch.zeros_like(parameter))
        for table in self.by_rows:
            state, group = self.state[table.weight], self.param_groups[0]
            if not state:
                state["step"] = torch.zeros(())
            for name in self.remembers[1:]:
                state.setdefault(name, torch.zeros_like(table.weight))
            table.rows = (RowsAtOnce if self.decoupled else RowsStepByStep)(table.weight, state, group)

    def settle(self) -> None:
        """Bring every row up to date: before weights are read otherwise than by lookups."""
        for table in self.by_rows:
            if table.rows is not None:
                table.rows.settle()
                self.state[table.weight]["step"].fill_(table.rows.step)

    def release(self) -> None:
        self.settle()
        for table in self.by_rows:
            table.rows = None

    def step(self, decay: Mapping[nn.Parameter, Tensor]) -> None:  # type: ignore[override]
        """Update what has a gradient; `decay` [R] times the parameter is part of it, or decoupled what it decays by."""
        if self.decoupled:  # what is left of the parameter instead
            lr = self.param_groups[0]["lr"]
            decay = {parameter: (1 - lr * own).clamp(min=0) for parameter, own in decay.items()}
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                if parameter.numel() >= LARGE and cuda.usable(parameter) and self.state.get(parameter):
                    self._update_large(parameter, decay.get(parameter), group)
                elif parameter in decay:
                    scale = decay[parameter].view(-1, *[1] * (parameter.dim() - 1))
                    if self.decoupled:
                        parameter.detach().mul_(scale)
                    else:
                        parameter.grad.addcmul_(parameter.detach(), scale)
        super().step()
        for table in self.by_rows:
            assert table.rows is not None
            table.rows.update(decay.get(table.weight))

    def _update_large(self, parameter: nn.Parameter, decay: Tensor | None, group: dict[str, Any]) -> None:
        assert parameter.grad is not None
        state = self.state[parameter]
        state["step"] += 1
        cuda.adam(
            parameter.detach(), parameter.grad.contiguous(), state["exp_avg"], state["exp_avg_sq"], state["step"],
            decay, group["lr"], group["betas"], group["eps"], self.decoupled,
        )  # fmt: skip
        parameter.grad = None  # done: what follows leaves it alone
