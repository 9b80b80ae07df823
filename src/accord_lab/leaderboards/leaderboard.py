"""The leaderboard: every model with every method under one protocol, equally tuned, with significance tests.

`run` trains and writes raw results, and `NAME.json`: which runs make up each row, and the paired tests between rows.
The page is written from these two files alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from accord.comparing.compare import ALWAYS, Cell, Line, Request, cells_of, compare, keys_of
from accord.comparing.results import Results, run_key
from accord.data.interactions import Dataset
from accord.errors import InputError
from accord.evaluation.evaluate import Relevant
from accord.evaluation.significance import Comparison, compare_to, holm
from accord.io.files import read_json, write_json
from accord.protocol import PRESETS
from accord.report.tables import Table
from accord_lab import drawing
from accord_lab.comparing.tables import differences_table
from accord_lab.comparing.tuning import space_of, tuned
from accord_lab.leaderboards.noise_conditions import LabelledPairs
from accord_lab.leaderboards.oracle import oracle_line
from accord_lab.methods import ALL_METHODS
from accord_lab.names import ORACLE, Floats, display_name, mean_sd, mean_sd_or_none
from accord_lab.writing import Figure, only_columns, write_all

NAME, AUTO = "leaderboard", "auto"
MODELS = ("mf", "gmf", "neumf", "cdae", "lightgcn", "item-knn", "user-knn", "graph-filter", "ials", "auto")
TRIALS = 16
KS = (5, 20)
METRICS = ("recall@5", "recall@20", "ndcg@5", "ndcg@20")
SIGNIFICANT = 0.05  # p after Holm's correction
HOW_TESTED = (
    "NDCG@20, paired by user and seed. p: sign-flip permutation test on the users' mean differences, corrected by "
    "Holm's method for all rows of this table; interval: bootstrap over users and seeds; effect size: mean over "
    "standard deviation of the users' differences. Where none of the 10,000 permutations reached the difference, p is "
    "that of a normal approximation; all p below 0.0001 are. Differences with p < 0.05 are marked, gains and losses "
    "alike. The test is about these runs, the interval also about other seeds: a small p next to an interval that "
    "includes 0 means that the seeds differ."
)
HOW_BEST_IS_CHOSEN = (
    "Tested as above. Among the solved models and Normal of every learned one, this row has the highest NDCG@20 on the "
    "test itself, so it is the hardest to beat."
)
HOW_AUTO_IS_TESTED = (
    "Tested as above: a loss is what auto gains on that row. It is one run, whose learned members are means over seeds."
)


def run(
    datasets: Sequence[Dataset],
    request_for: Callable[[Dataset], Request],
    folder: Path,
    models: Sequence[str] = MODELS,
    methods: Sequence[str] = ALL_METHODS,
    trials: int = TRIALS,
) -> list[Table | Figure]:
    """Tune, train and test on each dataset, and write the page of everything that the folder holds."""
    entries, cells = read_entries(folder, NAME), cells_of(models, methods, {})
    for data in datasets:
        labelled = LabelledPairs.by_value(data)
        request = replace(request_for(data), ks=KS, more=None if labelled is None else labelled.judge)
        request.say(f"{data.name}: {len(cells)} rows")
        chosen = tuned(request, cells, trials, Results(folder, "tuning")) if trials else cells
        results = compare(request, chosen, Results(folder, NAME))
        entries[data.name] = _entry(request, chosen, results, trials)
        write_json(folder / f"{NAME}.json", entries)
    return render(folder)


def _entry(request: Request, cells: Sequence[Cell], results: Results, trials: int) -> dict[str, Any]:
    """What the page shows of a dataset besides the lines of its runs."""
    data, relevant = request.data, Relevant.of_test(request.data, PRESETS[request.protocol])
    warm = int((data.csr(data.train).counts[relevant.users] > 0).sum())
    oracle = oracle_line(request, KS)
    if oracle is not None and run_key(oracle) not in results.by_key():
        results.add([oracle], {})
    rows: list[dict[str, Any]] = [{"model": c.model, "method": c.method, "runs": keys_of(request, c)} for c in cells]
    per_user, lines = results.per_user("ndcg@20"), results.by_key()
    values = {row_name(row): np.stack([per_user[key] for key in row["runs"]]) for row in rows}
    undenoised = [row_name(row) for row in rows if row["method"] in (None, "normal") and row["model"] != AUTO]
    best = max(undenoised, key=lambda name: float(values[name].mean()))
    return {
        "counts": data.counts() | {"test": len(relevant.pairs.items)},
        "judged": {"warm": warm, "cold": len(relevant.users) - warm},
        "seeds": request.seeds if isinstance(request.seeds, int) else len(request.seeds),
        "epochs": request.epochs,
        "trials": trials,
        "devices": sorted({lines[key]["device"] for row in rows for key in row["runs"]}),
        "rows": rows,
        "told": None if oracle is None else run_key(oracle),
        "best": best,
        "tests": tests_between(rows, values, best),
    }


def tests_between(
    rows: Sequence[Mapping[str, Any]], values: Mapping[str, Floats], best: str
) -> dict[str, dict[str, dict[str, float]]]:
    """Every row against Normal of its model, against the best row without denoising and against `auto`, by the metric
    of every user [seeds, users]."""
    against = {"normal": _against_normal(rows, values)}
    for name, base in (("best", best), (AUTO, row_name({"model": AUTO, "method": None}))):
        if base in values:
            against[name] = compare_to(values[base], {row: users for row, users in values.items() if row != base})
    return {name: {row: asdict(test) for row, test in tests.items()} for name, tests in against.items()}


def _against_normal(rows: Sequence[Mapping[str, Any]], values: Mapping[str, Floats]) -> dict[str, Comparison]:
    """Each method against Normal of the same model; Holm's correction is over the tests of all models."""
    tests: dict[str, Comparison] = {}
    for normal in (row for row in rows if row["method"] == "normal"):
        same = [row_name(row) for row in rows if row["model"] == normal["model"] and row is not normal]
        tests |= compare_to(values[row_name(normal)], {name: values[name] for name in same})
    corrected = holm([test.p for test in tests.values()])
    return {name: replace(test, p_holm=p) for (name, test), p in zip(tests.items(), corrected, strict=True)}


