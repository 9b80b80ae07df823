"""Trains by the rules that were tried where the paper does not say what it ran: how published/rules.jsonl was made.

    python docs/try_rules.py OUT [--dataset modcloth] [--model gmf] [--method wbpr] [--seeds 1]

Every rule of the methods asked for is trained on every dataset and model asked for, as `accord lab reproduce overall`
trains the rows of the paper, and OUT/rules.jsonl gets a line for each run. What is in OUT already is not trained again.
All of it takes hours on a GPU.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from torch import Tensor

from accord.comparing.compare import Cell, Request, compare, keys_of
from accord.comparing.results import Results
from accord.data.interactions import Dataset
from accord.data.load import load_named
from accord.models import class_of
from accord.training.plan import plan
from accord_lab import names
from accord_lab.methods.baselines import Ensemble
from accord_lab.paper.experiment import KS

Rule = dict[str, Any]
RULES: dict[str, list[Rule]] = {
    "wbpr": [{"wbpr_added": added} for added in (0.0, 1 / 30, 0.05, 1 / 15, 0.1, 1 / 3, 1.0)],
    "tce": [
        *({"ramp": steps, "drop": drop} for steps in (1, 300, 1000) for drop in (0.1, 0.2)),
        *({"share": share, "drop": drop} for share in (0.25, 1) for drop in (0.1, 0.2)),
    ],
    "ensemble": [{"average": what} for what in ("probability", "score", "rank")],
}
DATASETS = ("ml-100k", "modcloth", "adressa")


def steps(data: Dataset, model: str, method: str, epochs: int | None) -> int:
    """Of the whole training, if it does not stop early."""
    config = plan(data, model, method, "published", 1, {}, epochs).config.train
    kind = class_of(model)
    size = len(data.users) if kind is not None and kind.batching == "users" else len(data.train)
    return config.epochs * -(-size // config.batch_size)


def cell(rule: Rule, data: Dataset, model: str, method: str, epochs: int | None) -> Cell:
    """The rule as options. A `share` is the part of the training after which T-CE drops all that it is to drop."""
    if method == "ensemble":
        return Cell(model, method)
    if method == "wbpr":
        return Cell(model, method, (("protocol.wbpr_added", rule["wbpr_added"]),))
    ramp = rule.get("ramp") or max(1, round(rule["share"] * steps(data, model, method, epochs)))
    return Cell(model, method, (("method.drop", rule["drop"]), ("method.ramp", int(ramp))))


def ranked_by(scores: Tensor) -> Tensor:
    """Minus the place of each item in its row."""
    return -scores.argsort(-1, descending=True).argsort(-1).float()


@contextmanager
def averaging(what: str | None) -> Iterator[None]:
    """What the members of an ensemble are averaged by; its own way is the mean probability."""
    own = Ensemble.score_all

    def score_all(self: Ensemble, users: Tensor) -> Tensor:
        scores = self.target.score_all(users)
        scores = ranked_by(scores) if what == "rank" else scores
        return scores.view(self.members, -1, *scores.shape[1:]).mean(0)

    if what in ("score", "rank"):
        Ensemble.score_all = score_all  # type: ignore[method-assign]
    try:
        yield
    finally:
        Ensemble.score_all = own  # type: ignore[method-assign]


def lines(request: Request, model: str, method: str, out: Path) -> list[dict[str, Any]]:
    """Train what is not there yet; a line for every rule and seed."""
    data = request.data
    wanted = [f"{kind}@{k}" for kind in ("recall", "ndcg") for k in KS[data.name]]
    found = []
    for rule in RULES[method]:
        own, average = cell(rule, data, model, method, request.epochs), rule.get("average")
        with averaging(average):
            by_key = compare(request, [own], Results(out / (average or ""), "tried")).by_key()
        for key in keys_of(request, own):
            run = by_key[key]
            found.append({
                "method": method, "rule": rule, "dataset": data.name, "model": model, "seed": run["seed"],
                "metrics": {name: run["metrics"][name] for name in wanted}, "device": run["device"],
            })  # fmt: skip
    return found


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("out", type=Path, help="folder of rules.jsonl")
    options.add_argument("--dataset", nargs="+", default=list(DATASETS), choices=DATASETS)
    options.add_argument("--model", nargs="+", default=list(names.MODELS), choices=list(names.MODELS))
    options.add_argument("--method", nargs="+", default=list(RULES), choices=list(RULES))
    options.add_argument("--seeds", type=int, default=3, help="runs of each, with seeds 2019, 2020, …")
    options.add_argument("--epochs", type=int, help="instead of the paper's")
    options.add_argument("--device", default="auto")
    given = options.parse_args()
    found: list[dict[str, Any]] = []
    for name in given.dataset:
        request = Request(load_named(name), "published", given.seeds, (), given.epochs, given.device, per_user=False)
        for method in given.method:
            for model in given.model:
                found += lines(request, model, method, given.out)
                given.out.mkdir(parents=True, exist_ok=True)
                (given.out / "rules.jsonl").write_text("".join(json.dumps(line) + "\n" for line in found))


if __name__ == "__main__":
    main()
