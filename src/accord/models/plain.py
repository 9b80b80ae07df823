"""Any plain `torch.nn.Module` with `forward(users, items) -> logits` as a model: one run after another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from accord.errors import InputError
from accord.models.base import Model, Setup, pairs_of_block
from accord.nn.layers import Streams
from accord.random import derive_seed

PAIRS_AT_ONCE = 1_000_000


class PlainModel(Model):
    """Stacks the parameters of R copies and calls the module with each run's slice."""

    name = "plain"
    summary = "a caller's own torch module"

    def __init__(self, factory: Callable[..., nn.Module], options: dict[str, Any], setup: Setup, purpose: str) -> None:
        super().__init__(options, setup)
        copies = []
        for seed in setup.seeds:
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(derive_seed(seed, purpose))
                copies.append(_make(factory, setup.num_users, setup.num_items, options))
        # the module only lends its code: kept out of the module tree, its own weights are neither trained nor saved
        self._template = [copies[0]]
        states = [{**dict(copy.named_parameters()), **dict(copy.named_buffers())} for copy in copies]
        self._names = {name: name.replace(".", "/") for name in states[0]}
        for name, safe in self._names.items():
            stacked = torch.stack([state[name].detach() for state in states])
            if isinstance(states[0][name], nn.Parameter):
                self.register_parameter(safe, nn.Parameter(stacked))
            else:
                self.register_buffer(safe, stacked)
        self.streams = Streams(setup.seeds, f"{purpose} plain")

    def _run(self, slices: dict[str, tuple[Tensor, ...]], run: int, users: Tensor, items: Tensor) -> Tensor:
        state = {name: parts[run] for name, parts in slices.items()}
        logits: Tensor = functional_call(self._template[0], state, (users, items))
        if logits.shape != users.shape:
            raise InputError(
                f"{type(self._template[0]).__name__}.forward gave shape {tuple(logits.shape)} for {len(users)} pairs; "
                "it must give one logit a pair."
            )
        return logits

    def _slices(self) -> dict[str, tuple[Tensor, ...]]:
        return {name: getattr(self, safe).unbind(0) for name, safe in self._names.items()}

    def forward(self, users: Tensor, items: Tensor) -> Tensor:
        slices = self._slices()
        self._template[0].train(self.training)
        logits = []
        for run in range(len(users)):
            if self.training:  # whatever the module draws comes from the run's own stream
                stream = self.streams.streams[run]
                seed = int(torch.randint(2**62, (1,), generator=stream))
                with torch.random.fork_rng(devices=[users.device] if users.is_cuda else []):
                    torch.manual_seed(seed)
                    logits.append(self._run(slices, run, users[run], items[run]))
            else:
                logits.append(self._run(slices, run, users[run], items[run]))
        return torch.stack(logits)

    def score_all(self, users: Tensor) -> Tensor:
        slices, runs = self._slices(), range(len(self.streams.seeds))
        self._template[0].eval()
        scores = []
        for block in torch.split(users, max(1, PAIRS_AT_ONCE // self.num_items)):
            pairs = pairs_of_block(block, self.num_items)
            rows = [self._run(slices, run, *pairs).view(len(block), -1) for run in runs]
            scores.append(torch.stack(rows))
        return torch.cat(scores, 1)


def _make(factory: Callable[..., nn.Module], num_users: int, num_items: int, options: dict[str, Any]) -> nn.Module:
    name = getattr(factory, "__name__", str(factory))
    try:
        module = factory(num_users, num_items, **options)
    except TypeError as error:
        raise InputError(f"{name}(num_users, num_items{', …' if options else ''}) cannot be made: {error}.") from error
    if not isinstance(module, nn.Module):
        raise InputError(f"{name} made a {type(module).__name__}, not a torch.nn.Module.")
    return module
