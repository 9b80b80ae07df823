"""Adam in two forms, each as it suits the device and the size of a table.

With the penalty in the gradient, as the paper has it, every row moves at every step, and both moments include it.
Decoupled, there is no first moment, and the penalty is divided by the spread of the gradient, of which it is no part:

    v <- beta2 * v + (1 - beta2) * g^2,    d = max(sqrt(v / (1 - beta2^t)), eps),
    w <- exp(-lr * decay / d) * w - lr * g / d

so all steps without a gradient are one factor, however many they are: v fades by the same beta2 in each, and the sum of
1 / d over them depends on the row's two steps and sqrt(v) alone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

import torch
from torch import Tensor, nn

from accord.kernels import cuda
from accord.nn.layers import Embedding
from accord.nn.row_adam import Rows

WORTH_KERNEL = 2**17  # elements from which a parameter is worth a kernel of its own on CUDA


class Adam:
    """torch's fused Adam; on CUDA large tables are updated, penalty included, in one pass over their bytes.
    Not a `torch.optim.Optimizer`, the first use of which imports torch's compiler and so takes a second."""

    def __init__(
        self, parameters: Iterable[nn.Parameter], lr: float, by_rows: Iterable[Embedding] = (),
        decoupled: bool = False,
    ) -> None:  # fmt: skip
        """`by_rows`: tables that are updated by what is looked up in them, until `release`. Decoupled only."""
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
            table.rows = Rows(table.weight, self._started(table.weight), self.lr, self.betas[1], self.eps)

    def _started(self, parameter: nn.Parameter) -> dict[str, Tensor]:
        state = self.state[parameter]
        for name in self.remembers:
            if name not in state:
                zero = torch.zeros((), device=parameter.device, dtype=torch.float32)
                state[name] = zero if name == "step" else torch.zeros_like(parameter)
        return state

    @property
    def rows(self) -> list[tuple[nn.Parameter, Rows]]:
        """The tables that are updated row by row at the moment."""
        return [(table.weight, table.rows) for table in self.by_rows if table.rows is not None]

    def settle(self) -> None:
        """Bring every row up to date: before weights are read otherwise than by lookups."""
        for _, rows in self.rows:
            rows.settle()

    def release(self) -> None:
        self.settle()
        for table in self.by_rows:
            table.rows = None

    def taken(self) -> None:
        """A step was taken, or a recording of one repeated."""
        for _, rows in self.rows:
            rows.taken()

    def zero_grad(self) -> None:
        for parameter in self.parameters:
            parameter.grad = None
        for _, rows in self.rows:
            rows.forget()

    @torch.no_grad()
    def step(self, decay: Mapping[nn.Parameter, Tensor]) -> None:
        """Update what has a gradient; `decay` [R] is the penalty's: times the parameter, it is part of the gradient."""
        usual, large = [], []
        for parameter in self.parameters:
            if parameter.grad is None:
                continue
            worth = self.decoupled or parameter.numel() >= WORTH_KERNEL
            if worth and cuda.usable(parameter) and self.state.get(parameter):
                large.append(parameter)
                continue
            scale = decay[parameter].view(-1, *[1] * (parameter.dim() - 1)) if parameter in decay else None
            if self.decoupled:
                self._update_decoupled(parameter, parameter.grad, scale)
                continue
            usual.append(parameter)
            if scale is not None:
                parameter.grad.addcmul_(parameter, scale)
        self._update_usual(usual)
        self._update_large(large, decay)
        counts = [rows.step for _, rows in self.rows if rows.touched]
        if counts:
            torch._foreach_add_(counts, 1)  # one kernel for all
        for weight, rows in self.rows:
            rows.update(decay.get(weight))

    def _update_usual(self, parameters: list[nn.Parameter]) -> None:
        if not parameters:
            return
        states = [self._started(parameter) for parameter in parameters]
        means, spreads, steps = ([state[name] for state in states] for name in ("exp_avg", "exp_avg_sq", "step"))
        gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
        torch._foreach_add_(steps, 1)
        torch._fused_adam_(
            list[Tensor](parameters), gradients, means, spreads, [], steps, lr=self.lr, beta1=self.betas[0],
            beta2=self.betas[1], weight_decay=0.0, eps=self.eps, amsgrad=False, maximize=False,
        )  # fmt: skip

    def _update_decoupled(self, parameter: nn.Parameter, gradient: Tensor, decay: Tensor | None) -> None:
        state, beta = self._started(parameter), self.betas[1]
        state["step"] += 1
        state["exp_avg_sq"].mul_(beta).addcmul_(gradient, gradient, value=1 - beta)
        root = (1 - beta ** state["step"].double()).sqrt().float()
        divisor = (state["exp_avg_sq"].sqrt() / root).clamp_(min=self.eps)
        if decay is not None:
            parameter.mul_((-self.lr * decay / divisor).exp_())
        parameter.addcdiv_(gradient, divisor, value=-self.lr)

    def _update_large(self, parameters: list[nn.Parameter], decay: Mapping[nn.Parameter, Tensor]) -> None:
        states = [self._started(parameter) for parameter in parameters]
        if states:
            torch._foreach_add_([state["step"] for state in states], 1)
        for parameter, state in zip(parameters, states, strict=True):
            assert parameter.grad is not None
            cuda.adam(
                parameter.detach(), parameter.grad.contiguous(), state.get("exp_avg"), state["exp_avg_sq"],
                state["step"], decay.get(parameter), self.lr, self.betas, self.eps,
            )  # fmt: skip
