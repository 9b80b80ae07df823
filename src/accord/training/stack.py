"""Trains all runs of a stack together, stage by stage: what a method asks for in `stages` is done here."""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import itertools
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import torch

from accord.data.csr import Csr
from accord.data.folds import Fold, cut
from accord.data.interactions import Dataset, Interactions
from accord.data.sampling import TrainingPairs
from accord.data.user_shard import sampler_of, shard_of
from accord.errors import InputError
from accord.evaluation.evaluate import Relevant, evaluate, validation_part
from accord.evaluation.ranking import Ranker
from accord.kernels.lookups import entries_of
from accord.methods.base import Method
from accord.methods.known import note
from accord.models import ModelSpec
from accord.models.base import Model
from accord.models.consensus import Member, as_run
from accord.nn.ranks import ALONE, Ranks
from accord.random import generators
from accord.training import checkpoints
from accord.training.run import RunSpec, in_a_batch
from accord.training.stopping import Stopping
from accord.training.trainer import STEADIER, Diverged, Progress, Trainer, TrainState
from accord.training.validation import by_loss, by_ndcg

SCORED_AT_ONCE = 2**24


def train_stack(
    data: Dataset,
    run: RunSpec,
    device: torch.device,
    *,
    folder: Path | None = None,
    resume: bool = False,
    watch: Callable[[Progress], None] | None = None,
    each_epoch: Callable[[Method, int], None] | None = None,
    ranks: Ranks = ALONE,
    columns: Mapping[str, npt.NDArray[np.float64]] | None = None,
) -> tuple[Method, list[TrainState]]:
    """The trained method of a run, and the state in which each of its stages ended.

    Checkpoints go to `folder`, and `resume` continues from there. `each_epoch` sees the method, ready to score, after
    each epoch of the last stage. With several processes, what comes back has this one's users alone.
    `columns`: more of what is known of each training interaction, in the order of the matrix.
    """
    if device.type == "cpu":
        ready_cpu()
    whole = data.training_csr(run.columns)
    whole = replace(whole, columns={**whole.columns, **columns}) if columns else whole
    train = shard_of(whole, ranks.share(whole.num_users), ranks.item_share(whole.num_items))
    method = run.build(train).to(device)
    method.notes = note(train, method.learns, method.target.name)
    if folder is not None and not resume and ranks.rank == 0:
        # what an earlier training left must not come back when this one is resumed
        checkpoints.remove(checkpoints.found(folder))
    bench = Bench(data, run, train, method, device, folder, resume, watch, each_epoch, ranks)
    method.stages(bench)
    lost = {row % len(run.config.seeds) for state in bench.states for row in state.diverged}
    if lost:
        raise _diverged(run, train, method, bench.states, lost)
    return method.to(device).eval(), bench.states


def _tell_share(watch: Callable[[Progress], None], name: str, share: float) -> None:
    """What a solved model has done, in per cent."""
    watch(Progress(name, round(100 * share), 100, 0, float("nan"), 0.0, None, "%"))


