"""What training gives back: recommendations and noise under the caller's ids, saved and loaded as a run folder."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch

from accord.config import full_name
from accord.data.columns import Columns
from accord.data.csr import Csr, Floats, Rows
from accord.data.interactions import Dataset, IdMap, Interactions
from accord.errors import Argument, InputError
from accord.evaluation.evaluate import Evaluation, Relevant, evaluate, validation_part
from accord.evaluation.ranking import Ranker
from accord.io.files import replacing, staged, write_json
from accord.methods import MethodSpec
from accord.methods.base import Method
from accord.models import ModelSpec
from accord.models.consensus import as_run
from accord.recommender import run_folder, updating
from accord.recommender.answers import Answers, as_interactions
from accord.recommender.new_items import WithNewItems
from accord.recommender.top_n import Agreement, Lists, popular_lately
from accord.training import checkpoints
from accord.training.plan import find_device
from accord.training.run import RunSpec, run_entries
from accord.version import __version__

if TYPE_CHECKING:  # whoever asks a run need not wait for what trains one
    from accord.consensus.training import Trained

PAIRS_AT_ONCE = 1_000_000


class Recommender(Answers):
    """A trained method with the ids, the seen pairs and the results that belong to it.

    >>> rec = accord.fit(accord.load("demo"), "ease")
    >>> rec
    Recommender(ease on demo: 1,000 users, 600 items, 40,000 interactions; recall@20 0.3..., ndcg@20 0.1...)
    >>> rec.recommend(["u0001"], k=2).column_names
    ['user', 'rank', 'item', 'score', 'source']
    >>> best = rec.recommend(["u0001"], k=1)
    >>> rec.score(best["user"], best["item"])["score"] == best["score"]
    True
    >>> set(rec.explain(best["user"], best["item"])["by"].to_pylist())
    {'contribution'}
    """

    def __init__(
        self, run: RunSpec, method: Method, users: IdMap, items: IdMap, train: Csr, seen: Csr, metrics: dict[str, Any]
    ) -> None:
        self.run, self.method = run, method.eval()
        self.users, self.items, self.train, self.seen = users, items, train, seen
        self.owned = seen  # what is never recommended: `seen`, and whatever else a user has in any part of the log
        self.outside: Interactions | None = None  # pairs that are not in the log and have a label
        self.final: Recommender | None = None  # what recommends, if the run was fitted again on the whole log
        self.metrics = metrics  # what metrics.json holds
        self.history: list[dict[str, Any]] = []  # what log.jsonl holds
        self.item_info: pa.Table | None = None  # a row for each row of `items`: title, and whatever else is known
        self.parts: dict[str, Interactions] = {}  # train, valid, test and the rest of the log, for the run folder
        self.evaluation: Evaluation | None = None  # on the test, of what was just trained

    @property
    def name(self) -> str:
        return full_name(self.run.config.model, self.run.config.method)

    def __repr__(self) -> str:
        sizes = f"{len(self.users):,} users, {len(self.items):,} items, {len(self.owned.items):,} interactions"
        mean = self.metrics.get("mean", {})
        figures = [f"{name} {mean[name]:.4f}" for name in ("recall@20", "ndcg@20") if name in mean]
        data = self.metrics.get("dataset", {}).get("name", "data")
        return f"Recommender({self.name} on {data}: {sizes}{'; ' if figures else ''}{', '.join(figures)})"

    @classmethod
    def of_training(
        cls,
        trained: Trained,
        data: Dataset,
        relevant: Relevant | None = None,
        evaluation: Evaluation | None = None,
        on_progress: Callable[[int], None] | None = None,
    ) -> Recommender:
        """What was trained with the data that belongs to it: evaluated, where that was not done already."""
        run, config = trained.run, trained.run.config
        relevant = relevant or Relevant.of_test(data, config.protocol)
        if evaluation is None and not len(relevant.users):
            raise InputError("the test holds no pair to evaluate on; give more data, another split or clean rule.")
        train = data.training_csr(run.columns)
        recommender = cls(run, trained.method, data.users, data.items, train, relevant.seen, {})
        recommender.item_info = data.item_info
        recommender.history = [entry for state in trained.states for entry in state.history]
        judged = {"user": data.users.take(relevant.pairs.users), "item": data.items.take(relevant.pairs.items)}
        valid = validation_part(data, config.protocol)
        parts = {"train": data.train, "valid": valid, "rest": data.held_out_besides(valid)}
        recommender._set_parts(data, parts | {"test": Interactions(pa.table(judged))})  # which the protocol made
        evaluation = recommender.evaluation = evaluation or recommender.ranked(relevant, config.ks, on_progress)
        sizes = data.counts() | {"valid": len(valid), "test": len(relevant.pairs.items)}
        recommender.metrics = {
            "accord": __version__,
            "dataset": {"name": data.name, **sizes, "notes": list(data.notes)},
            "model": config.model,
            "method": config.method or "none",
            "protocol": config.protocol.model_dump(),
            "runs": run_entries(config, evaluation, trained.states, lambda: recommender._validated(data)),
            **evaluation.summary(),
            "seconds": {},
            "device": str(recommender.device),
        } | ({"notes": list(trained.notes)} if trained.notes else {})
        return recommender

    def _set_parts(self, data: Dataset, parts: dict[str, Interactions]) -> None:
        """Store the parts of the log; what users have in neither training nor validation is not recommended either."""
        self.parts, self.owned, self.outside = parts, self.seen.merge(data.csr(parts["rest"])), data.outside

    def evaluate_members(self, trained: Trained, relevant: Relevant) -> None:
        """Add to the metrics how well each candidate of a consensus recommends alone, also those without a vote: their
        NDCG@20 on the test, or on a sample of its users where these are very many."""
        if trained.candidates:
            ranker, relevant = replace(self._ranker(self.method, 1), seen=relevant.seen), relevant.sampled()
            self.metrics["members"] = []
            for one in trained.candidates:
                alone = replace(ranker, score_all=partial(as_run, one.method))
                ndcg = evaluate(alone, relevant, [20]).per_user["ndcg@20"]
                measured = {"test_ndcg@20": float(ndcg.mean())} if len(relevant.users) else {}
                self.metrics["members"].append(one.entry | measured)
        if trained.search:
            self.metrics["search"] = dict(trained.search)

    @property
    def updates(self) -> list[dict[str, int]]:
        """What `metrics.json` says of each update."""
        result: list[dict[str, int]] = self.metrics.get("updates", [])
        return result

    @property
    def holds_out(self) -> bool:
        """Whether the log has pairs that it was not trained on."""
        return len(self.owned.items) > len(self.train.items)

    def everything(self) -> Dataset:
        """The whole log as training data."""
        train, valid, rest = (self.parts[name] for name in ("train", "valid", "rest"))
        log = Dataset("everything", train, valid, rest, self.users, self.items, outside=self.outside)
        return log.everything()

    def take_over(self, run: RunSpec, method: Method, train: Csr) -> None:
        """Let a method recommend that was fitted again on the whole log."""
        self.final = Recommender(run, method, self.users, self.items, train, self.owned, self.metrics)
        self.final.outside = self.outside
        self.metrics.setdefault("refit", {})["interactions"] = len(train.items)

    def _validated(self, data: Dataset) -> list[float] | None:
        """NDCG@20 of each run on the validation, of a sample of very many users; None where nothing is held out."""
        relevant = Relevant.of_validation(data, self.run.config.protocol).sampled()
        return [each["ndcg@20"] for each in self.ranked(relevant, [20]).mean()] if len(relevant.users) else None

    @property
    def device(self) -> torch.device:
        tensor: torch.Tensor = next(iter(self.method.state_dict().values()))
        return tensor.device

    @property
    def num_runs(self) -> int:
        return len(self.run.config.seeds)

    def _ranker(self, method: Method, runs: int) -> Ranker:
        rules = self.run.config.protocol
        return Ranker.of(method.target, method.score_all, runs, self.seen, self.train, rules, self.device)

    def evaluate(
        self, held_out: Any = None, ks: Sequence[int] | None = None, columns: Columns | Mapping[str, str] | None = None
    ) -> Evaluation:
        """Metrics of every run and user on the test that belongs to the run; or on a file or frame of interactions that
        the run has not seen, of the model that recommends."""
        if not isinstance(held_out, Relevant | None):
            model, rows = self.final or self, as_interactions(held_out, columns).rows_in(self.users, self.items)
            return model.ranked(Relevant.of_rows(*rows, model.seen), ks or self.run.config.ks)
        ks = ks or self.run.config.ks
        if held_out is None and self.evaluation is not None and self.final and self.final.method is self.method:
            return self.evaluation.at(ks)  # what was evaluated is not there any more
        relevant = held_out or self.relevant()
        if not len(relevant.users):
            if self.updates:
                raise InputError("an updated run has no test; evaluate the run from before the update.")
            if not self.metrics.get("mean"):
                raise InputError("nothing was held out to evaluate; train without ", Argument("ratios", (1, 0, 0)), ".")
            raise InputError("the test holds no pair to evaluate on; give more data, another split or clean rule.")
        return self.ranked(relevant, ks)

    def relevant(self) -> Relevant:
        """The test that belongs to the run."""
        rows = self.parts["test"].rows_in(self.users, self.items)
        pairs = Csr.of(*rows, len(self.users), len(self.items), unique=False)
        return Relevant.of_pairs(pairs, self.seen)

    @property
    def trained_on(self) -> Interactions:
        """The training interactions under the caller's ids, with their values where they had any."""
        return self.parts["train"]

    def ranked(
        self, relevant: Relevant, ks: Sequence[int], on_progress: Callable[[int], None] | None = None
    ) -> Evaluation:
        """Metrics of every run and user, whatever is relevant."""
        ranker = replace(self._ranker(self.method, self.num_runs), seen=relevant.seen)
        return evaluate(ranker, relevant, ks, on_progress)

    def per_user(self, evaluation: Evaluation) -> pa.Table:
        """An evaluation with one row per user and run, under the caller's ids."""
        seeds = self.run.config.seeds if evaluation.runs > 1 else self.run.config.seeds[self.chosen :][:1]
        columns = {
            "user": self.users.take(np.tile(evaluation.users, len(seeds))),
            "seed": np.repeat(seeds, len(evaluation.users)),
            "warm": np.tile(evaluation.warm, len(seeds)),
        }
        return pa.table(columns | {name: values.ravel() for name, values in evaluation.per_user.items()})

    @property
    def chosen(self) -> int:
        """The run that recommends: the best on validation where that was measured, else the first."""
        return int(np.argmax([entry.get("valid_ndcg@20") or 0.0 for entry in self.metrics["runs"]]))

    @property
    def chosen_spec(self) -> RunSpec:
        return self.run.with_seeds(self.run.config.seeds[self.chosen :][:1])

    @cached_property
    def _chosen_method(self) -> Method:
        """The chosen run alone: every parameter carries the run dimension, so it is a slice."""
        if self.num_runs == 1:
            return self.method
        runs, chosen = self.num_runs, self.chosen
        sliced = {name: t.view(-1, runs, *t.shape[1:])[:, chosen] for name, t in self.method.state_dict().items()}
        one = self.chosen_spec.build(self.train).to(self.device)
        one.load_state_dict(sliced)
        return one.eval()

    @cached_property
    def lists(self) -> Lists:
        """What ranks for the chosen run, by row numbers: unseen is what a user has in no part of the log."""
        model = self.final or self
        ranker = replace(model._ranker(model._chosen_method, 1), seen=model.owned)
        if ranker.newcomers is None:
            ranker = replace(ranker, newcomers=popular_lately(self.parts, self.users, self.items))
        return Lists(model._chosen_method, ranker, model.refused)

    @cached_property
    def opinions(self) -> Agreement:
        """How the members of a consensus place items."""
        model = self.final or self
        return Agreement(model.method, model.owned, [member.label for member in model.run.members])

    def with_items(self, items: Any) -> WithNewItems:
        """What it answers with new items, which a file or frame describes beside those of the training."""
        return WithNewItems(self, items)

    def beliefs(self, interactions: Interactions | Any) -> pa.Table:
        """What the trained method believes of each pair, a probability of being real: user, item, belief; the mean
        over the runs, null for ids unknown to training. `accord.posterior` and `accord.audit` estimate p_real, from
        models that have not seen the interaction."""
        pairs = as_interactions(interactions)
        users, items = pairs.rows_in(self.users, self.items)
        trained = (users >= 0) & (items >= 0)
        belief = np.full(len(pairs), np.nan)
        belief[trained] = self.beliefs_of_rows(users[trained], items[trained])
        return pa.table({"user": pairs.users, "item": pairs.items, "belief": pa.array(belief, from_pandas=True)})

    @torch.inference_mode()
    def beliefs_of_rows(self, users: Rows, items: Rows) -> Floats:
        """`beliefs` by row numbers."""
        belief = np.empty(len(users))
        for part in np.array_split(np.arange(len(users)), max(1, -(-len(users) * self.num_runs // PAIRS_AT_ONCE))):
            rows = [torch.from_numpy(x[part]).to(self.device).long().expand(self.num_runs, -1) for x in (users, items)]
            belief[part] = self.method.belief(*rows).mean(0).double().cpu().numpy()
        return belief

    def update(
        self,
        new: Any,
        *,
        columns: Columns | Mapping[str, str] | None = None,
        items: Any = None,
        without_learned: bool = False,
    ) -> Recommender:
        """The recommender with new interactions, without a search; this one stays as it is.

        `new`: a file, frame or `Interactions`; `columns`: which of its columns are what. `items`: titles of new items.
        A solved model or a consensus is fitted again on the whole log and the new interactions: what a fit on all of
        them gives. CDAE, LightGCN and SASRec take longer histories, also of new users, but no new items. Other learned
        models need a training. `without_learned`: a consensus drops the votes of its learned members, which
        take longest. The accuracy in `metrics` is from before.
        """
        run = self.chosen_spec
        if without_learned and run.members:
            run = updating.with_solved_only(run)
        method = self._chosen_method if self.final is None else self.final.method
        log, rows = replace(self.everything(), item_info=self.item_info), as_interactions(new, columns)
        updating.require_labels(run, log)
        data = updating.grown(log, rows, run, items)
        metrics = updating.metrics_of(self.metrics, self.chosen, data.counts(), len(rows))
        train, updated = data.training_csr(run.columns), updating.on(data, run, method, log, self.device)
        recommender = Recommender(run, updated, data.users, data.items, train, train, metrics)
        recommender.item_info, recommender.history = data.item_info, self.history
        recommender._set_parts(data, {"train": data.train} | dict.fromkeys(("valid", "rest", "test"), data.test))
        return recommender

    def save(self, folder: str | Path, overwrite: bool = False) -> Path:
        """Write the run folder; with `overwrite` in the place of what was there, but only when all is written:
        `metrics.json` comes last."""
        folder = Path(folder)
        if not overwrite and (folder / "metrics.json").exists():
            raise InputError(f"{folder} holds a run; give another folder, or ", Argument("overwrite", True), ".")
        info = {} if self.item_info is None else {name: self.item_info[name] for name in self.item_info.column_names}
        pair = pa.schema([("user", self.users.ids.type), ("item", self.items.ids.type)])
        parts = {
            "users": pa.table({"user": self.users.ids}),
            "items": pa.table({"item": self.items.ids, "train_count": self.train.popularity(), **info}),
            "test": self.parts["test"].table.select(pair.names).cast(pair),
        } | ({} if self.outside is None else {"outside": self.outside.table})
        with staged(folder, last="metrics.json") as place:
            write_json(place / "config.json", {"accord": __version__, **self.run.config.model_dump(mode="json")})
            run_folder.write_methods(place, self.method, self.final.method if self.final else None, self.metrics)
            if run_folder.refit_alone(self.metrics) and self.evaluation is not None:
                parts["evaluation"] = self.per_user(self.evaluation)
            for name, table in parts.items():
                with replacing(place / f"{name}.parquet") as path:
                    pq.write_table(table, path)
            with replacing(place / "seen.parquet") as path:
                run_folder.write_seen(path, self.parts, self.users, self.items)
            with replacing(place / "log.jsonl") as path:
                path.write_text("".join(json.dumps(entry) + "\n" for entry in self.history))
            write_json(place / "metrics.json", self.metrics)
            run_folder.write_manifest(place)
        run_folder.remove_others(folder)
        checkpoints.remove(folder)
        return folder

    @classmethod
    def load(
        cls,
        folder: str | Path,
        *,
        device: str = "cpu",
        model: ModelSpec | None = None,
        method: MethodSpec | None = None,
        allow_imports: bool = False,
    ) -> Recommender:
        """A recommender from its run folder.

        A run of the caller's own classes needs them: given as `model` and `method`, or imported by the names in the
        folder, which is done only with `allow_imports`.
        """
        folder = Path(folder)
        run_folder.require_finished(folder)
        with run_folder.as_sentences(folder):
            place = find_device(device)
            listed = run_folder.check_manifest(folder)
            run = RunSpec.read(folder / "config.json", model, method, allow_imports)
            metrics = run_folder.read_metrics(folder / "metrics.json", run.config)
            users, _ = run_folder.read_ids(folder / "users.parquet", "user")
            items, item_table = run_folder.read_ids(folder / "items.parquet", "item")
            parts = run_folder.read_seen(folder / "seen.parquet", users, items)
            if (number := metrics["dataset"]["train"]) and not len(parts["train"]):  # it would recommend what is seen
                why = f"it has no training pairs, and metrics.json says {number:,}"
                raise run_folder.damaged(folder / "seen.parquet", why)
            parts["test"] = run_folder.read_pairs(folder / "test.parquet", users, items)
            outside = run_folder.read_outside(folder / run_folder.OUTSIDE, listed, users, items)
            data = Dataset("saved", parts["train"], parts["valid"], parts["test"], users, items, outside=outside)
            train, valid = data.training_csr(run.columns), data.csr(data.valid)
            whole, alone = train, run_folder.refit_alone(metrics)
            if "refit" in metrics:
                log = Dataset("everything", parts["train"], parts["valid"], parts["rest"], users, items)
                whole = log.everything().training_csr(run.columns)
            name, pairs = (run_folder.REFIT, whole) if alone else (run_folder.MODEL, train)
            built = run_folder.read_method(folder / name, run, pairs, users, items).to(place)
            recommender = cls(run, built, users, items, train, train.merge(valid), metrics)
            recommender._set_parts(data, parts)
            if alone:
                recommender.evaluation = run_folder.read_evaluation(folder / run_folder.EVALUATION, users)
            if "refit" in metrics:
                one, name = recommender.chosen_spec, run_folder.REFIT
                again = built if alone else run_folder.read_method(folder / name, one, whole, users, items).to(place)
                recommender.take_over(one, again, whole)
            if "title" in item_table.column_names:
                recommender.item_info = item_table.drop_columns(["item", "train_count"])
            recommender.history = run_folder.read_log(folder / "log.jsonl")
            return recommender
