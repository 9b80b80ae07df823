"""Whether agreement helps a softmax: MF by each loss, tuned alike, on logs as they are and with noise put into them.
`run` writes raw results and `NAME.json`, which says which runs make up each row; the page is made from these alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from accord.comparing.compare import Cell, Line, Request, compare, keys_of, users_of
from accord.comparing.results import Results
from accord.data.interactions import Dataset
from accord.evaluation.significance import compare_to
from accord.io.files import write_json
from accord.report.tables import Table
from accord_lab.comparing.tuning import space_of, tuned
from accord_lab.leaderboards.leaderboard import KS, read_entries, read_page_files
from accord_lab.leaderboards.noise_conditions import LabelledPairs, check_noise, conditions
from accord_lab.leaderboards.partners import rows_table
from accord_lab.names import display_name, mean_sd
from accord_lab.writing import Figure, write_all

NAME, TITLE = "softmax", "Agreement on softmax: whether it tells noise, and whether it recommends"
BY_PAIRS = (("model.dim", 64), ("train.lr", 0.005), ("train.epochs", 100))
COSINE = (
    *(("model.dim", 64), ("train.lr", 0.01), ("train.patience", 3), ("train.epochs", 60), ("train.l2", 0.0)),
    *(("model.scores", "cosine"), ("model.start", "factors")),
)
ON_SOFTMAX: Mapping[str, Mapping[str, Any]] = {
    "DeCA on softmax, g MF": {"g": "mf"},
    "DeCA on softmax, g EASE": {"g": "ease"},
    "DeCA on softmax, g iALS": {"g": "ials"},
    "… g MF, without h and h′": {"g": "mf", "corruption": False},
    "… g EASE, without h and h′": {"g": "ease", "corruption": False},
}
CELLS = {
    "softmax": Cell("mf", "softmax", COSINE),
    "BSL": Cell("mf", "bsl", COSINE),
    **{
        name: Cell("mf", "deca-softmax", (*COSINE, *((f"method.{option}", value) for option, value in given.items())))
        for name, given in ON_SOFTMAX.items()
    },
    "cross-entropy (Normal)": Cell("mf", "normal", BY_PAIRS),
    "DeCA": Cell("mf", "deca", BY_PAIRS),
    "DeCA(p)": Cell("mf", "deca-p", BY_PAIRS),
    "DeCA(p), partner EASE": Cell("mf", "deca-p", (*BY_PAIRS, ("method.partner", "ease"))),
    "EASE": Cell("ease", None),
}


def run(
    datasets: Sequence[Dataset], request_for: Callable[[Dataset], Request], folder: Path, trials: int,
    kinds: Sequence[str], rates: Sequence[float],
) -> list[Table | Figure]:  # fmt: skip
    """Tune every row on each log as it is, train it there and with noise, and write the page."""
    check_noise(kinds, rates)
    entries, results = read_entries(folder, NAME), Results(folder, NAME)
    for data in datasets:
        request = replace(request_for(data), ks=KS)
        cells = [*CELLS.values()]
        cells = tuned(request, cells, trials, Results(folder, "tuning")) if trials else cells
        clean, *noisy = conditions(data, kinds, rates)
        for one in (clean, *noisy):
            labelled = one.labelled or LabelledPairs.by_value(one.data)
            here = replace(request, data=one.data, more=replace(one, labelled=labelled).more)
            users = users_of(here, cells, compare(here, cells, results), "ndcg@20")
            values = {name: users[cell.name] for name, cell in zip(CELLS, cells, strict=True)}
            tests = compare_to(values.pop("softmax"), values)
            entries[data.name if one is clean else f"{data.name}, {one.name}"] = {
                "title": display_name(data.name) + ("" if one is clean else f", {one.kind} noise, {one.rate:.0%}"),
                "clean": None if one is clean else [data.name, one.name],
                "trials": trials,
                "rows": {name: keys_of(here, cell) for name, cell in zip(CELLS, cells, strict=True)},
                "tests": {name: asdict(test) for name, test in tests.items()},
            }
        write_json(folder / f"{NAME}.json", entries)
    return render(folder)


def render(folder: Path) -> list[Table | Figure]:
    """Write the page from the raw results alone."""
    entries, lines = read_page_files(folder, NAME)
    runs = {key: {row: [lines[k] for k in keys] for row, keys in one["rows"].items()} for key, one in entries.items()}
    parts: list[Table | Figure] = [_table(one, runs[key], runs) for key, one in entries.items()]
    intro = (
        "MF of 64 dimensions, trained by each loss. Rows by softmax score by cosines, start near the singular vectors "
        "and have no penalty; of the others the penalty is tuned. Each row has the same number of trials "
        f"({max(one['trials'] for one in entries.values())}), chosen by the validation's NDCG@20 of one more seed on "
        "the log as it is. On logs with noise put in, 'cost' is NDCG@20 relative to the same seed trained without it, "
        f"ranking the same items. Protocol corrected. On {', '.join(sorted({x['device'] for x in lines.values()}))}."
    )
    write_all(folder, NAME, parts, [intro], TITLE)
    return parts


def _table(entry: Mapping[str, Any], rows: Mapping[str, list[Line]], runs: Mapping[str, Any]) -> Table:
    def cost(row: str) -> str:
        clean, noise = entry["clean"]
        before = np.array([line["injected"]["ndcg@20"][noise] for line in runs[clean][row]])
        return f"{np.mean([line['metrics']['ndcg@20'] for line in rows[row]] / before - 1):+.1%}"

    def options(row: str) -> str:
        settings, names = rows[row][0]["settings"], space_of(rows[row][0]["model"])
        return ", ".join(f"{k.partition('.')[2]} {v:g}" for k, v in settings.items() if k in names and v)

    more = {"validation": lambda row: mean_sd([line["valid_ndcg@20"] for line in rows[row]]), "options": options}
    return rows_table(entry["title"], rows, entry["tests"], {**more, **({"cost": cost} if entry["clean"] else {})})
