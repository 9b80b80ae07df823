"""How much each of several models counts where their scores are added up: chosen greedily on the validation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from accord.consensus.families import PAYS
from accord.evaluation.evaluate import Relevant
from accord.evaluation.metrics import ndcg
from accord.evaluation.ranking import Ranker
from accord.kernels.lookups import entries_of

K = 20
DEPTH = 40  # items of each member's list among which the sum's best are looked for
STEPS, DRAWS, SEED = 6, 8, 0
MOVES = 20  # steps from a vote to that of the members that last
LEAST = 1 / 20  # of all steps: who is chosen less often counts for nothing, and is saved fitting and scoring

Score = Callable[[Tensor], Tensor]  # users [B] -> [B, I], comparable between members


@dataclass(frozen=True)
class Votes:
    """What members say of the items that any of them ranks high, P for each user, some places empty; of the H users
    who have a hit there, as the others of U have none whatever the weights."""

    scores: Tensor  # [M, H, P]
    present: Tensor  # [H, P]
    hits: Tensor  # [H, P] what each adds to a DCG: one, or by how real it is
    counts: Tensor  # [U] relevant items of each user
    users: Tensor  # [H]: which of U

    def ndcg(self, weights: Sequence[float]) -> Tensor:
        """NDCG@20 of each user by the weighted sum: [U]."""
        total = torch.zeros_like(self.scores[0])
        for member in np.flatnonzero(weights).tolist():
            total.add_(self.scores[member], alpha=weights[member])
        best = total.masked_fill(~self.present, -torch.inf).topk(min(K, total.shape[1])).indices
        gains = ndcg(pad(self.hits.gather(1, best), (0, K - best.shape[1])), self.counts[self.users])
        return torch.zeros(len(self.counts), dtype=gains.dtype).index_copy_(0, self.users, gains)


def collect_votes(members: Sequence[Score], ranker: Ranker, relevant: Relevant) -> Votes:
    """What members say of the users of a validation; `ranker` says how many users are scored at once."""
    blocks: list[tuple[Tensor, Tensor, Tensor]] = []
    with_hits, done = [], 0
    place, num_items = ranker.device, relevant.seen.num_items
    tables = relevant.seen.ptr, relevant.seen.items, relevant.pairs.keys
    seen_ptr, seen_items, keys = (torch.from_numpy(part).to(place) for part in tables)
    gains = None if relevant.gains is None else torch.from_numpy(relevant.gains).to(place)
    for block in ranker.blocks(relevant.users):
        users = seen_ptr.new_tensor(block)
        owner, items, _ = entries_of(seen_ptr, seen_items, users)
        with torch.inference_mode():
            scores = torch.stack([member(users) for member in members])  # [M, B, I]
        masked = scores.clone()
        masked[:, owner, items.long()] = -torch.inf
        high = masked.topk(min(DEPTH, num_items)).indices.transpose(0, 1).flatten(1)
        pool = torch.zeros(len(users), num_items, dtype=torch.bool, device=place).scatter_(1, high, True)
        pool[owner, items.long()] = False
        counts = pool.sum(1)
        present = torch.arange(int(counts.max()), device=place) < counts[:, None]
        places = present.long().masked_scatter_(present, pool.nonzero()[:, 1])
        wanted = users[:, None] * num_items + places
        nearest = torch.searchsorted(keys, wanted).clamp(max=len(keys) - 1)
        hits = (keys[nearest] == wanted) & present
        rows = hits.any(1).nonzero().squeeze(1)
        hits = hits if gains is None else hits * gains[nearest]
        with_hits.append(done + rows.cpu())
        done += len(users)
        values = scores[:, rows].gather(2, places[rows].expand(len(members), -1, -1))
        blocks.append((values.cpu(), present[rows].cpu(), hits[rows].cpu()))
    width = max(present.shape[1] for _, present, _ in blocks)
    said, there, right = ([pad(block[part], (0, width - block[1].shape[1])) for block in blocks] for part in range(3))
    counts = torch.from_numpy(relevant.counts)
    return Votes(torch.cat(said, 1), torch.cat(there), torch.cat(right), counts, torch.cat(with_hits))


def choose_weights(votes: Votes) -> list[float]:
    """The share of each member in the sum.
    Six times, the member is added that makes NDCG@20 highest, one as often as it helps (Caruana's selection with
    replacement); over and over on users drawn with replacement, and the mean of it all: one selection on a small
    validation fits its chance. Where one member alone is better on the validation than that, it is alone."""
    members, users = len(votes.scores), len(votes.counts)
    drawn = np.random.default_rng(SEED).multinomial(users, np.full(users, 1 / users), size=DRAWS)

    @cache
    def per_user(chosen: tuple[int, ...]) -> Tensor:
        return votes.ndcg(chosen)

    total = np.zeros(members)
    for draw in torch.from_numpy(drawn).double():
        chosen = (0,) * members
        for _ in range(STEPS):
            tries = [tuple(count + (m == added) for m, count in enumerate(chosen)) for added in range(members)]
            chosen = max(tries, key=lambda one: float(draw @ per_user(one)))  # of equal ones the first
        total += chosen
    share = total / total.sum()
    share[share < LEAST] = 0
    share = (share / share.sum()).round(4)
    alone = [float(per_user(tuple(row)).mean()) for row in np.eye(members, dtype=int).tolist()]
    if max(alone) >= float(votes.ndcg(share.tolist()).mean()):
        share = np.eye(members)[int(np.argmax(alone))]
    return [float(value) for value in share]


def lasting_too(votes: Votes, weights: Sequence[float], lasting: Sequence[bool]) -> list[float]:
    """`weights`, moved towards the best vote of the members that last, those that do not go by what came last, as far
    as NDCG@20 stays within a hundredth: a validation shows what comes next, which is not what is liked."""
    places = np.flatnonzero(lasting)
    given, best = np.array(weights), np.zeros(len(weights))
    if not len(places) or not given[~np.array(lasting)].any():
        return list(weights)
    best[places] = choose_weights(replace(votes, scores=votes.scores[torch.from_numpy(places)]))
    least, moved = float(votes.ndcg(weights).mean()) / PAYS, [float(weight) for weight in weights]
    for share in np.arange(1, MOVES) / MOVES:
        mixed = (1 - share) * given + share * best
        mixed[mixed < LEAST] = 0
        mixed = (mixed / mixed.sum()).round(4)
        if float(votes.ndcg(mixed.tolist()).mean()) < least:
            break
        moved = mixed.tolist()
    return moved
