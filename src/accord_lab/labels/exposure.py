"""Debiasing: a log that users chose, a little random exposure to learn from, judged by the rest of that exposure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import torch
from torch import Tensor

from accord.data.csr import Bools, Csr, Rows
from accord.data.interactions import Dataset
from accord.data.load import load_whole
from accord.errors import InputError
from accord.evaluation.noise import auc
from accord.fitting import fit
from accord.posteriors.estimate import estimate
from accord.report.tables import Table
from accord.training.plan import find_device
from accord_lab.labels.study import Line, add_missing, grouped, spread
from accord_lab.names import Floats
from accord_lab.pair_scores import pair_scores
from accord_lab.writing import page_of_lines

NAME, TITLE = "exposure", "A little random exposure"
SHARE, FIRST_DRAW, TOP, LIKED = 0.05, 1000, 5, 4
RULE = f"rating>={LIKED}"
DIM, RATE, CHECKED, PATIENCE, MOST = 16, 0.02, 10, 3, 300  # epochs between looks at the validation; looks; epochs
PENALTIES = (2.0, 4.0, 8.0)
INNER, START = 0.01, 0.002  # AutoDebias: the step that it looks ahead, and w2 at first
FIGURES = "auc", "ndcg@5", "valid"
HEADS = ("data", "row", "learns from the exposure", "AUC", f"NDCG@{TOP}")
NOTE = (
    f"A log that users chose, and random exposure: {SHARE:.0%} of this is for training, {SHARE:.0%} for validation, "
    f"and the rest is the test, as in AutoDebias (Chen et al., SIGIR 2021). A rating of {LIKED} or more is liked, and "
    "all that a row sees of a rating. Random pairs whose rating stands in the log too are left out. AUC over all pairs "
    f"of the test; NDCG@{TOP} of a user's, mean over users who like one of them. Mean ± sd over draws of the parts. "
    "Penalties, options and epochs are chosen by AUC on the validation. IPS: propensities by naive Bayes from the "
    "exposure. Doubly robust: what MF says stands for unknown ratings. All but Accord's rows by formula."
)
Scores = dict[tuple[str, bool], Floats]  # of the random pairs, by name and whether it learns from the exposure


@dataclass(frozen=True)
class Exposure:
    """A log with random exposure, and which of this trains (0), validates (1) or tests (2)."""

    log: Dataset
    chosen: Csr  # the log's pairs, with labels
    users: Rows  # of the random pairs, as rows of the log
    items: Rows
    real: Bools
    part: Rows

    def drawn(self, draw: int) -> Exposure:
        order = np.random.default_rng(FIRST_DRAW + draw).permutation(len(self.users))
        part, size = np.full(len(order), 2), round(SHARE * len(order))
        part[order[:size]], part[order[size : 2 * size]] = 0, 1
        return replace(self, part=part)

    def auc(self, scores: Floats, part: int) -> float:
        return auc(scores[self.part == part], self.real[self.part == part])

    def ndcg(self, scores: Floats) -> float:
        """On the test, of users who like something there."""
        users, scores, real = (values[self.part == 2] for values in (self.users, scores, self.real))
        order, counts = np.lexsort((-scores, users)), np.bincount(users)
        place = np.arange(len(users)) - (counts.cumsum() - counts)[users[order]]
        gain = np.where(place < TOP, 1 / np.log2(place + 2), 0)
        liked = np.bincount(users, real).astype(np.int64)
        ideal = np.append(0, (1 / np.log2(np.arange(TOP) + 2)).cumsum())[np.minimum(liked, TOP)]
        return float((np.bincount(users[order], real[order] * gain)[liked > 0] / ideal[liked > 0]).mean())


def read(folder: Path) -> Exposure:
    """user.csv and random.csv of a folder, with columns user, item and rating."""
    files = [folder / f"{part}.csv" for part in ("user", "random")]
    if not all(file.is_file() for file in files):
        raise InputError(f"{folder} needs user.csv, the log, and random.csv, random exposure: user, item and rating.")
    log, shown = load_whole(files[0], labels=RULE), load_whole(files[1]).train
    if not shown.has_value:
        raise InputError(f"{files[1]} needs a column rating.")
    chosen = log.csr(log.train, columns=("label",))
    users, items = log.users.rows(shown.users), log.items.rows(shown.items)
    order = np.lexsort((items, users))
    users, items, real = users[order], items[order], shown.column("value")[order] >= LIKED
    new = (users >= 0) & (items >= 0) & ~chosen.contains(users.clip(0), items.clip(0))
    return Exposure(log, chosen, users[new], items[new], real[new], users[:0])


def tensors(users: Rows, items: Rows, real: Any, shape: Sequence[int], device: str) -> Tensor:
    """1 where a pair has a rating; and 1 or -1 where it is liked or not: [2, U, I]."""
    made = torch.zeros(2, *shape, device=device)
    made[0][users, items], made[1][users, items] = 1, torch.from_numpy(np.where(real, 1.0, -1.0)).to(made)
    return made


class Factors:
    """Factors with biases that minimise sum weight (score - target)^2 and a penalty; of AutoDebias (`debias`)

    sum w1 weight (score - target)^2 + w2 (score - m)^2, whose w1 and w2 (of user, item, and what is seen of the pair)
    and m (of the last) are learned so that the factors, a step ahead, explain the exposure."""

    def __init__(self, given: Exposure, seed: int, device: str) -> None:
        self.given, self.seed, some = given, seed, given.part == 0
        log, shape = given.chosen, (given.chosen.num_users, given.chosen.num_items)
        self.log = tensors(log.owners, log.items, log.columns["label"] > 0.5, shape, device)
        self.shown = tensors(given.users[some], given.items[some], given.real[some], shape, device)

    def best(self, weight: Tensor, target: Tensor, debias: bool = False) -> Tensor:
        """The scores [U, I] that explain the validation best."""
        return max((self._fitted(weight, target, one, debias) for one in PENALTIES), key=lambda one: one[0])[1]

    def _fitted(self, weight: Tensor, target: Tensor, penalty: float, debias: bool) -> tuple[float, Tensor]:
        stream, (users, items) = torch.Generator().manual_seed(self.seed), weight.shape
        sizes = (users, DIM), (DIM, items), (users, 1), (1, items), (1, 1)
        factors = [(0.1 * torch.randn(size, generator=stream)).to(weight).requires_grad_() for size in sizes]
        learned = [weight.new_zeros(one, requires_grad=True) for one in (*[(users, 1), (1, items), (3,)] * 2, (3,))]
        ahead, descent = torch.optim.Adam(learned, lr=RATE), torch.optim.Adam(factors, lr=RATE)
        decay, kind = penalty * float(weight.sum() / self.log[0].sum()), self.log[1].long() + 1

        def score(parts: Sequence[Tensor]) -> Tensor:
            return parts[0] @ parts[1] + parts[2] + parts[3] + parts[4]

        def loss() -> Tensor:
            scores, total = score(factors), decay * sum(part.square().sum() for part in factors[:4])
            errors = weight * (scores - target).square()
            if debias:
                w1, w2 = (torch.exp(a + b + c[kind]) for a, b, c in (learned[:3], learned[3:6]))
                errors = w1 * errors + START * w2 * (scores - torch.tanh(learned[6])[kind]).square()
            return total + errors.sum()

        best, since, scores = 0.0, 0, score(factors).detach()
        for epoch in range(1, MOST + 1):
            if debias:
                steps = torch.autograd.grad(loss(), factors, create_graph=True)
                after = score([part - INNER * step for part, step in zip(factors, steps, strict=True)])
                _step(ahead, (self.shown[0] * (after - self.shown[1]).square()).sum())
            _step(descent, loss())
            if epoch % CHECKED == 0:
                now = score(factors).detach()
                reached = self.given.auc(self.of_pairs(now), 1)
                best, since, scores = (reached, 0, now) if reached > best else (best, since + 1, scores)
                if since == PATIENCE:
                    break
        return best, scores

    def of_pairs(self, scores: Tensor) -> Floats:
        """Of the random pairs."""
        return np.asarray(scores[self.given.users, self.given.items].double().cpu())


def _step(optimiser: torch.optim.Optimizer, loss: Tensor) -> None:
    optimiser.zero_grad()
    torch.autograd.backward(loss)
    optimiser.step()


def solved(given: Exposure, model: str, options: Sequence[dict[str, float]], seed: int, device: str) -> Floats:
    """Of a model that learns from what the log's users liked, with the best of some options."""
    liked = replace(given.log, train=given.log.train.filter(given.log.train.column("label") > 0.5))
    fits = (fit(liked, model, seeds=[seed], options=one, device=device, refit=False) for one in options)
    return max((pair_scores(one, given.users, given.items)[0] for one in fits), key=lambda one: given.auc(one, 1))


