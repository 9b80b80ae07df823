"""Numbers that could go wrong: extreme options and probabilities, the smallest data, float32 against float64.

    python stress/arithmetic.py

Every method's loss and gradients, of logits from nothing to a thousand, with C₁ and C₂ up to a million: finite, and how
far float32 lies from float64. Then training on the smallest data there can be, and with learning rates that are too
large. Exits with 1 where a number is not finite that should be, or a divergence is not reported.
"""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Sequence
from typing import Any

import torch
from record import Found, Table, stamp, table_as_text
from torch import Tensor, nn

from accord import simulate
from accord.data.csr import Csr
from accord.data.interactions import Dataset, IdMap, Interactions
from accord.data.sampling import Batch
from accord.errors import InputError
from accord.fitting import fit
from accord.methods import find_method
from accord.methods.base import Method
from accord.models import build_model
from accord.models.base import Setup
from accord.protocol import PRESETS, OwnRules

# those whose loss is a function of logits alone; what others remember of each interaction has oracles in tests/methods
LEARNED = ["normal", "wbpr", "tce", "rce", "ensemble", "deca", "deca-p"]
SCALES = (0.0, 1.0, 10.0, 100.0, 1000.0)  # of the logits: at 1000 a probability is 0 or 1 in any precision
SURE = (1.0, 1e2, 1e4, 1e6)  # C₁ and C₂
PAIRS = 512
DATA_SEED = 1


class Logits(nn.Module):
    """In the place of a model: its logits themselves, as parameters."""

    Rules = OwnRules
    recordable = False

    def __init__(self, runs: int, scale: float, seed: int) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        drawn = torch.randn(runs, 2 * PAIRS, generator=generator, dtype=torch.float64)
        self.value = nn.Parameter(scale * drawn)

    def forward(self, users: Tensor, items: Tensor) -> Tensor:
        return self.value[:, : users.shape[1]]


def made(name: str, scale: float, sure: float, protocol: str, step: int, precision: torch.dtype) -> Method:
    """A method whose networks are plain logits, in a precision."""
    kind = find_method(name)
    has = kind.Config.model_fields
    options = {key: sure for key in ("c1", "c2") if key in has}
    seeds = iter(range(100))

    class Networks:
        train = None

        def __call__(self, *_: Any, **__: Any) -> Any:
            return Logits(kind.members, scale, next(seeds))

    built: Any = Networks()
    method = kind([kind.Config(**options)] * kind.members, built, PRESETS[protocol]).to(precision)
    method.begin_step(step)
    return method


def loss_and_slopes(method: Method, pairs: int = PAIRS) -> tuple[Tensor, list[Tensor]]:
    """Loss [R] and the gradient of every network, of `pairs` positives and as many negatives."""
    rows = torch.zeros(len(method.target.value), 2 * pairs, dtype=torch.long)
    loss = method.loss(Batch(rows, rows, pairs))
    loss.sum().backward()
    return loss.detach(), [p.grad for p in method.parameters() if p.grad is not None]


def distance(found: Sequence[Tensor], exact: Sequence[Tensor]) -> float:
    """|found - exact| / |exact|, of all numbers together; 0 where both are."""
    one, other = (torch.cat([part.double().flatten() for part in parts]) for parts in (found, exact))
    return float((one - other).norm() / other.norm().clamp(min=1e-300)) if len(one) else 0.0


def precision_of(name: str) -> tuple[dict[float, tuple[float, float]], int, int]:
    """The largest distances of loss and gradient at each scale of logits; how many cases, how many finite."""
    worst: dict[float, tuple[float, float]] = {}
    cases = finite = 0
    for scale in SCALES:
        errors = [(0.0, 0.0)]
        for sure in SURE if "c1" in find_method(name).Config.model_fields else (1.0,):
            for protocol in PRESETS:
                for step in (0, 1, 2):  # DP, DN, and the first step of the released code
                    (loss, slopes), (exact, truth) = (
                        loss_and_slopes(made(name, scale, sure, protocol, step, kind))
                        for kind in (torch.float32, torch.float64)
                    )
                    cases += 1
                    finite += all(bool(torch.isfinite(part).all()) for part in (loss, *slopes))
                    errors.append((distance([loss], [exact]), distance(slopes, truth)))
        worst[scale] = max(error[0] for error in errors), max(error[1] for error in errors)
    return worst, cases, finite


