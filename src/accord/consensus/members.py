"""Members of a consensus: trained on a log, each as a run of its own, and evaluated on its validation."""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError, Future
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch

from accord.data.csr import Csr, Floats, pair_keys
from accord.data.interactions import Dataset, Interactions
from accord.errors import InputError
from accord.evaluation.evaluate import Relevant, evaluate, most_judged, validation_part
from accord.evaluation.ranking import Ranker
from accord.io.tensors import write_tensors
from accord.methods.base import Method
from accord.models.base import Model
from accord.models.consensus import Member, as_run
from accord.training import checkpoints, stack
from accord.training.run import RunSpec
from accord.training.trainer import OF_BUDGET, Diverged, Progress, Watch

Trial = tuple[Method, int | None]  # a trained member, and the epochs that were best where the validation stopped it


@dataclass(frozen=True)
class Candidate:
    member: Member
    method: Method
    ndcg: float | None  # @20 on the validation, where there is one

    @property
    def fades(self) -> bool:
        """Whether it scores from a history that fades."""
        return "model.recency" in self.member.options

    def weighing(self, weight: float | None) -> Candidate:
        return replace(self, member=self.member.model_copy(update={"weight": weight}))

    @property
    def entry(self) -> dict[str, Any]:
        """What the results say of it."""
        settings = self.member.model_dump(mode="json", exclude_defaults=True)
        return settings if self.ndcg is None else {**settings, "valid_ndcg@20": self.ndcg}