def by_labels(given: Exposure, exposed: bool) -> Floats:
    """p_real of the random pairs, which are pairs outside the log, some of them with labels."""
    label = np.where(exposed & (given.part == 0), given.real, np.nan)
    shape = given.chosen.num_users, given.chosen.num_items
    outside = Csr.of(given.users, given.items, *shape, columns={"label": label})
    return estimate(given.chosen, given.chosen.columns["label"], outside).p_real[len(given.chosen.items) :]


def of_draw(given: Exposure, seed: int, device: str, without: Floats) -> Scores:
    """Every row; `without`: what p_real is without the exposure, which no draw changes."""
    model = Factors(given, seed, device)
    (there, value), (also, shown) = model.log, model.shown
    both = model.best(there + also, value + shown)
    liked, share = (float((one[1] > 0).sum() / one[0].sum()) for one in (model.log, model.shown))
    odds = there.mean() * torch.where(value > 0, liked / share, (1 - liked) / (1 - share))  # P(in the log | value)
    factors = {
        ("MF", False): model.best(there, value),
        ("MF, of the exposure alone", True): model.best(also, shown),
        ("MF", True): both,
        ("IPS", True): model.best(there / odds, value),
        ("doubly robust", True): model.best(torch.ones_like(there), both + there / odds * (value - both)),
        ("AutoDebias", True): model.best(there, value, debias=True),
    }
    return {
        ("popularity", False): given.chosen.popularity()[given.items].astype(np.float64),
        ("EASE", False): solved(given, "ease", [{"model.l2": l2} for l2 in (50.0, 500.0)], seed, device),
        ("iALS", False): solved(given, "ials", [{"model.alpha": alpha} for alpha in (0.03, 0.3)], seed, device),
        **{row: model.of_pairs(scores) for row, scores in factors.items()},
        ("Accord, p_real", False): without,
        ("Accord, p_real", True): by_labels(given, True),
    }