def precisions() -> tuple[Table, Table, bool]:
    heads = ["method", "cases", "finite", *(f"logits ± {scale:g}" for scale in SCALES)]
    losses = Table("The loss in float32 against float64: largest relative error", heads)
    slopes = Table("Its gradients", ["method", *heads[3:]])
    good = True
    for name in LEARNED:
        worst, cases, finite = precision_of(name)
        good &= cases == finite
        losses.rows.append([name, cases, finite, *(f"{error:.0e}" for error, _ in worst.values())])
        slopes.rows.append([name, *(f"{error:.0e}" for _, error in worst.values())])
    losses.notes.append(
        "Finite: loss and all gradients, in float32. Cases: C₁ and C₂ from 1 to 10⁶, both protocols, both sub-tasks "
        "and the first step; probabilities reach 0 and 1."
    )
    return losses, slopes, good


# --- the smallest data


def tiny(users: int, items: int, train: list[tuple[int, int]], test: list[tuple[int, int]]) -> Dataset:
    import pyarrow as pa

    def part(pairs: list[tuple[int, int]]) -> Interactions:
        return Interactions.of(pa.array([u for u, _ in pairs], pa.int64()), pa.array([i for _, i in pairs], pa.int64()))

    return Dataset("tiny", part(train), part([]), part(test), IdMap.range(users), IdMap.range(items))


SMALLEST = {
    "one user, two items": tiny(1, 2, [(0, 0)], [(0, 1)]),
    "one user, all items but one": tiny(1, 9, [(0, i) for i in range(8)], [(0, 8)]),
    "every user has all items but one": tiny(
        4, 5, [(u, i) for u in range(4) for i in range(5) if i != u], [(u, u) for u in range(4)]
    ),
    "users without a training pair": tiny(5, 4, [(0, 0), (0, 1)], [(u, 3) for u in range(5)]),
    "one item": tiny(3, 1, [(0, 0), (1, 0)], [(2, 0)]),
    "no training pair": tiny(2, 3, [], [(0, 1)]),
}


def smallest(models: Sequence[str], methods: Sequence[str]) -> tuple[Table, bool]:
    """Every model and method on data that is hardly there: a result, or one sentence."""
    table = Table("The smallest data", ["data", "trained, all finite", "refused", "the sentence"])
    good = True
    for name, data in SMALLEST.items():
        trained, refused = 0, set[str]()
        for model in models:
            for method in methods:
                try:
                    made = fit(data, model, method, epochs=2, device="cpu", ks=[1])
                except InputError as error:
                    refused.add(str(error))
                    continue
                weights = made.method.state_dict().values()
                finite = all(bool(torch.isfinite(w).all()) for w in weights if w.is_floating_point())
                finite &= all(math.isfinite(value) for value in made.metrics["mean"].values())
                trained += 1
                good &= finite
        of = len(models) * len(methods)
        table.rows.append([name, trained, of - trained, "; ".join(sorted(refused))])
        good &= trained == of or bool(refused)
    return table, good


def empty_batches() -> bool:
    """Batches in which a run has no pair at all, as those of CDAE can be: finite, and no gradient."""
    ok = True
    for name in LEARNED:
        method = made(name, 1.0, 10.0, "corrected", 1, torch.float32)
        rows = torch.zeros(len(method.target.value), 2 * PAIRS, dtype=torch.long)
        loss = method.loss(Batch(rows, rows, PAIRS, torch.zeros(rows.shape)))
        loss.sum().backward()
        slopes = [p.grad for p in method.parameters() if p.grad is not None]
        ok &= bool(torch.isfinite(loss).all()) and all(bool((slope == 0).all()) for slope in slopes)
    return ok


