"""What several processes do together besides training: they refuse what they cannot share, evaluate, and gather."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

from accord.data.interactions import Dataset
from accord.data.user_shard import rows_of, shard_of
from accord.errors import InputError
from accord.evaluation.evaluate import Evaluation, Relevant, evaluate
from accord.evaluation.ranking import Ranker
from accord.methods.base import Method
from accord.nn.layers import shared_out, whole_tables
from accord.nn.ranks import Ranks
from accord.training.run import RunSpec
from accord.training.trainer import Progress


def require_shardable(ranks: Ranks, run: RunSpec, data: Dataset) -> None:
    """Refuse a model or method that needs all users, or all pairs of a batch, in one process, if there are several."""
    if ranks.size == 1:
        return
    method = run.with_seeds(run.config.seeds[:1]).build(
        rows_of(data.training_csr(run.columns), 0, 1)
    )  # small: it is only asked
    for part in method.modules():
        if not getattr(part, "shardable", True):
            refused = method.target if part is method and not method.learns else part
            what = f"method '{refused.name}'" if refused is method else f"model '{refused.name}'"
            raise InputError(
                f"{what} cannot be trained by several processes: it needs all users, or all pairs of a batch, in one; "
                "start it without torchrun."
            )


def evaluate_together(
    ranks: Ranks, run: RunSpec, data: Dataset, method: Method, relevant: Relevant, device: torch.device,
    watch: Callable[[Progress], None] | None = None,
) -> Evaluation | None:  # fmt: skip
    """The test, each process ranking for its own users; all of it in the first process, None elsewhere."""
    if not len(relevant.users):
        raise InputError("the test holds no pair to evaluate on; give more data, another split or another clean rule.")
    rules, train = run.config.protocol, data.training_csr()
    first, size = ranks.share(train.num_users)
    local, shard = relevant.of_users(first, size), shard_of(train, (first, size))
    ranker = Ranker.of(method.target, method.score_all, len(run.config.seeds), local.seen, shard, rules, device)

    def on_progress(done: int) -> None:
        if watch is not None:
            watch(Progress("the test", done, len(local.users), unit="users"))

    with whole_tables(method.target), torch.no_grad():
        method.target.ready_to_score()
        result = evaluate(ranker, local, run.config.ks, on_progress)
    names = list(result.per_user)
    every = ranks.collect(torch.from_numpy(np.stack([result.per_user[name] for name in names])), 2, "test figures")
    if every is None:
        return None
    per_user = {name: every[place].numpy() for place, name in enumerate(names)}
    return Evaluation(relevant.users, per_user, train.counts[relevant.users] > 0)


def gathered(ranks: Ranks, run: RunSpec, data: Dataset, method: Method) -> Method | None:
    """The method with all users' rows, in the first process; None elsewhere."""
    shares = shared_out(method)
    if all(share.size == share.whole for share in shares.values()):
        return method
    weights, device = {}, next(iter(method.state_dict().values())).device
    for name, tensor in method.state_dict().items():
        weights[name] = ranks.collect(tensor, 1, name) if name in shares else tensor
    if ranks.rank:
        return None
    whole = run.build(data.training_csr(run.columns))
    whole.load_state_dict(weights)
    return whole.to(device).eval()