def row_name(row: Mapping[str, Any]) -> str:
    return display_name(row["model"]) + (f" + {display_name(row['method'])}" if row["method"] else "")


# --- the files behind a page: NAME.jsonl holds the runs, NAME.json says which runs make up each row


def read_entries(folder: Path, name: str) -> dict[str, Any]:
    """What NAME.json says of every dataset; empty where nothing was finished yet."""
    file = folder / f"{name}.json"
    return dict(read_json(file)) if file.exists() else {}


def read_page_files(folder: Path, name: str) -> tuple[dict[str, Any], dict[str, Line]]:
    """The entries of NAME.json by dataset, and the runs that they name by key."""
    entries, lines = read_entries(folder, name), Results(folder, name).by_key()
    if not entries:
        raise InputError(
            f"{folder}/{name}.json does not exist: nothing was finished in this folder; run without --render-only."
        )
    for dataset, entry in entries.items():
        if not _keys(entry) <= set(lines):
            raise InputError(f"{folder}/{name}.jsonl lacks runs of {dataset} that {name}.json names; run it again.")
    return entries, lines


def _keys(entry: Mapping[str, Any]) -> set[str]:
    rows = entry["rows"]
    per_row = rows.values() if isinstance(rows, dict) else [row["runs"] for row in rows]
    return {key for keys in per_row for key in keys} | ({entry["told"]} if entry.get("told") else set())


# --- the page


@dataclass(frozen=True)
class Row:
    model: str
    method: str | None
    lines: list[Line]

    @property
    def name(self) -> str:
        return row_name({"model": self.model, "method": self.method})

    def values(self, metric: str, group: str | None = None) -> Floats:
        per_run = [line["metrics"] if group is None else line["groups"][group] for line in self.lines]
        return np.array([metrics[metric] for metrics in per_run])

    def noise(self, figure: str) -> Floats | None:
        values = [line.get("noise", {}).get(figure) for line in self.lines]
        return None if None in values else np.array(values)


@dataclass(frozen=True)
class Board:
    """The leaderboard of a dataset: its entry in NAME.json, its rows, and EASE with the ratings where there is one."""

    dataset: str
    title: str
    entry: dict[str, Any]
    rows: list[Row]
    oracle: Row | None