def diverging(models: Sequence[str], methods: Sequence[str]) -> tuple[Table, bool]:
    """Learning rates that are too large: a divergence is reported, and what does not diverge is finite."""
    data = simulate(users=60, items=40, interactions=700, seed=DATA_SEED, liked=0.4).dataset
    table = Table(
        "Learning rates that are too large", ["learning rate", "trained, all finite", "reported as diverged", "wrong"]
    )
    good = True
    for rate in (1.0, 1e3, 1e6, 1e20, 1e38):
        trained = reported = wrong = 0
        for model in models:
            for method in methods:
                options = {"train.lr": rate, "train.batch_size": 128, "train.early_stop": False}
                try:
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore")
                        made = fit(data, model, method, epochs=4, device="cpu", options=options)
                except InputError as error:
                    reported += "diverged" in str(error)
                    wrong += "diverged" not in str(error)
                    continue
                finite = all(bool(torch.isfinite(w).all()) for w in made.method.state_dict().values())
                trained, wrong = trained + finite, wrong + (not finite)
        table.rows.append([f"{rate:g}", trained, reported, wrong])
        good &= wrong == 0
    return table, good


def float32_training(models: Sequence[str]) -> Table:
    """The same training step by step in float32 and in float64, from the same start: how far they are apart."""
    table = Table("Training in float32 against float64", ["model", "loss after 1 step", "after 10", "after 100"])
    data = simulate(users=60, items=40, interactions=700, seed=DATA_SEED, liked=0.4).dataset
    train = data.csr(data.train)
    for model in models:
        lines = [losses_of(model, train, precision) for precision in (torch.float32, torch.float64)]
        apart = [abs(one - other) / abs(other) for one, other in zip(*lines, strict=True)]
        table.rows.append([model, *(f"{apart[step - 1]:.0e}" for step in (1, 10, 100))])
    return table


def losses_of(model: str, train: Csr, precision: torch.dtype) -> list[float]:
    setup = Setup(train, (1,), PRESETS["corrected"])
    kind = find_method("deca")
    method = kind(
        [kind.Config()],
        lambda spec=None, purpose="target": build_model(spec or model, {}, setup, purpose),
        PRESETS["corrected"],
    ).to(precision)
    method.eval()  # without dropout, of which the two would draw different numbers
    optimizer = torch.optim.Adam(method.parameters(), 0.003)
    draw = torch.Generator().manual_seed(2)
    losses = []
    for step in range(100):
        chosen = torch.randint(len(train.items), (1, 128), generator=draw)
        users = torch.from_numpy(train.users)[chosen].long().repeat(1, 2)
        others = torch.randint(train.num_items, (1, 128), generator=draw)
        items = torch.cat([torch.from_numpy(train.items)[chosen].long(), others], 1)
        method.begin_step(step)
        optimizer.zero_grad()
        loss = method.loss(Batch(users, items, 128)).sum()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def main() -> int:
    torch.set_num_threads(1)
    models = ["mf", "gmf", "neumf", "cdae", "lightgcn"]
    losses, slopes, finite = precisions()
    small, small_good = smallest(models, LEARNED)
    rates, said = diverging(models, ["normal", "deca", "deca-p"])
    empty = empty_batches()
    small.notes.append(
        "Batches in which a run has no pair give the loss 0 and no gradient, with every method."
        if empty
        else "**Batches in which a run has no pair give NaN or infinite numbers.**"
    )
    how = ["`python stress/arithmetic.py`: methods on logits of every size, models on data of hardly any."]
    tables = [losses, slopes, float32_training(models), small, rates]
    Found("Numbers that could go wrong", how, tables, made=stamp(DATA_SEED)).write("arithmetic")
    for table in tables:
        print(table_as_text(table))
    return 0 if finite and small_good and said and empty else 1


if __name__ == "__main__":
    sys.exit(main())