class Bench:
    """What a method is trained on: the lab that `Method.stages` is handed."""

    def __init__(
        self, data: Dataset, run: RunSpec, train: Csr, method: Method, device: torch.device, folder: Path | None = None,
        resume: bool = False, watch: Callable[[Progress], None] | None = None,
        each_epoch: Callable[[Method, int], None] | None = None, ranks: Ranks = ALONE,
    ) -> None:  # fmt: skip
        self.data, self.run, self.train_pairs, self.method, self.device = data, run, train, method, device
        self.folder, self.resume, self.watch, self.each_epoch, self.ranks = folder, resume, watch, each_epoch, ranks
        self.states: list[TrainState] = []
        self.set_columns: dict[str, npt.NDArray[np.float64]] = {}
        self.begun: list[tuple[Member, Future[tuple[Method, int | None]]]] = []

    def train(self, stage: Method) -> None:
        """Train a stage with its own sampler, and keep the state in which it ended."""
        trainer = self.trainer(stage)
        if self.resume and self.folder is not None:
            trainer.resume()
        self.states.append(trainer.train())

    def solve(self, model: Model) -> None:
        tell = None if self.watch is None else partial(_tell_share, self.watch, model.name)
        if tell is not None:
            tell(0)  # whatever a model itself may tell
        model.told = tell
        model.fit(self.train_pairs, self.train_pairs.columns.get("weight"))
        model.told = None
        if tell is not None:
            tell(1)
        model.to(self.device)

    @property
    def validation_pairs(self) -> Csr:
        return self.data.csr(validation_part(self.data, self.run.config.protocol))

    def out_of_fold(self, model: ModelSpec, method: str = "normal", folds: int = 5) -> npt.NDArray[np.float64]:
        """Scores of every training interaction by models that were trained without it: [runs, n]."""
        whole = self.train_pairs
        if whole.num_users < whole.all_users:
            raise InputError("out-of-fold scores need all users in one process; start it without torchrun.")
        pairs = pa.table({"user": pa.array(whole.users, pa.int32()), "item": pa.array(whole.items, pa.int32())})
        rows = Interactions(pairs, (self.data.users, self.data.items))
        judge = self.run.beside(model, method)
        found = np.empty((len(judge.config.seeds), len(rows)))
        for fold in cut(whole.users, whole.items, whole.num_users, whole.num_items, folds):
            trained, held = trained_without(self.data, rows, judge, fold, self.device, self.watch)
            found[:, fold.held] = pair_scores(trained, held, self.device)
        return found

    def set_column(self, name: str, values: npt.NDArray[np.float64]) -> None:
        if len(values) != len(self.train_pairs.items):
            raise InputError(
                f"column '{name}' has {len(values)} values for {len(self.train_pairs.items)} training interactions."
            )
        self.set_columns[name] = np.asarray(values)
        self.train_pairs = replace(self.train_pairs, columns={**self.train_pairs.columns, **self.set_columns})

    def fit(self, member: Member) -> tuple[Method, int | None]:
        begun = next((future for one, future in self.begun if one == member), None)
        return self._fit(member) if begun is None else begun.result()

    def _fit(self, member: Member, watch: Callable[[Progress], None] | None = None) -> tuple[Method, int | None]:
        run = self.run.of_member(member)
        if member.epochs is not None and self.relevant is None:
            run = run.updated(train=run.config.train.model_copy(update={"epochs": member.epochs}))
        try:
            trained, states = train_stack(
                self._of_members, run, self.device, watch=watch, ranks=self.ranks, columns=self._columns_of(member)
            )
        except Diverged as error:
            if error.rest is None:
                raise
            _, trained, states = error.rest
        watched = states and self.relevant is not None and run.config.protocol.early_stop == "best-ndcg"
        return trained, states[-1].best_epoch() if watched else None

    @contextlib.contextmanager
    def beside(self, members: Sequence[Member]) -> Iterator[None]:
        learned, threads = [member for member in members if member.method is not None], torch.get_num_threads()
        if not learned or threads == 1 or self.device.type != "cpu" or self.ranks.size > 1:
            yield
            return
        over = threading.Event()

        def go_on(_: Progress) -> None:
            if over.is_set():
                raise CancelledError

        def work(member: Member) -> tuple[Method, int | None]:
            torch.set_num_threads(threads // 2)  # of this thread
            return self._fit(member, go_on)

        with ThreadPoolExecutor(1) as pool:
            torch.set_num_threads(threads - threads // 2)
            self.begun = [(member, pool.submit(work, member)) for member in learned]
            try:
                yield
            finally:
                torch.set_num_threads(threads)
                over.set()  # what nobody waits for ends with its epoch
                pool.shutdown(wait=False, cancel_futures=True)
                self.begun = []

    @cached_property
    def _of_members(self) -> Dataset:
        """The data without labels: a consensus says itself what its members learn from them. What is labelled as noise
        judges none of them."""
        bare, judging = self.data.train.without("label"), self._without_noise
        return judging if bare is self.data.train else replace(judging, train=bare)

    @cached_property
    def _without_noise(self) -> Dataset:
        """The data with a validation that has no pair labelled as noise, unless all of them are."""
        part, noise = self._labelled_noise
        if not noise.any() or noise.all():
            return self.data
        return replace(self.data, valid=part.filter(~noise), valid_clean=None)

    @property
    def _labelled_noise(self) -> tuple[Interactions, npt.NDArray[np.bool_]]:
        """The validation, and which of its pairs are labelled as noise."""
        part = validation_part(self.data, self.run.config.protocol)
        return part, part.column("label") < 0.5 if "label" in part.names else np.zeros(len(part), dtype=bool)

    @property
    def known_noise(self) -> int:
        return len(self._labelled_noise[0]) - len(validation_part(self._without_noise, self.run.config.protocol))

    def _columns_of(self, member: Member) -> dict[str, npt.NDArray[np.float64]]:
        """The columns that were set, as a member takes them: p_real is what a learned one is trained against, and what
        an interaction counts for in a solved one."""
        p_real = self.set_columns.get("p_real")
        if not member.by_p_real or p_real is None:
            return self.set_columns
        share = p_real / p_real.mean()
        if member.method is not None:
            return {**self.set_columns, "label": np.minimum(share, 1)}
        return {**self.set_columns, "weight": share * self.train_pairs.columns.get("weight", 1.0)}

    def scored_otherwise(self, member: Member, trained: Method) -> Method:
        run = self.run.of_member(member)
        made, weights = run.build(self.data.training_csr(run.columns)), trained.state_dict()
        made.target.make_room({name.removeprefix("target."): tensor for name, tensor in weights.items()})
        made.load_state_dict(weights, assign=True)
        return made.to(self.device).eval()

    @property
    def has_times(self) -> bool:
        return self.data.train.has_time and not self.data.train.rows.column("time").null_count

    @cached_property
    def relevant(self) -> Relevant | None:
        return self._judged_by(self._without_noise)

    @property
    def known_real(self) -> Relevant | None:
        part = validation_part(self.data, self.run.config.protocol)
        if "label" not in part.names:
            return None
        return self._judged_by(replace(self.data, valid=part.filter(part.column("label") > 0.5), valid_clean=None))

    def _judged_by(self, data: Dataset) -> Relevant | None:
        relevant = Relevant.of_validation(data, self.run.config.protocol).sampled()
        return relevant if len(relevant.users) else None

    def ranker(self, method: Method) -> Ranker:
        seen, rules = self.data.csr(self.data.train), self.run.config.protocol
        return Ranker.of(method.target, method.score_all, 1, seen, self.train_pairs, rules, self.device)

    def validate(self, method: Method) -> float | None:
        if self.relevant is None:
            return None
        ranker = replace(self.ranker(method), score_all=partial(as_run, method), scores_are_logits=False)
        return float(evaluate(ranker, self.relevant, [20]).per_user["ndcg@20"].mean())

    def report(self, what: str, done: int, of: int, plan: str | None = None) -> None:
        if self.watch is not None:
            self.watch(Progress(what, done, of, 0, float("nan"), 0.0, None, "tried", plan))

    def trainer(self, stage: Method) -> Trainer:
        """What trains the next stage."""
        number, last = len(self.states) + 1, stage is self.method
        name = f"{number}/{self.method.num_stages}"
        config, train, device = self.run.config, self.train_pairs, self.device
        rules, settings, seeds = config.protocol, config.train, stage.target.seeds
        pairs = TrainingPairs.of(train, device, ("weight", "label", *stage.columns))
        ptr = train.all_ptr
        size = int(ptr[-1]) if stage.target.batching == "pairs" else int((np.diff(ptr) > 0).sum())
        sampler = sampler_of(
            train,
            pairs,
            generators(seeds, f"sampling {name}", device),
            in_a_batch(settings, size),
            negatives=rules.negatives,
            batching=stage.target.batching,
            user_negatives=stage.rules.user_negatives,
            popularity=stage.popularity,
        )
        stops = settings.early_stop if last else settings.pretrain_early_stop
        own = [options.get("l2", settings.l2) for options in config.own_options("train")]
        return Trainer(
            stage,
            sampler,
            settings,
            torch.tensor(own * (len(seeds) // len(own)), device=device),
            self._stopping(stage, pairs, sampler.num_batches) if stops else None,
            name,
            watch=self.watch,
            each_epoch=partial(self.each_epoch, stage) if self.each_epoch is not None and last else None,
            checkpoint=None if self.folder is None else self.folder / f"checkpoint-{number}.safetensors",
            identity=self.identity,
            ranks=self.ranks,
            decoupled=rules.optimiser == "decoupled",
        )

    @cached_property
    def identity(self) -> str:
        """What a checkpoint is of: the config, apart from how long it trains and what is reported, and the data."""
        config, data = self.run.config, self.data
        settings = config.model_dump_json(exclude={"train": {"epochs", "checkpoint_seconds"}, "ks": True})
        train, valid = data.training_csr(self.run.columns), data.csr(validation_part(data, config.protocol))
        digest = hashlib.sha256()
        for keys in itertools.chain(train.key_parts(), valid.key_parts()):
            digest.update(keys.tobytes())
        for name in sorted(train.columns):
            digest.update(name.encode() + np.ascontiguousarray(train.columns[name]).tobytes())
        return f"{settings} {digest.hexdigest()}"

    def _stopping(self, stage: Method, pairs: TrainingPairs, steps: int) -> Stopping | None:
        rules, data = self.run.config.protocol, self.data
        if not len(validation_part(data, rules)):
            return None
        if rules.early_stop == "loss-rise":
            return by_loss(data, self.train_pairs, rules, stage, pairs, self.device, self.ranks)
        patience = self.run.config.train.patience
        return by_ndcg(data, self.train_pairs, rules, stage, steps, patience, self.device, self.ranks)


def trained_without(
    data: Dataset, rows: Interactions, run: RunSpec, fold: Fold, device: torch.device,
    watch: Callable[[Progress], None] | None = None,
) -> tuple[Method, Csr]:  # fmt: skip
    """A run trained on all rows but those of a fold, and these as a matrix."""
    train, valid, held = (rows.filter(part) for part in (fold.trained(run.kind.learns), fold.valid, fold.held))
    parts = replace(data, train=train, valid=valid, test=held, valid_clean=None, test_noisy=None)
    return train_stack(parts, run, device, watch=watch)[0], parts.csr(held)


@torch.inference_mode()
def pair_scores(method: Method, pairs: Csr, device: torch.device) -> npt.NDArray[np.float64]:
    """Scores of pairs, in their order: [runs, n]."""
    found = []
    users = np.flatnonzero(pairs.counts)
    for block in np.array_split(users, max(1, -(-len(users) * pairs.num_items // SCORED_AT_ONCE))):
        scores = method.score_all(torch.from_numpy(block).to(device))  # [R, B, I]
        owner, items, _ = entries_of(*(torch.from_numpy(part) for part in (pairs.ptr, pairs.items, block)))
        found.append(scores[:, owner.to(device), items.to(device)].double().cpu().numpy())
    return np.concatenate(found, 1)


def _diverged(run: RunSpec, train: Csr, method: Method, states: Sequence[TrainState], lost: set[int]) -> Diverged:
    """The error that some runs of a stack have diverged, with a stack of the others."""
    config, runs = run.config, len(run.config.seeds)
    seeds = ", ".join(str(config.seeds[number]) for number in sorted(lost))
    error = Diverged(
        f"training diverged with seed {seeds} of {config.model} + {config.method}: loss or weights became NaN or "
        f"infinite, so that run is left out; {STEADIER}."
    )
    keep = [number for number in range(runs) if number not in lost]
    if keep and train.num_users == train.all_users:
        kept = {
            name: tuple(getattr(config, name)[n] for n in keep) for name in ("seeds", "varied") if getattr(config, name)
        }
        rest = run.updated(**kept)
        rows = [member * runs + n for member in range(len(method.target.seeds) // runs) for n in keep]
        made = rest.build(train)
        made.load_state_dict({name: tensor[rows].cpu() for name, tensor in method.state_dict().items()})
        device = next(iter(method.state_dict().values())).device
        error.rest = rest, made.to(device).eval(), [state.of(rows) for state in states]
    return error


TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3  # in malloc.h


def ready_cpu() -> None:
    """Two settings of the process that training on a CPU gains a third from."""
    torch.set_flush_denormal(True)  # weights that only decay become denormal numbers, which are slow
    with contextlib.suppress(OSError, AttributeError):  # glibc alone: keep freed memory, or each step faults it in anew
        malloc_options = ctypes.CDLL(None).mallopt
        malloc_options(TRIM_THRESHOLD, 2**30)
        malloc_options(MMAP_THRESHOLD, 2**26)  # less than a block of scores, which would leave holes that nothing fits
