"""Whether agreement with a different model tells noise: DeCA(p) with frozen partners of several families.

`run` writes raw results and `NAME.json`, which says which runs make up each row; the page is written from these alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from scipy.stats import rankdata

from accord.comparing.compare import Cell, Line, Request, compare, keys_of, users_of
from accord.comparing.results import Results
from accord.data.interactions import Dataset
from accord.evaluation.noise import auc
from accord.evaluation.significance import compare_to
from accord.io.files import write_json
from accord.methods.base import Build
from accord.methods.partner import SolvedPartner
from accord.models import is_solved
from accord.models.base import Setup
from accord.recommender.recommender import Recommender
from accord.report.tables import Table, p_text
from accord.training.stack import StackTraining
from accord_lab.leaderboards.leaderboard import KS, SIGNIFICANT, read_entries, read_page_files
from accord_lab.leaderboards.noise_conditions import LabelledPairs
from accord_lab.names import Floats, display_name, mean_sd, mean_sd_or_none
from accord_lab.writing import Figure, write_all

NAME = "partners"
PARTNERS = ("mf", "ease", "item-knn", "ials")


def run(
    datasets: Sequence[Dataset],
    request_for: Callable[[Dataset], Request],
    folder: Path,
    model: str = "gmf",
    partners: Sequence[str] = PARTNERS,
) -> list[Table | Figure]:
    """Train the target with Normal, with DeCA(p) and each partner, and each partner alone; write the page."""
    entries, results = read_entries(folder, NAME), Results(folder, NAME)
    for data in datasets:
        judge = Judge(data, LabelledPairs.by_value(data), model, tuple(name for name in partners if is_solved(name)))
        request = replace(request_for(data), ks=KS, more=judge)
        request.say(f"{data.name}: {model} with {len(partners)} partners")
        rows = cells(model, partners)
        compare(request, list(rows.values()), results)
        users = users_of(request, list(rows.values()), results, "ndcg@20")
        values = {name: users[cell.name] for name, cell in rows.items()}
        denoised = {name: one for name, one in values.items() if rows[name].method == "deca-p"}
        entries[data.name] = {
            "model": model,
            "epochs": request.epochs,
            "rows": {name: keys_of(request, cell) for name, cell in rows.items()},
            "tests": {name: asdict(test) for name, test in compare_to(values[next(iter(rows))], denoised).items()},
        }
        write_json(folder / f"{NAME}.json", entries)
    return render(folder)


def cells(model: str, partners: Sequence[str]) -> dict[str, Cell]:
    """The rows of the page by name: Normal, DeCA(p) by partner, the partners themselves, and popularity."""
    name = display_name(model)
    rows = {f"{name} + Normal": Cell(model, "normal"), f"{name} + DeCA(p), a copy of itself": Cell(model, "deca-p")}
    for partner in partners:
        rows[f"{name} + DeCA(p), {display_name(partner)}"] = Cell(model, "deca-p", (("method.partner", partner),))
    for partner in partners:
        method = None if is_solved(partner) else "normal"
        rows[display_name(partner) + (" alone" if method is None else " + Normal, alone")] = Cell(partner, method)
    return rows | {"Popularity": Cell("popularity", None)}


@dataclass(frozen=True)
class Judge:
    """What the line of each run says about noise; for Normal of the target also how well `disagreement` detects it."""

    data: Dataset
    labelled: LabelledPairs | None
    model: str
    solved: tuple[str, ...]

    def __call__(self, trained: Recommender) -> list[Line]:
        if self.labelled is None:
            return [{}] * trained.num_runs
        lines = self.labelled.judge(trained)
        if trained.run.config.method != "normal" or trained.run.config.model != self.model:
            return lines
        aucs = {name: self._disagreement(self.labelled, trained, name) for name in self.solved}
        return [
            line | {"disagreement": {name: float(values[run]) for name, values in aucs.items()}}
            for run, line in enumerate(lines)
        ]

    def _disagreement(self, labelled: LabelledPairs, trained: Recommender, name: str) -> Floats:
        """AUC of taking for noise what target and partner rank differently among all labelled pairs: [runs]."""
        run, train = trained.run, self.data.training_csr()
        partner = SolvedPartner(name, Build(None, name, {}, Setup(train, run.config.seeds, run.config.protocol)))
        partner.solve(StackTraining(self.data, run, train, trained.method, trained.device), trained.device)
        pairs = (torch.from_numpy(rows).to(trained.device) for rows in (labelled.users, labelled.items))
        users, items = (rows.expand(trained.num_runs, -1) for rows in pairs)
        with torch.inference_mode():
            both = [scores.cpu().numpy() for scores in (trained.method.belief(users, items), partner(users, items))]
        apart = np.abs(rankdata(both[0], axis=1) - rankdata(both[1], axis=1))
        return np.array([auc(-values, labelled.real) for values in apart])


# --- the page


def render(folder: Path) -> list[Table | Figure]:
    entries, lines = read_page_files(folder, NAME)
    parts: list[Table | Figure] = []
    for dataset, entry in entries.items():
        rows = {name: [lines[key] for key in keys] for name, keys in entry["rows"].items()}
        title = display_name(dataset) + ("" if entry["epochs"] is None else f" (at most {entry['epochs']} epochs)")
        parts.append(rows_table(title, rows, entry["tests"]))
    devices = sorted({line["device"] for line in lines.values()})
    seeds = max(len(keys) for entry in entries.values() for keys in entry["rows"].values())
    intro = (
        "Different models are said to agree on clean interactions and to disagree on noisy ones. Here they do differ: "
        "the frozen partner of DeCA(p) is of another family. A solved partner's scores are standardised within each "
        "user and turned into probabilities on the validation. Protocol corrected, options at their defaults, "
        f"{seeds} seeds (solved models without random numbers: one run). Run on {', '.join(devices)}."
    )
    write_all(folder, NAME, parts, [intro], "Partners of other families: whether agreement tells noise")
    return parts


def rows_table(
    title: str,
    rows: Mapping[str, list[Line]],
    tests: Mapping[str, Any],
    more: Mapping[str, Callable[[str], str]] = MappingProxyType({}),
) -> Table:
    """A line for each row, `more` its further columns."""
    body, marked = [], set()
    for place, (name, lines) in enumerate(rows.items()):
        change = p = None
        if (test := tests.get(name)) is not None:
            change, p = f"{test['difference']:+.4f}", p_text(test["p_holm"])
            marked |= {(place, 2)} if test["p_holm"] < SIGNIFICANT else set()
        noise = [line["noise"]["auc"] for line in lines] if all("noise" in line for line in lines) else None
        ndcg = mean_sd([line["metrics"]["ndcg@20"] for line in lines])
        further = (figure(name) for figure in more.values())
        body.append((name, ndcg, change, p, mean_sd_or_none(noise, 3), *further))
    notes = [
        "Change and p: against the first row, paired by user and seed, sign-flip permutation test, Holm's correction "
        "over the table; p < 0.05 is marked. Noise AUC: how well the posterior (of solved models: the score) tells "
        "real training pairs from noise.",
    ]
    normal = next(iter(rows.values()))
    if solved := list(normal[0].get("disagreement", {})):
        aucs = {name: float(np.mean([line["disagreement"][name] for line in normal])) for name in solved}
        notes.append(
            "Noise AUC of disagreement alone, how far apart the first row and the partner rank a pair among all "
            f"labelled ones: {', '.join(f'{display_name(name)} {value:.3f}' for name, value in aucs.items())}; 0.5 is "
            "chance, less means that they agree more on noise."
        )
    heads = ("what", "NDCG@20", "change", "p", "noise AUC", *more)
    return Table(title, heads, tuple(body), tuple(notes), frozenset(marked))