def run(folder: Path, draws: int, out: Path, device: str = "auto", say: Callable[[str], None] = print) -> list[Line]:
    """One line per draw; finished draws are not repeated."""
    given, device = read(folder), str(find_device(device))

    def make(missing: list[Line]) -> Iterator[Line]:
        without = by_labels(given.drawn(0), False)
        for key in missing:
            drawn, rows = given.drawn(key["draw"]), []
            for (row, exposed), scores in of_draw(drawn, key["draw"], device, without).items():
                figures = drawn.auc(scores, 2), drawn.ndcg(scores), drawn.auc(scores, 1)
                rows.append({"row": row, "exposed": exposed, **dict(zip(FIGURES, figures, strict=True))})
            yield key | {"rows": rows}
            say(f"{key['dataset']}: draw {key['draw'] + 1} of {draws}")

    return add_missing(out / f"{NAME}.jsonl", [{"dataset": folder.name, "draw": n} for n in range(draws)], make)


def tables(lines: Sequence[Line]) -> list[Table]:
    """The rows of every log, the best first."""
    every = [row | {"data": line["dataset"]} for line in lines for row in line["rows"]]
    groups = grouped(every, "data", "row", "exposed")
    groups.sort(key=lambda own: (own[0]["data"], -fmean(line["auc"] for line in own)))
    heads = ((own[0]["data"], own[0]["row"], "yes" if own[0]["exposed"] else "") for own in groups)
    rows = [(*head, *(spread(own, name) for name in FIGURES[:2])) for head, own in zip(heads, groups, strict=True)]
    return [Table(TITLE, HEADS, tuple(rows))]


render = partial(page_of_lines, NAME, TITLE, NOTE, tables)
