"""Adam with the L2 penalty as a gradient term, in the form that suits the device and the size of a table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from accord.kernels import cuda
from accord.nn.layers import Embedding
from accord.nn.row_adam import Rows

LARGE = 2**17  # elements from which a parameter is worth a kernel of its own


class Adam(torch.optim.Adam):
    """torch's fused Adam; on CUDA large tables are updated, penalty included, in one pass over their bytes."""

    def __init__(self, parameters: Iterable[nn.Parameter], lr: float, by_rows: Sequence[Embedding] = ()) -> None:
        """`by_rows`: tables that are updated row by row, until `release`."""
        parameters = list(parameters)
        super().__init__(parameters, lr=lr, fused=True, capturable=any(p.is_cuda for p in parameters))
        self.by_rows = list(by_rows)

    def start(self) -> None:
        """Begin, or go on from the state that was put in place."""
        for table in self.by_rows:
            state = self.state[table.weight]
            if not state:
                state["step"] = torch.zeros(())
                state["exp_avg"], state["exp_avg_sq"] = (torch.zeros_like(table.weight) for _ in range(2))
            group = self.param_groups[0]
            settings = group["lr"], group["betas"], group["eps"]
            table.rows = Rows(table.weight, state["exp_avg"], state["exp_avg_sq"], int(state["step"]), *settings)

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
        """Update what has a gradient; `decay` [R] times the parameter is part of it."""
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                if parameter.numel() >= LARGE and cuda.usable(parameter) and self.state.get(parameter):
                    self._update_large(parameter, decay.get(parameter), group)
                elif parameter in decay:
                    scale = decay[parameter].view(-1, *[1] * (parameter.dim() - 1))
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
            decay, group["lr"], group["betas"], group["eps"],
        )  # fmt: skip
        parameter.grad = None  # done: what follows leaves it alone
