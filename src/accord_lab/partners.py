"""Whether agreement with a different model tells noise: DeCA(p) with frozen partners of several families.

`run` writes raw results and `NAME.json`, which says which runs make up each row; the page is written from these alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from scipy.stats import rankdata

from accord.comparing.compare import Cell, Request, compare, keys_of
from accord.comparing.results import Results
from accord.data.interactions import Dataset
from accord.errors import InputError
from accord.evaluation.noise import auc
from accord.evaluation.significance import compare_to
from accord.io.files import read_json, write_json
from accord.methods.base import Build
from accord.methods.partner import SolvedPartner
from accord.models import is_solved
from accord.models.base import Setup
from accord.recommender.recommender import Recommender
from accord.report.export import write_all
from accord.report.tables import Figure, Table
from accord.training.stack import StackTraining
from accord_lab.charts import display_name
from accord_lab.known_noise import Labelled
from accord_lab.leaderboard import KS, spread

NAME = "partners"
PARTNERS = ("mf", "ease", "item-knn", "ials")
POPULAR = "Popularity"
SIGNIFICANT = 0.05
Line = dict[str, Any]


def run(
    datasets: Sequence[Dataset],
    request: Callable[[Dataset], Request],
    folder: Path,
    model: str = "gmf",
    partners: Sequence[str] = PARTNERS,
) -> list[Table | Figure]:
    """Train the target plainly, with DeCA(p) and each partner, and each partner alone; write the page."""
    file = folder / f"{NAME}.json"
    content = read_json(file) if file.exists() else {}
    results = Results(folder, NAME)
    for data in datasets:
        judge = Judge(data, Labelled.by_value(data), model, tuple(name for name in partners if is_solved(name)))
        asked = replace(request(data), ks=KS, more=judge)
        asked.say(f"{data.name}: {model} with {len(partners)} partners")
        rows = cells(model, partners)
        compare(asked, list(rows.values()), results)
        per_user = results.per_user("ndcg@20")
        values = {name: np.stack([per_user[key] for key in keys_of(asked, cell)]) for name, cell in rows.items()}
        plain = next(iter(rows))
        others = {name: own for name, own in values.items() if rows[name].method == "deca-p"}
        content[data.name] = {
            "model": model,
            "epochs": asked.epochs,
            "rows": {name: keys_of(asked, cell) for name, cell in rows.items()},
            "tests": {name: asdict(test) for name, test in compare_to(values[plain], others).items()},
        }
        write_json(file, content)
    return render(folder)


def cells(model: str, partners: Sequence[str]) -> dict[str, Cell]:
    """The rows of the page by name: plain training, DeCA(p) by partner, the partners themselves, and popularity."""
    name = display_name(model)
    found = {f"{name} + Normal": Cell(model, "normal"), f"{name} + DeCA(p), a copy of itself": Cell(model, "deca-p")}
    for partner in partners:
        found[f"{name} + DeCA(p), {display_name(partner)}"] = Cell(model, "deca-p", (("method.partner", partner),))
    for partner in partners:
        method = None if is_solved(partner) else "normal"
        found[display_name(partner) + (" alone" if method is None else " + Normal, alone")] = Cell(partner, method)
    return found | {POPULAR: Cell("popularity", None)}


@dataclass(frozen=True)
class Judge:
    """What the line of each run says about noise: `noise`, and of the plain target how far `disagreement` tells it."""

    data: Dataset
    labelled: Labelled | None
    model: str
    solved: tuple[str, ...]

    def __call__(self, trained: Recommender) -> list[Line]:
        if self.labelled is None:
            return [{}] * trained.num_runs
        found = self.labelled.judge(trained)
        if trained.run.config.method != "normal" or trained.run.config.model != self.model:
            return found
        aucs = {name: self._disagreement(trained, name) for name in self.solved}
        return [
            line | {"disagreement": {name: float(values[run]) for name, values in aucs.items()}}
            for run, line in enumerate(found)
        ]

    def _disagreement(self, trained: Recommender, name: str) -> npt.NDArray[np.float64]:
        """AUC of taking for noise what target and partner place differently among all labelled pairs: [runs]."""
        labelled, run = self.labelled, trained.run
        assert labelled is not None
        train = self.data.training_csr()
        partner = SolvedPartner(name, Build(None, name, {}, Setup(train, run.config.seeds, run.config.protocol)))
        partner.solve(StackTraining(self.data, run, train, trained.method, trained.device), trained.device)
        pairs = (torch.from_numpy(rows).to(trained.device) for rows in (labelled.users, labelled.items))
        users, items = (rows.expand(trained.num_runs, -1) for rows in pairs)
        with torch.inference_mode():
            both = [scores.cpu().numpy() for scores in (trained.method.posterior(users, items), partner(users, items))]
        apart = np.abs(rankdata(both[0], axis=1) - rankdata(both[1], axis=1))
        return np.array([auc(-values, labelled.real) for values in apart])


# --- the page


def render(folder: Path) -> list[Table | Figure]:
    """Write the page from the raw results alone."""
    file = folder / f"{NAME}.json"
    if not file.exists():
        raise InputError(f"{file} does not exist: nothing was finished in this folder; run without --render-only.")
    content, lines = read_json(file), Results(folder, NAME).by_key()
    parts: list[Table | Figure] = []
    said = []
    for dataset, entry in content.items():
        if any(key not in lines for keys in entry["rows"].values() for key in keys):
            raise InputError(f"{folder}/{NAME}.jsonl lacks runs of {dataset} that {file.name} names; run it again.")
        rows = {name: [lines[key] for key in keys] for name, keys in entry["rows"].items()}
        parts.append(_table(display_name(dataset), rows, entry["tests"]))
        title = display_name(dataset) + ("" if entry["epochs"] is None else f" (at most {entry['epochs']} epochs)")
        said.append(_sentences(title, rows, entry["tests"]))
    devices = sorted({line["device"] for line in lines.values()})
    seeds = sorted({len(keys) for entry in content.values() for keys in entry["rows"].values()})[-1]
    intro = [
        "Different models are said to agree on clean interactions and to disagree on noisy ones. Here they do differ: "
        "the frozen partner of DeCA(p) is of another family. A solved partner's scores are standardised within each "
        "user and turned into probabilities on the validation. Protocol corrected, options at their defaults, "
        f"{seeds} seeds (solved models without random numbers: one run). Run on {', '.join(devices)}.",
        *said,
    ]
    write_all(folder, NAME, parts, intro, "Partners of other families: whether agreement tells noise")
    return parts


def _values(lines: Sequence[Line]) -> npt.NDArray[np.float64]:
    return np.array([line["metrics"]["ndcg@20"] for line in lines])


def _aucs(lines: Sequence[Line]) -> npt.NDArray[np.float64] | None:
    return np.array([line["noise"]["auc"] for line in lines]) if all("noise" in line for line in lines) else None


def _table(title: str, rows: Mapping[str, list[Line]], tests: Mapping[str, Any]) -> Table:
    body = []
    for name, lines in rows.items():
        test = tests.get(name)
        change = None if test is None else f"{test['difference']:+.4f}"
        p = None if test is None else "< 0.0001" if test["p_holm"] < 0.0001 else f"{test['p_holm']:.4f}"
        body.append((name, spread(_values(lines)), change, p, spread(_aucs(lines), 3)))
    notes = [
        "Change and p: against the first row, paired by user and seed, sign-flip permutation test, Holm's correction "
        "over the table. Noise AUC: how well the posterior (of solved models: the score) tells real training pairs "
        "from noise.",
    ]
    apart = _apart(next(iter(rows.values())))
    if apart:
        told = ", ".join(f"{display_name(name)} {value:.3f}" for name, value in apart.items())
        notes.append(
            "Noise AUC of disagreement alone, how far apart the first row and the partner place a pair among all "
            f"labelled ones: {told}; 0.5 is chance, less means that they agree more on noise."
        )
    return Table(title, ("what", "NDCG@20", "change", "p", "noise AUC"), tuple(body), tuple(notes))


def _apart(lines: Sequence[Line]) -> dict[str, float]:
    """Mean AUC of the disagreement with each solved partner."""
    first = lines[0].get("disagreement", {})
    return {name: float(np.mean([line["disagreement"][name] for line in lines])) for name in first}


def _sentences(title: str, rows: Mapping[str, list[Line]], tests: Mapping[str, Any]) -> str:
    """What a dataset shows, in words that follow from its figures alone."""
    plain_name, own = list(rows)[:2]
    mean = {name: float(_values(lines).mean()) for name, lines in rows.items()}
    others = [name for name in tests if name != own]
    better = [name for name in others if tests[name]["p_holm"] < SIGNIFICANT and tests[name]["difference"] > 0]
    worse = [name for name in others if tests[name]["p_holm"] < SIGNIFICANT and tests[name]["difference"] < 0]
    text = (
        f"{title}: NDCG@20 is {mean[plain_name]:.4f} with plain training, {mean[own]:.4f} with a copy as the partner, "
        f"and {min(mean[name] for name in others):.4f} to {max(mean[name] for name in others):.4f} with partners of "
        f"other kinds, {len(better)} of {len(others)} significantly above plain training and {len(worse)} below."
    )
    plain = _aucs(rows[plain_name])
    if plain is not None:
        found = {name: float(values.mean()) for name in rows if (values := _aucs(rows[name])) is not None}
        with_partner = [found[name] for name in others]
        apart = _apart(rows[plain_name])
        partners = [name for name in rows if name not in tests and name not in (plain_name, POPULAR)]
        alone = max(partners, key=lambda name: found[name])
        text += (
            f" Noise is told with an AUC of {found[plain_name]:.3f} by plain training, {found[own]:.3f} with a copy, "
            f"{min(with_partner):.3f} to {max(with_partner):.3f} with another kind, {found[alone]:.3f} by the best "
            f"partner alone ({alone.removesuffix(' alone').removesuffix(' + Normal,')}), and {found[POPULAR]:.3f} by "
            "how popular an item is."
        )
        if apart:
            text += f" Disagreement itself tells it with {min(apart.values()):.3f} to {max(apart.values()):.3f}."
    return text
