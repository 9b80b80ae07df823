"""One training on several ranks: `fit` in processes that torchrun, or whoever sets its environment variables, started.

The users are shared out: a rank has the interactions of its own, their rows of every table and the optimiser's state of
these, and no other rank sees them. Item tables and dense layers are at all ranks, their gradients summed in every step.
All ranks draw what one process would draw and take their users' part, so the result is that of one process.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from accord.data.csr import Csr
from accord.data.interactions import Dataset
from accord.data.user_shard import UserPart, rows_of
from accord.errors import InputError
from accord.evaluation.ranking import Evaluation, Ranker, Relevant, evaluate
from accord.fitting import find_device, plan, train_stack
from accord.io.files import only_writer
from accord.methods import MethodSpec
from accord.methods.base import Method
from accord.models import ModelSpec
from accord.models.base import Model
from accord.nn.layers import shared_out, whole_tables
from accord.nn.ranks import Ranks
from accord.protocol import Protocol
from accord.recommender.recommender import Recommender
from accord.training.run import Run
from accord.training.trainer import Progress


def fit(
    ranks: Ranks,
    data: Dataset,
    model: ModelSpec = "gmf",
    method: MethodSpec = "deca",
    *,
    protocol: str | Protocol = "corrected",
    seeds: int | Sequence[int] = 1,
    options: Mapping[str, Any] | None = None,
    epochs: int | None = None,
    device: str = "auto",
    ks: Sequence[int] | None = None,
    out: str | Path | None = None,
    resume: bool = False,
    watch: Callable[[Progress], None] | None = None,
    read_seconds: float = 0.0,
    command: str | None = None,
) -> Recommender | None:
    """`accord.fit` on several ranks, each of which calls it with the same arguments and the whole data.

    What is trained comes back at rank 0, which also writes it; None elsewhere. `out` lies where all ranks can write.
    """
    run = plan(data, model, method, protocol, seeds, options or {}, epochs, ks)
    require_apart(run, data.csr(data.train))
    on = find_device(device)
    began = time.perf_counter()
    folder = None if out is None else Path(out)
    with only_writer(folder if ranks.rank == 0 else None):
        trained, states = train_stack(data, run, on, folder, resume, watch if ranks.rank == 0 else None, ranks=ranks)
        seconds = {"read": read_seconds, "train": time.perf_counter() - began}
        evaluation = evaluated(ranks, run, data, trained, on)
        whole = collected(ranks, run, data.csr(data.train), trained, on)
        if whole is None or evaluation is None:
            return None
        recommender = Recommender.of_training(run, data, whole, states, seconds, evaluation)
        recommender.metrics["ranks"] = ranks.size
        if command is not None:
            recommender.metrics["command"] = command
        if folder is not None:
            recommender.save(folder)
        return recommender


def require_apart(run: Run, train: Csr) -> None:
    """Refuse what needs all users, or all pairs of a batch, in one place."""
    if run.method is None:
        raise InputError(
            f"model '{run.config.model}' is fitted in closed form, by one process; start it without torchrun."
        )
    first = run.with_seeds(run.config.seeds[:1]).build(rows_of(train, 0, 1))  # small: it is only asked
    for part in first.modules():
        if isinstance(part, Model | Method):
            kind: type[Model | Method] = Model if isinstance(part, Model) else Method
            reason = part.together if "together" in type(part).__dict__ else kind.together
            if reason is not None:
                what = f"{kind.__name__.lower()} '{part.name}'"
                raise InputError(f"{what} cannot be trained in ranks: {reason}; start it without torchrun.")


def evaluated(ranks: Ranks, run: Run, data: Dataset, method: Method, device: torch.device) -> Evaluation | None:
    """The test, each rank judging the lists of its own users; all of it at rank 0."""
    rules, train = run.config.protocol, data.csr(data.train)
    whole = Relevant.of_test(data, rules)
    if not len(whole.users):
        raise InputError("the test holds no pair to evaluate on; give more data, another split or another clean rule.")
    first, size = ranks.share(train.num_users)
    relevant, own = whole.of_users(first, size), UserPart.cut(train, first, size)
    ranker = Ranker.of(method.target, method.score_all, len(run.config.seeds), relevant.seen, own, rules, device)
    with whole_tables(method.target), torch.no_grad():
        method.target.ready_to_score()
        found = evaluate(ranker, relevant, run.config.ks)
    names = sorted(found.per_user)
    every = ranks.collect(torch.from_numpy(np.stack([found.per_user[name] for name in names])), 2, "test figures")
    if every is None:
        return None
    per_user = {name: every[place].numpy() for place, name in enumerate(names)}
    return Evaluation(whole.users, {name: per_user[name] for name in found.per_user}, train.counts[whole.users] > 0)


def collected(ranks: Ranks, run: Run, train: Csr, method: Method, device: torch.device) -> Method | None:
    """The method with everybody's rows, at rank 0."""
    shares = shared_out(method)
    weights = {}
    for name, tensor in method.state_dict().items():
        weights[name] = ranks.collect(tensor, 1, name) if name in shares else tensor
    if ranks.rank:
        return None
    whole = run.build(train)
    whole.load_state_dict(weights)
    return whole.to(device).eval()
