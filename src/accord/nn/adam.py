"""Adam in two forms, each as it suits the device and the size of a table.

With the penalty in the gradient, as the paper has it, every row moves at every step. Decoupled, it has no momentum and
weights decay apart from the gradient: with factor k = 1 - lr * decay,

    v <- beta2 * v + (1 - beta2) * g^2,    w <- k * w - lr * g / (sqrt(v / (1 - beta2^t)) + eps)

so n steps without a gradient are w <- k^n * w and v <- beta2^n * v, however many they are.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import torch
from torch import Tensor, nn
from torch.optim.adam import adam

from accord.kernels import cuda
from accord.nn.layers import Embedding
from accord.nn.row_adam import RowsAtOnce, RowsStepByStep

AS_STRONG = 15.0  # see `strength_apart`
LARGE = 2**17  # elements from which a parameter is worth a kernel of its own


def strength_apart(pairs: float, users: int) -> float:
    """What l2 is multiplied by where weights decay apart from the gradient, so that it is as strong as under Adam.

    Adam divides the penalty's gradient, l2 / users, by the root mean square of the whole. Where a step has so many
    pairs, a row is in `pairs / users` of them, and then its gradient is a small number over `pairs`; so l2 would count
    `sqrt(pairs * users)` times, and that number, found on MovieLens, is in AS_STRONG.
    """
    return AS_STRONG * math.sqrt(pairs * users)


class Adam:
    """torch's fused Adam; on CUDA large tables are updated, penalty included, in one pass over their bytes.

    Not a `torch.optim.Optimizer`, the first use of which imports torch's compiler and so takes a second.
    """

    def __init__(
        self, parameters: Iterable[nn.Parameter], lr: float, by_rows: Sequence[Embedding] = (), decoupled: bool = False
    ) -> None:
        """`by_rows`: tables that are updated row by row, until `release`."""
        self.parameters, self.lr, self.by_rows, self.decoupled = list(parameters), lr, list(by_rows), decoupled
        self.betas, self.eps = (0.0 if decoupled else 0.9, 0.999), 1e-8
        self.state: defaultdict[nn.Parameter, dict[str, Tensor]] = defaultdict(dict)

    @property
    def remembers(self) -> tuple[str, ...]:
        """What of a parameter's state the next step depends on."""
        return ("step", "exp_avg_sq") if self.decoupled else ("step", "exp_avg", "exp_avg_sq")

    def start(self) -> None:
        """Begin, or go on from the state that was put in place."""
        for table in self.by_rows:
            state = self._started(table.weight, self.remembers)
            kind = RowsAtOnce if self.decoupled else RowsStepByStep
            table.rows = kind(table.weight, state, self.lr, self.betas, self.eps)

    def _started(self, parameter: nn.Parameter, names: Sequence[str]) -> dict[str, Tensor]:
        """The state of a parameter, each of these being zero where it is not there yet."""
        state = self.state[parameter]
        for name in names:
            if name not in state:
                zero = torch.zeros((), device=parameter.device, dtype=torch.float32)
                state[name] = zero if name == "step" else torch.zeros_like(parameter)
        return state

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

    def zero_grad(self) -> None:
        for parameter in self.parameters:
            parameter.grad = None

    @torch.no_grad()
    def step(self, decay: Mapping[nn.Parameter, Tensor]) -> None:
        """Update what has a gradient; `decay` [R] times the parameter is part of it, or decoupled what it decays by."""
        if self.decoupled:  # what is left of the parameter instead
            decay = {parameter: (1 - self.lr * own).clamp(min=0) for parameter, own in decay.items()}
        usual, large = [], []
        for parameter in self.parameters:
            if parameter.grad is None:
                continue
            if parameter.numel() >= LARGE and cuda.usable(parameter) and self.state.get(parameter):
                large.append(parameter)
                continue
            usual.append(parameter)
            if parameter in decay:
                scale = decay[parameter].view(-1, *[1] * (parameter.dim() - 1))
                if self.decoupled:
                    parameter.mul_(scale)
                else:
                    parameter.grad.addcmul_(parameter, scale)
        states = [self._started(parameter, ("step", "exp_avg", "exp_avg_sq")) for parameter in usual]
        means, spreads, steps = ([own[name] for own in states] for name in ("exp_avg", "exp_avg_sq", "step"))
        gradients = [parameter.grad for parameter in usual if parameter.grad is not None]
        adam(
            list[Tensor](usual), gradients, means, spreads, [], steps, fused=True,
            capturable=any(parameter.is_cuda for parameter in usual), amsgrad=False, beta1=self.betas[0],
            beta2=self.betas[1], lr=self.lr, weight_decay=0.0, eps=self.eps, maximize=False,
        )  # fmt: skip
        self._update_large(large, decay)
        for table in self.by_rows:
            assert table.rows is not None
            table.rows.update(decay.get(table.weight))

    def _update_large(self, parameters: list[nn.Parameter], decay: Mapping[nn.Parameter, Tensor]) -> None:
        states = [self._started(parameter, ("step", "exp_avg", "exp_avg_sq")) for parameter in parameters]
        if states:
            torch._foreach_add_([state["step"] for state in states], 1)  # one kernel for all
        for parameter, state in zip(parameters, states, strict=True):
            assert parameter.grad is not None
            cuda.adam(
                parameter.detach(), parameter.grad.contiguous(), state["exp_avg"], state["exp_avg_sq"], state["step"],
                decay.get(parameter), self.lr, self.betas, self.eps, self.decoupled,
            )  # fmt: skip
