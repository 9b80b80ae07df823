"""A run, trained: one model by the training loop, or a consensus by its members, which `auto` searches for."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from accord.consensus.labels import clean_members, learn_labels
from accord.consensus.members import Candidate, MemberTraining
from accord.consensus.search import search_members, shared, voters
from accord.consensus.votes import choose_weights, collect_votes, lasting_too
from accord.data.interactions import Dataset
from accord.errors import InputError
from accord.io.tensors import narrowed
from accord.methods.base import Method
from accord.models.base import compact
from accord.models.consensus import Consensus, Member
from accord.training.run import RunSpec, is_of_members
from accord.training.stack import train_stack
from accord.training.trainer import Progress, TrainState

LOGS, MOST_BYTES, REPORT_BYTES = 19, 2e8, 4.5e5  # what a run folder may take: so many times the log
SMALL = 2**25  # bytes that the weights of any run may take: to drop votes of a small log would save nobody anything
WEIGHT_BYTES = 4  # of one between items: which item, in 16 bits, and half precision


@dataclass(frozen=True)
class Trained:
    """A trained run. Of a consensus, `run` is the recipe: the members that were chosen, their options and weights."""

    run: RunSpec
    method: Method
    states: Sequence[TrainState] = ()
    notes: Sequence[str] = ()
    candidates: Sequence[Candidate] = ()  # of a consensus, those too that got no vote
    search: Mapping[str, Any] = field(default_factory=dict)  # what `auto` tried
    seconds: Mapping[str, float] = field(default_factory=dict)  # what parts of it took: labels


def train_run(
    data: Dataset,
    run: RunSpec,
    device: torch.device,
    *,
    folder: Path | None = None,
    resume: bool = False,
    watch: Callable[[Progress], None] | None = None,
    each_epoch: Callable[[Method, int], None] | None = None,
) -> Trained:
    """Train a run, whatever its model is; see `train_stack`."""
    if is_of_members(run.model):
        trained = _train_consensus(MemberTraining(data, run, device, watch, folder, resume))
    else:
        method, states = train_stack(
            data, run, device, folder=folder, resume=resume, watch=watch, each_epoch=each_epoch
        )
        trained = Trained(run, method, states, method.notes)
    if not run.kind.learns:
        _compact(trained.method, data)
    return trained


def _compact(method: Method, data: Dataset) -> None:
    """Let a trained method take less room, and where that is still much, each of its models at most half of it."""
    compact(method)
    if stored_bytes(method) > most_bytes(data):
        compact(method, int(most_bytes(data)) // 2 // WEIGHT_BYTES)


def stored_bytes(method: Method) -> int:
    return sum(narrowed(tensor).nbytes for tensor in method.state_dict().values())


def most_bytes(data: Dataset) -> float:
    """What the weights of a run may take, so that its folder is at most 20 times the log, as a CSV file of its ids and
    times, and 200 MB; in any case 32 MiB."""
    row = 3 + math.log10(len(data.users) * len(data.items)) + 11 * data.train.has_time
    log = row * sum(map(len, (data.train, data.valid, data.test)))
    return max(SMALL, min(LOGS * log, MOST_BYTES) - REPORT_BYTES)


def _train_consensus(training: MemberTraining) -> Trained:
    run, learned = training.run, None
    search: dict[str, Any] = {}
    seconds = {}
    searches, data = not run.members, training.data
    labelled = any("label" in part.names for part in (data.train, data.valid)) or data.outside is not None
    if labelled if searches else any(member.taught for member in run.members):
        began = time.perf_counter()
        training.report("learning from the labels", 0 if searches else None)
        learned = learn_labels(training)
        seconds["labels"] = time.perf_counter() - began
    if searches:
        options = Consensus.Config(**run.config.model_options)
        candidates, search = search_members(training, options.budget, options.recency)
        if learned is not None and learned.used:
            best = sorted(candidates, key=lambda one: -(one.ndcg or 0))
            candidates += training.candidates(clean_members([one.member for one in best]))
    else:
        candidates = training.candidates(run.members)
    if not candidates:
        raise InputError(f"no member of the consensus could be trained: {' '.join(training.notes)}")
    if search:
        for candidate in candidates:
            _compact(candidate.method, data)
    candidates = _weighted(training, candidates)
    if search:
        candidates = _best_or_voting(_small(training, candidates))
    recipe, method = _consensus(training, candidates)
    return Trained(recipe, method, (), training.notes, candidates, search, seconds)


def _weighted(training: MemberTraining, candidates: Sequence[Candidate]) -> list[Candidate]:
    """The candidates with the weights that were given, or with those that are best on the validation."""
    weights = [candidate.member.weight for candidate in candidates]
    if None in weights:
        weights = [*_choose_weights(training, candidates)]
    return [candidate.weighing(weight or None) for candidate, weight in zip(candidates, weights, strict=True)]


def _small(training: MemberTraining, candidates: Sequence[Candidate]) -> list[Candidate]:
    """The candidates with votes that fit into a run folder: while they do not, the largest is left out."""
    left_out: list[Candidate] = []
    rest = list(candidates)
    while True:
        sizes = [stored_bytes(one.method) if one.member.weight else 0 for one in rest]
        if sum(sizes) <= max(most_bytes(training.data), max(sizes)):
            return [*rest, *left_out]
        rest = [one.weighing(None) for one in rest]
        left_out.append(rest.pop(sizes.index(max(sizes))))
        rest = _weighted(training, rest)


def _best_or_voting(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Of each model and method the best, with and without fading or labels, and whatever else has a vote."""
    best = {(one.member.label, one.fades): one for one in reversed(candidates)}
    return [one for one in candidates if one.member.weight or one in best.values()]


def _choose_weights(training: MemberTraining, candidates: Sequence[Candidate]) -> list[float]:
    if len(candidates) == 1:
        return [1.0]
    if training.relevant is None:
        training.notes.append("there is no validation to choose votes by, so all members have the same.")
        return [1.0] * len(candidates)
    ranker = training.ranker(_consensus(training, ())[1].target)
    votes = collect_votes(voters(candidates), ranker, training.relevant)
    lasting = [one.member.model != "popularity" and not one.method.target.in_order for one in candidates]
    return shared(candidates, lasting_too(votes, choose_weights(votes), lasting))


def _consensus(training: MemberTraining, candidates: Sequence[Candidate]) -> tuple[RunSpec, Method]:
    """The recipe and the method of a consensus of the candidates that have a vote."""
    voting = [candidate for candidate in candidates if candidate.member.weight]
    method = of_members(training.run, ()).build(training.train)
    assert isinstance(method.target, Consensus)
    method.target.take([one.member for one in voting], [one.method for one in voting])
    return of_members(training.run, [one.member for one in voting]), method.to(training.device).eval()


def of_members(run: RunSpec, members: Sequence[Member]) -> RunSpec:
    """The run of a consensus of these members, with the training and rules of a run."""
    written = [member.model_dump(mode="json", exclude_defaults=True) for member in members]
    return replace(run.updated(model=Consensus.name, model_options={"members": written}), model=Consensus.name)
