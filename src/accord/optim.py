"""Adam with the L2 penalty as a gradient term."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from accord import kernels

LARGE = 2**17  # elements from which a parameter is worth a kernel of its own


class Adam(torch.optim.Adam):
    """torch's fused Adam; on CUDA large tables are updated, penalty included, in one pass over their bytes."""

    def __init__(self, parameters: Iterable[nn.Parameter], lr: float) -> None:
        parameters = list(parameters)
        super().__init__(parameters, lr=lr, fused=True, capturable=any(p.is_cuda for p in parameters))

    def step(self, decay: Mapping[nn.Parameter, Tensor]) -> None:  # type: ignore[override]
        """Update what has a gradient; `decay` [R] times the parameter is part of it."""
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                if parameter.numel() >= LARGE and kernels.usable(parameter) and self.state.get(parameter):
                    self._update_large(parameter, decay.get(parameter), group)
                elif parameter in decay:
                    scale = decay[parameter].view(-1, *[1] * (parameter.dim() - 1))
                    parameter.grad.addcmul_(parameter.detach(), scale)
        super().step()

    def _update_large(self, parameter: nn.Parameter, decay: Tensor | None, group: dict[str, Any]) -> None:
        assert parameter.grad is not None
        state = self.state[parameter]
        state["step"] += 1
        kernels.adam(
            parameter.detach(), parameter.grad.contiguous(), state["exp_avg"], state["exp_avg_sq"], state["step"],
            decay, group["lr"], group["betas"], group["eps"],
        )  # fmt: skip
        parameter.grad = None  # done: what follows leaves it alone