class MemberTraining:
    def __init__(
        self, data: Dataset, run: RunSpec, device: torch.device, watch: Callable[[Progress], None] | None = None,
        folder: Path | None = None, resume: bool = False,
    ) -> None:  # fmt: skip
        self.data, self.run, self.device, self.watch = data, run, device, watch
        self._began = time.monotonic(), time.process_time()
        self.folder = folder  # where trials are kept until all is done, to be taken up by a search that resumes
        if folder is not None and not resume:
            checkpoints.remove(folder)
        self.train = data.training_csr(run.columns)
        self.p_real: Floats | None = None  # of each training interaction, once labels have taught it
        self.num_labels = 0  # that have
        self._judged = self._without_noise()
        self.notes: list[str] = []
        self._background: list[tuple[Member, Future[Trial]]] = []
        self._waiting: deque[tuple[Member, Future[Trial]]] = deque()  # of these, those that no thread has begun
        left_out = len(self._validation) - len(validation_part(self._judged, run.config.protocol))
        if left_out:
            self.notes.append(f"the validation leaves out {left_out:,} interactions, which are labelled as noise.")

    @property
    def elapsed(self) -> float:
        """Seconds since it began, without those in which the processor worked for other programs."""
        return min(time.monotonic() - self._began[0], time.process_time() - self._began[1])

    # --- training

    def candidate(self, member: Member) -> Candidate | None:
        """A member, trained and evaluated; None, with a note, if it fails."""
        if (stored := self._stored(member)) is not None:
            return stored
        try:
            method, epochs = self._trained(member)
        except (InputError, MemoryError, torch.OutOfMemoryError) as error:
            why = str(error) if isinstance(error, InputError) else "it does not fit into memory."
            self.notes.append(f"{member.label} is left out: {why}")
            return None
        # a fit without validation trains as many epochs as were best in the fit before it
        result = self.evaluated(member.model_copy(update={"epochs": epochs or member.epochs}), method)
        if self.folder is not None:
            header = {"identity": self._identity, "trial": json.dumps([result.member.epochs, result.ndcg])}
            write_tensors(self._file(member), method.state_dict(), header)
        return result

    def drop(self, candidate: Candidate) -> None:
        """Keep of a trial what it reached and no weights: others are better."""
        if self.folder is not None and (trial := checkpoints.read(self._file(candidate.member))) is not None:
            write_tensors(self._file(candidate.member), {}, trial[1])

    def _stored(self, member: Member) -> Candidate | None:
        """A trial of the search that this one resumes; without weights if it was dropped."""
        trial = None if self.folder is None else checkpoints.read(self._file(member))
        if trial is None or trial[1].get("identity") != self._identity:
            return None
        tensors, header = trial
        (epochs, ndcg), run = json.loads(header["trial"]), self.run.of_member(member)
        method = run.build(self.data.training_csr(run.columns))
        if tensors:
            method.target.make_room({name.removeprefix("target."): tensor for name, tensor in tensors.items()})
            method.load_state_dict(tensors)
        return Candidate(member.model_copy(update={"epochs": epochs}), method.to(self.device).eval(), ndcg)

    def _file(self, member: Member) -> Path:
        assert self.folder is not None
        settings = member.model_dump_json(exclude={"epochs", "weight"})
        return self.folder / f"checkpoint-trial-{hashlib.sha256(settings.encode()).hexdigest()[:16]}.safetensors"

    @cached_property
    def _identity(self) -> str:
        return stack.identity_of(self.data, self.run)

    def candidates(self, members: Sequence[Member]) -> list[Candidate]:
        """Those of the members that do not fail. The solved ones are fitted first, while others are trained."""
        order = sorted(range(len(members)), key=lambda place: members[place].method is not None)
        with self.in_background(members):
            tried = {place: self.candidate(members[place]) for place in order}
        return [candidate for _, candidate in sorted(tried.items()) if candidate is not None]

    def evaluated(self, member: Member, method: Method) -> Candidate:
        return Candidate(member, method, self.validate(method))

    def _trained(self, member: Member) -> Trial:
        """A member as the other thread trains it. Rather than wait, this one trains what that would come to last."""
        started = next((future for one, future in self._background if one == member), None)
        if started is None:
            return self._train(member)
        while not started.done() and self._begin(self._waiting.pop):
            pass
        return started.result()

    def _begin(self, take: Callable[[], tuple[Member, Future[Trial]]], watch: Watch = None) -> bool:
        """Train one of those that wait; False if there is none."""
        try:
            member, future = take()
        except IndexError:
            return False
        try:
            future.set_result(self._train(member, watch))
        except Exception as error:
            future.set_exception(error)
        return True

    def _train(self, member: Member, watch: Watch = None) -> Trial:
        run = self.run.of_member(member)
        if member.epochs is not None and self.relevant is None:
            run = run.updated(train=run.config.train.model_copy(update={"epochs": member.epochs}))
        try:
            method, states = stack.train_stack(
                self._unlabelled, run, self.device, watch=watch, columns=self._columns_of(member)
            )
        except Diverged as error:
            if error.rest is None:
                raise
            _, method, states = error.rest
        stopped = states and self.relevant is not None and run.config.protocol.early_stop == "best-ndcg"
        return method, states[-1].best_epoch() if stopped else None

    @contextmanager
    def in_background(self, members: Sequence[Member]) -> Iterator[None]:
        """Within it, the learned ones of these members are trained by a second thread until they are asked for, with
        half of torch's threads. Neither how many threads there are nor which of them trains changes a bit of it."""
        threads = torch.get_num_threads()
        learned = [m for m in members if m.method is not None and not (self.folder and self._file(m).exists())]
        if not learned or threads == 1 or self.device.type != "cpu":
            yield
            return
        over = threading.Event()

        def check(_: Progress) -> None:
            if over.is_set():
                raise CancelledError

        def work() -> None:
            torch.set_num_threads(threads // 2)  # of this thread
            while self._begin(self._waiting.popleft, check):
                pass

        self._background = [(member, Future()) for member in learned]
        self._waiting.extend(self._background)
        other = threading.Thread(target=work)
        torch.set_num_threads(threads - threads // 2)
        other.start()
        try:
            yield
        finally:
            torch.set_num_threads(threads)
            self._waiting.clear()
            over.set()  # a training that nobody waits for ends with its epoch
            other.join()
            self._background = []

    def rescored(self, member: Member, trained: Method) -> Method:
        """A trained member with options that change its scores and none of its weights."""
        run = self.run.of_member(member)
        method, weights = run.build(self.data.training_csr(run.columns)), trained.state_dict()
        method.target.make_room({name.removeprefix("target."): tensor for name, tensor in weights.items()})
        method.load_state_dict(weights, assign=True)
        return method.to(self.device).eval()

    def _columns_of(self, member: Member) -> dict[str, Floats]:
        """What a member learns from labels: p_real is the weight of each interaction in a softmax, and, divided by its
        mean, the target of another learned one and the weight in a solved one."""
        if self.p_real is None:
            return {}
        columns = {"p_real": self.p_real}
        if not member.by_p_real:
            return columns
        share = self.p_real / self.p_real.mean()
        if member.method is not None:
            return {**columns, "label": self.p_real if member.method == "softmax" else np.minimum(share, 1)}
        return {**columns, "weight": share * self.train.columns.get("weight", 1.0)}

    # --- the data

    @cached_property
    def _unlabelled(self) -> Dataset:
        """The data without labels, as the consensus says itself what its members learn from them, and with a validation
        of no more users than members are evaluated by."""
        bare, data = self.data.train.without("label"), self._judged
        data = data if bare is self.data.train else replace(data, train=bare)
        if self.relevant is None or len(self.relevant.users) < most_judged(len(data.items)):
            return data
        part = validation_part(data, self.run.config.protocol)  # of very many users a training is stopped by some
        some = np.isin(data.rows(part)[0], self.relevant.users)
        return replace(data, valid=part.filter(some), valid_clean=None)

    def learn(self, p_real: Floats, of_validation: Floats) -> None:
        """From now on, members may know how real each training interaction is, and are judged by the validation with
        every pair counted for how real that is."""
        self.p_real, part = p_real, validation_part(self._judged, self.run.config.protocol)
        if len(part) and self._validation is not self.data.valid_clean:  # which says itself what is real
            place = np.searchsorted(self.held_out.keys, pair_keys(*self.data.rows(part), len(self.data.items)))
            self._judged = replace(self._judged, valid=part.with_column("p_real", pa.array(of_validation[place])))

    def _without_noise(self) -> Dataset:
        """The data with a validation that has no pair labelled as noise, unless all of them are."""
        part = self._validation
        noise = part.column("label") < 0.5 if "label" in part.names else np.zeros(len(part), dtype=bool)
        if not noise.any() or noise.all():
            return self.data
        return replace(self.data, valid=part.filter(~noise), valid_clean=None)

    @cached_property
    def held_out(self) -> Csr:
        """The validation pairs, with their labels."""
        pairs = self.data.csr(self._validation, columns=("label",))
        return replace(pairs, columns={"label": pairs.columns.get("label", np.full(len(pairs.items), np.nan))})

    @property
    def _validation(self) -> Interactions:
        return validation_part(self.data, self.run.config.protocol)

    @property
    def has_times(self) -> bool:
        """Whether every training interaction has a time."""
        return self.data.train.has_time and not self.data.train.rows.column("time").null_count

    # --- the validation

    @cached_property
    def relevant(self) -> Relevant | None:
        """What members are evaluated by: validation pairs of users with history, except those labelled as noise, of a
        sample of very many users; None where there are none."""
        relevant = Relevant.of_validation(self._judged, self.run.config.protocol).sampled()
        return relevant if len(relevant.users) else None

    def ranker(self, model: Model) -> Ranker:
        """What ranks the users of the validation by the scores of a trained model."""
        seen, rules = self.data.csr(self.data.train), self.run.config.protocol
        return Ranker.of(model, model.score_all, 1, seen, self.train, rules, self.device)

    def validate(self, method: Method) -> float | None:
        """NDCG@20 of a trained member on the validation: of the mean of its runs where it has several."""
        if self.relevant is None:
            return None
        ranker = replace(self.ranker(method.target), score_all=partial(as_run, method), scores_are_logits=False)
        return float(evaluate(ranker, self.relevant, [20]).per_user["ndcg@20"].mean())

    def report(self, what: str, percent: int | None, plan: str | None = None) -> None:
        """Tell whoever watches what is tried now; at the beginning, what all of the search will be."""
        if self.watch is not None:
            self.watch(Progress(what, percent or 0, 100, unit="" if percent is None else OF_BUDGET, plan=plan))