def read_boards(folder: Path) -> list[Board]:
    boards = []
    entries, lines = read_page_files(folder, NAME)
    for dataset, entry in entries.items():
        rows = [Row(row["model"], row["method"], [lines[key] for key in row["runs"]]) for row in entry["rows"]]
        oracle = Row(ORACLE, None, [lines[entry["told"]]]) if entry["told"] else None
        boards.append(Board(dataset, display_name(dataset), entry, rows, oracle))
    return boards


def render(folder: Path) -> list[Table | Figure]:
    boards = read_boards(folder)
    parts = [part for board in boards for part in _parts(board)]
    write_all(folder, NAME, parts, _intro(boards), "Leaderboard: what denoising gains under one protocol")
    return parts


def _intro(boards: Sequence[Board]) -> list[str]:
    devices = sorted({device for board in boards for device in board.entry["devices"]})
    paragraphs = [
        "Protocol corrected: ties broken by popularity, train and validation masked, users without history get popular "
        "items, the best weights by validation NDCG@20 restored; the same tuning budget for every row, Normal and EASE "
        f"included, except auto, which searches by itself. Run on {', '.join(devices)}.",
    ]
    for board in boards:
        entry, counts, judged = board.entry, board.entry["counts"], board.entry["judged"]
        epochs = "" if entry["epochs"] is None else f", at most {entry['epochs']} epochs"
        tuning = f"{entry['trials']} trials per row" if entry["trials"] else "defaults, not tuned"
        paragraphs.append(
            f"{board.title}: {counts['users']:,} users, {counts['items']:,} items, {counts['train']:,} "
            f"training pairs; {counts['test']:,} clean test pairs of {judged['warm']:,} users with history and "
            f"{judged['cold']:,} without; {entry['seeds']} seeds, {tuning}{epochs}."
        )
    return paragraphs


def _parts(board: Board) -> list[Table | Figure]:
    title, rows, oracle, file = board.title, board.rows, board.oracle, f"{NAME}-{board.dataset}"
    tests, best = board.entry["tests"], board.entry["best"]
    ranked = [(row.name, row.method or row.model, row.values("ndcg@20")) for row in rows]
    ceiling = None if oracle is None else float(oracle.values("ndcg@20")[0])
    figure = drawing.ranking(f"{file}.svg", title, ranked, ceiling)
    parts: list[Table | Figure] = [_ranking(title, rows, oracle), figure]
    if oracle is not None:
        parts.append(_shares(title, rows, oracle))
    if tests["normal"]:
        gains = {(row.model, row.method or ""): test for row in rows if (test := tests["normal"].get(row.name))}
        parts += [
            _tests(title, rows, tests["normal"], "Normal of the same model", HOW_TESTED),
            drawing.gains(f"{file}-gain.svg", title, gains),
        ]
    parts.append(_tests(title, rows, tests["best"], f"{best}, the best row without denoising", HOW_BEST_IS_CHOSEN))
    if AUTO in tests:
        parts.append(_tests(title, rows, tests[AUTO], "auto, the default", HOW_AUTO_IS_TESTED))
    if any(row.noise("auc") is not None for row in rows):
        parts.append(_noise(title, rows))
    curves = {
        (row.model, row.method or ""): [line["noise"]["reliability"] for line in row.lines]
        for row in rows
        if row.noise("ece") is not None
    }
    if curves:
        parts.append(drawing.reliability(f"{file}-calibration.svg", title, curves))
    return [*parts, _settings(title, rows)]


def _ranking(title: str, rows: Sequence[Row], oracle: Row | None) -> Table:
    groups = [name for name, mean in rows[0].lines[0]["groups"].items() if mean]
    columns: list[tuple[str, str | None]] = [(metric, None) for metric in METRICS]
    if len(groups) > 1:
        columns += [(metric, group) for group in groups for metric in ("recall@20", "ndcg@20")]
    means = np.array([[row.values(*column).mean() for column in columns] for row in rows])
    compared = [number for number, (_, group) in enumerate(columns) if group != "cold"]
    marked = frozenset((int(means[:, number].argmax()), number + 2) for number in compared)
    shown = [*rows, *([oracle] if oracle else [])]
    body: list[tuple[str | float | None, ...]] = [
        (row.name, len(row.lines), *(mean_sd(row.values(*column)) for column in columns)) for row in shown
    ]
    heads = ("what", "runs", *(metric + (f", {group} users" if group else "") for metric, group in columns))
    notes = ["Mean ± standard deviation over seeds. The best of each column is marked, EASE with ratings aside."]
    if len(groups) > 1:
        notes.append("Users without history (cold) get popular items from every model: those columns are all the same.")
    return Table(f"{title}: ranking on the clean test", heads, tuple(body), tuple(notes), marked)


def _shares(title: str, rows: Sequence[Row], oracle: Row) -> Table:
    """How much of what denoising can gain each row has gained."""
    ease = next(row for row in rows if row.model == "ease")
    normals = {row.model: row for row in rows if row.method == "normal"}
    groups: list[str | None] = [None]
    if oracle.lines[0]["groups"]["cold"]:
        groups.append("warm")  # cold users get popular items, whatever is denoised

    def ndcg(row: Row, group: str | None) -> float:
        return float(row.values("ndcg@20", group).mean())

    body = []
    for row in rows:
        normal = normals.get(row.model) if row.method not in (None, "normal") else None
        cells: list[str | None] = [row.name]
        for group in groups:
            room = ndcg(oracle, group) - ndcg(ease, group)
            cells.append(f"{(ndcg(row, group) - ndcg(ease, group)) / room:+.0%}")
            cells.append(None if normal is None else f"{(ndcg(row, group) - ndcg(normal, group)) / room:+.0%}")
        body.append(tuple(cells))
    names = ["of all users" if group is None else f"of {group} users" for group in groups]
    heads = ("what", *(f"{kind}, {who}" for who in names for kind in ("share recovered", "gain over Normal")))
    note = (
        "NDCG@20. EASE with ratings is the ceiling of a perfect denoiser on that model, its weights and its penalty "
        "the best on the test itself; what denoising can gain is ceiling − EASE. Share recovered: (row − EASE) / "
        "(ceiling − EASE): EASE has 0%, the ceiling 100%, and a row below EASE less than 0%. Gain over Normal: (row − "
        "Normal of the same model) / (ceiling − EASE): what the method itself adds to its model, on the same scale."
    )
    return Table(f"{title}: share of the ceiling with ratings", heads, tuple(body), (note,))


def _tests(title: str, rows: Sequence[Row], tests: Mapping[str, Any], baseline: str, note: str) -> Table:
    tested = {row.name: Comparison(**tests[row.name]) for row in rows if row.name in tests}
    table = differences_table(f"{title}: against {baseline}", tested, note, SIGNIFICANT)
    return only_columns(table, lambda column: column != "p")


def _noise(title: str, rows: Sequence[Row]) -> Table:
    figures = ("auc", "average_precision", "ece", "brier")
    shown = [row for row in rows if row.noise("auc") is not None]
    body = tuple((row.name, *(mean_sd_or_none(row.noise(figure), 3) for figure in figures)) for row in shown)
    label = shown[0].lines[0]["noise"]
    note = (
        f"{label['pairs']:,} training pairs whose value says what they are (ratings of 4 and above are real, of 2 and "
        f"below noise; 1 and 0 on built-in data), {label['noise_rate']:.1%} of them noise. AUC of telling them apart "
        "by the posterior, 0.5 being chance, and average precision of finding the noise, chance being its share; for "
        f"{' and '.join(display_name(name) for name in ALWAYS)} by the score itself. ECE and Brier: is a posterior of "
        "p right for a share p; lower is better, and scores are not probabilities."
    )
    heads = ("what", "AUC", "average precision", "ECE", "Brier")
    return Table(f"{title}: finding the noise in the training pairs", heads, body, (note,))


def _settings(title: str, rows: Sequence[Row]) -> Table:
    """What tuning chose, and the validation result."""
    body = []
    for row in rows:
        settings = row.lines[0]["settings"]
        options = [f"{k.partition('.')[2]} {v:g}" for k, v in settings.items() if k in space_of(row.model)]
        valid = [line["valid_ndcg@20"] for line in row.lines]
        epochs = f"{np.mean([line['epochs'] for line in row.lines]):.0f}" if row.method else None
        body.append((row.name, ", ".join(options), None if None in valid else mean_sd(valid), epochs))
    heads = ("what", "options", "validation NDCG@20", "epochs")
    return Table(f"{title}: what was tuned", heads, tuple(body))
