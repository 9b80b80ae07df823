"""The leaderboard: every model with every method under one protocol, equally tuned, and tested for chance.

`run` trains and writes raw results, and `NAME.json`: which runs make up each row, and the paired tests between rows.
The page is written from these two files alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from accord.comparing.compare import ALWAYS, Cell, Request, cells_of, compare, keys_of
from accord.comparing.results import Results, mean_sd, run_key
from accord.comparing.tuning import space_of, tuned
from accord.data.interactions import Dataset
from accord.errors import InputError
from accord.evaluation.evaluate import Relevant
from accord.evaluation.significance import Comparison, compare_to, holm
from accord.io.files import read_json, write_json
from accord.methods import METHODS
from accord.protocol import PRESETS
from accord.report.export import write_all
from accord.report.tables import Figure, Table
from accord_lab import charts
from accord_lab.charts import display_name
from accord_lab.known_noise import Labelled
from accord_lab.oracle import NAME as CEILING
from accord_lab.oracle import ceiling

NAME, AUTO = "leaderboard", "auto"
MODELS = ("mf", "gmf", "neumf", "cdae", "lightgcn", "item-knn", "user-knn", "graph-filter", "ials", "auto")
TRIALS = 16
KS = (5, 20)
METRICS = ("recall@5", "recall@20", "ndcg@5", "ndcg@20")
HOW_TESTED = (
    "NDCG@20, paired by user and seed. p: sign-flip permutation test on the users' mean differences, corrected by "
    "Holm's method for all rows of this table; interval: bootstrap over users and seeds; effect size: mean over "
    "standard deviation of the users' differences. Where none of the 10,000 permutations reached the difference, p "
    "is that "
    "of a normal approximation, so those below 0.0001 are. Differences with p < 0.05 are marked, gains and losses "
    "alike. The "
    "test is about these runs, the interval also about other seeds: a small p beside an interval around 0 means that "
    "the seeds differ."
)
HOW_CHOSEN = (
    "Tested as above. Among the solved models and Normal of every learned one, this row has the highest NDCG@20 on the "
    "test itself, so it is the hardest to beat."
)
HOW_AUTO = (
    "Tested as above: a loss is what auto gains on that row. It is one run, whose learned members are means over seeds."
)
Line = dict[str, Any]


def run(
    datasets: Sequence[Dataset],
    request: Callable[[Dataset], Request],
    folder: Path,
    models: Sequence[str] = MODELS,
    methods: Sequence[str] = tuple(METHODS),
    trials: int = TRIALS,
) -> list[Table | Figure]:
    """Tune, train and test on each dataset, and write the page of everything that the folder holds."""
    file = folder / f"{NAME}.json"
    content = read_json(file) if file.exists() else {}
    cells = cells_of(models, methods, {})
    for data in datasets:
        labelled = Labelled.by_value(data)
        asked = replace(request(data), ks=KS, more=None if labelled is None else labelled.judge)
        asked.say(f"{data.name}: {len(cells)} rows")
        chosen = tuned(asked, cells, trials, Results(folder, "tuning")) if trials else cells
        results = compare(asked, chosen, Results(folder, NAME))
        content[data.name] = _entry(asked, chosen, results, trials)
        write_json(file, content)
    return render(folder)


def _entry(request: Request, cells: Sequence[Cell], results: Results, trials: int) -> dict[str, Any]:
    """What the page shows of a dataset besides the lines of its runs."""
    data, relevant = request.data, Relevant.of_test(request.data, PRESETS[request.protocol])
    warm = int((data.csr(data.train).counts[relevant.users] > 0).sum())
    told = ceiling(request, KS)
    if told is not None and run_key(told) not in results.by_key():
        results.add([told], {})
    rows: list[dict[str, Any]] = [{"model": c.model, "method": c.method, "runs": keys_of(request, c)} for c in cells]
    per_user, lines = results.per_user("ndcg@20"), results.by_key()
    values = {row_name(row): np.stack([per_user[key] for key in row["runs"]]) for row in rows}
    plain = [row_name(row) for row in rows if row["method"] in (None, "normal") and row["model"] != AUTO]
    best = max(plain, key=lambda name: float(values[name].mean()))
    return {
        "counts": data.counts() | {"test": len(relevant.pairs.items)},
        "judged": {"warm": warm, "cold": len(relevant.users) - warm},
        "seeds": request.seeds if isinstance(request.seeds, int) else len(request.seeds),
        "epochs": request.epochs,
        "trials": trials,
        "devices": sorted({lines[key]["device"] for row in rows for key in row["runs"]}),
        "rows": rows,
        "told": None if told is None else run_key(told),
        "best": best,
        "tests": tested(rows, values, best),
    }


def tested(
    rows: Sequence[Mapping[str, Any]], values: Mapping[str, npt.NDArray[np.float64]], best: str
) -> dict[str, dict[str, dict[str, float]]]:
    """Every row against Normal of its model, against the best row without denoising and against `auto`, by the metric
    of every user [seeds, users]."""
    against = {"normal": _against_normal(rows, values)}
    for name, base in (("best", best), (AUTO, row_name({"model": AUTO, "method": None}))):
        if base in values:
            against[name] = compare_to(values[base], {row: own for row, own in values.items() if row != base})
    return {name: {row: asdict(test) for row, test in tests.items()} for name, tests in against.items()}


def _against_normal(
    rows: Sequence[Mapping[str, Any]], values: Mapping[str, npt.NDArray[np.float64]]
) -> dict[str, Comparison]:
    """Each method against Normal of the same model; Holm's correction is over the tests of all models."""
    tests: dict[str, Comparison] = {}
    for normal in (row for row in rows if row["method"] == "normal"):
        same = [row_name(row) for row in rows if row["model"] == normal["model"] and row is not normal]
        tests |= compare_to(values[row_name(normal)], {name: values[name] for name in same})
    corrected = holm([test.p for test in tests.values()])
    return {name: replace(test, p_holm=p) for (name, test), p in zip(tests.items(), corrected, strict=True)}


def row_name(row: Mapping[str, Any]) -> str:
    return display_name(row["model"]) + (f" + {display_name(row['method'])}" if row["method"] else "")


# --- the page


@dataclass(frozen=True)
class Row:
    """A row with the lines of its runs."""

    model: str
    method: str | None
    lines: list[Line]

    @property
    def name(self) -> str:
        return row_name({"model": self.model, "method": self.method})

    def values(self, metric: str, group: str | None = None) -> npt.NDArray[np.float64]:
        found = [line["metrics"] if group is None else line["groups"][group] for line in self.lines]
        return np.array([own[metric] for own in found])

    def noise(self, figure: str) -> npt.NDArray[np.float64] | None:
        found = [line.get("noise", {}).get(figure) for line in self.lines]
        return None if None in found else np.array(found)


def render(folder: Path) -> list[Table | Figure]:
    """Write the page from the raw results alone."""
    file = folder / f"{NAME}.json"
    if not file.exists():
        raise InputError(f"{file} does not exist: nothing was finished in this folder; run without --render-only.")
    content, lines = read_json(file), Results(folder, NAME).by_key()
    parts: list[Table | Figure] = []
    for dataset, entry in content.items():
        wanted = [*(key for row in entry["rows"] for key in row["runs"]), *([entry["told"]] if entry["told"] else [])]
        if not set(wanted) <= set(lines):
            raise InputError(f"{folder}/{NAME}.jsonl lacks runs of {dataset} that {file.name} names; run it again.")
        rows = [Row(row["model"], row["method"], [lines[key] for key in row["runs"]]) for row in entry["rows"]]
        told = Row(CEILING, None, [lines[entry["told"]]]) if entry["told"] else None
        parts += _dataset(dataset, entry, rows, told)
    write_all(folder, NAME, parts, _intro(content), "Leaderboard: what denoising gains under one protocol")
    return parts


def _intro(content: Mapping[str, Any]) -> list[str]:
    devices = sorted({device for entry in content.values() for device in entry["devices"]})
    paragraphs = [
        "Protocol corrected: ties broken by popularity, train and validation masked, users without history get popular "
        "items, the best weights by validation NDCG@20 restored; the same tuning budget for every row, Normal and EASE "
        f"included, but for auto, which searches by itself. Run on {', '.join(devices)}.",
    ]
    for dataset, entry in content.items():
        counts, judged = entry["counts"], entry["judged"]
        epochs = "" if entry["epochs"] is None else f", at most {entry['epochs']} epochs"
        tuning = f"{entry['trials']} trials per row" if entry["trials"] else "defaults, not tuned"
        paragraphs.append(
            f"{display_name(dataset)}: {counts['users']:,} users, {counts['items']:,} items, {counts['train']:,} "
            f"training pairs; {counts['test']:,} clean test pairs of {judged['warm']:,} users with history and "
            f"{judged['cold']:,} without; {entry['seeds']} seeds, {tuning}{epochs}."
        )
    return paragraphs


def _dataset(dataset: str, entry: Mapping[str, Any], rows: list[Row], told: Row | None) -> list[Table | Figure]:
    title, tests, best = display_name(dataset), entry["tests"], entry["best"]
    parts: list[Table | Figure] = [
        _ranking(title, rows, told),
        charts.ranking(
            f"{NAME}-{dataset}.svg",
            title,
            [(row.name, row.method or row.model, row.values("ndcg@20")) for row in rows],
            None if told is None else float(told.values("ndcg@20")[0]),
        ),
    ]
    if told is not None:
        parts.append(_shares(title, rows, told))
    if tests["normal"]:
        named = {(row.model, row.method or ""): tests["normal"].get(row.name) for row in rows}
        parts += [
            _tests(title, rows, tests["normal"], "Normal of the same model", HOW_TESTED),
            charts.gains(f"{NAME}-{dataset}-gain.svg", title, {key: test for key, test in named.items() if test}),
        ]
    parts.append(_tests(title, rows, tests["best"], f"{best}, the best row without denoising", HOW_CHOSEN))
    if AUTO in tests:
        parts.append(_tests(title, rows, tests[AUTO], "auto, the default", HOW_AUTO))
    if any(row.noise("auc") is not None for row in rows):
        parts.append(_noise(title, rows))
    curves = {
        (row.model, row.method or ""): [line["noise"]["reliability"] for line in row.lines]
        for row in rows
        if row.noise("ece") is not None
    }
    if curves:
        parts.append(charts.reliability(f"{NAME}-{dataset}-calibration.svg", title, curves))
    return [*parts, _settings(title, rows)]


def spread(values: npt.NDArray[np.float64] | None, digits: int = 4) -> str | None:
    return None if values is None else mean_sd(values, digits)


def _ranking(title: str, rows: Sequence[Row], told: Row | None) -> Table:
    groups = [name for name, mean in rows[0].lines[0]["groups"].items() if mean]
    columns: list[tuple[str, str | None]] = [(metric, None) for metric in METRICS]
    if len(groups) > 1:
        columns += [(metric, group) for group in groups for metric in ("recall@20", "ndcg@20")]
    every = [*rows, *([told] if told else [])]
    means = np.array([[row.values(*column).mean() for column in columns] for row in rows])
    telling = [column for column, (_, group) in enumerate(columns) if group != "cold"]
    marked = frozenset((int(means[:, column].argmax()), column + 2) for column in telling)
    body = tuple((row.name, len(row.lines), *(spread(row.values(*column)) for column in columns)) for row in every)
    heads = ("what", "runs", *(metric + (f", {group} users" if group else "") for metric, group in columns))
    notes = ["Mean ± standard deviation over seeds. The best of each column is marked, EASE with ratings aside."]
    if len(groups) > 1:
        notes.append(
            "Users without history (cold) get popular items from every model, so those columns are all the same."
        )
    return Table(f"{title}: ranking on the clean test", heads, body, tuple(notes), marked)


def _shares(title: str, rows: Sequence[Row], told: Row) -> Table:
    """How much of what denoising can gain each row has gained."""
    ease = next(row for row in rows if row.model == "ease")
    normals = {row.model: row for row in rows if row.method == "normal"}
    groups: list[str | None] = [None]
    if told.lines[0]["groups"]["cold"]:
        groups.append("warm")  # cold users get popular items, whatever is denoised
    body = []
    for row in rows:
        cells: list[str | None] = [row.name]
        for group in groups:
            mean = {one.name: float(one.values("ndcg@20", group).mean()) for one in (row, ease, told)}
            room = mean[told.name] - mean[ease.name]
            cells.append(f"{(mean[row.name] - mean[ease.name]) / room:+.0%}")
            normal = normals.get(row.model) if row.method not in (None, "normal") else None
            gain = None if normal is None else mean[row.name] - float(normal.values("ndcg@20", group).mean())
            cells.append(None if gain is None else f"{gain / room:+.0%}")
        body.append(tuple(cells))
    names = ["of all users" if group is None else f"of {group} users" for group in groups]
    heads = ("what", *(f"{kind}, {who}" for who in names for kind in ("share recovered", "gain over Normal")))
    notes = (
        "NDCG@20. EASE with ratings is the ceiling of a perfect denoiser on that model, its weights and its penalty "
        "the best "
        "found on the test itself; what denoising can gain is ceiling − EASE. Share recovered: (row − EASE) / "
        "(ceiling − EASE), so EASE has 0%, the ceiling 100%, and a row "
        "below plain EASE less than 0%. Gain over Normal: (row − Normal of the same model) / (ceiling − EASE): what "
        "the method itself adds to its model, on the same scale.",
    )
    return Table(f"{title}: share of the ceiling with ratings", heads, tuple(body), notes)


def _tests(title: str, rows: Sequence[Row], tests: Mapping[str, Any], baseline: str, note: str) -> Table:
    body: list[tuple[str, ...]] = []
    marked: set[tuple[int, int]] = set()
    for row in rows:
        test = tests.get(row.name)
        if test is None:
            continue
        if test["p_holm"] < 0.05:
            marked.add((len(body), 1))
        body.append(
            (
                row.name,
                f"{test['difference']:+.4f}",
                f"{test['low']:+.4f} to {test['high']:+.4f}",
                "< 0.0001" if test["p_holm"] < 1e-4 else f"{test['p_holm']:.4f}",
                f"{test['effect']:+.3f}",
                f"{test['better']:+.1%}",
            )
        )
    heads = ("what", "difference", "95% interval", "p (Holm)", "effect size", "users better − worse")
    return Table(f"{title}: against {baseline}", heads, tuple(body), (note,), frozenset(marked))


def _noise(title: str, rows: Sequence[Row]) -> Table:
    figures = ("auc", "average_precision", "ece", "brier")
    shown = [row for row in rows if row.noise("auc") is not None]
    body = tuple((row.name, *(spread(row.noise(figure), 3) for figure in figures)) for row in shown)
    label = shown[0].lines[0]["noise"]
    notes = (
        f"{label['pairs']:,} training pairs whose value says what they are (ratings of 4 and above are real, of 2 and "
        f"below noise; 1 and 0 on built-in data), {label['noise_rate']:.1%} of them noise. AUC of telling them apart "
        "by the posterior, 0.5 being chance, and average precision of finding the noise, chance being its share; for "
        f"{' and '.join(display_name(name) for name in ALWAYS)} by the score itself. ECE and Brier: is a posterior of "
        "p right for a share p; lower is better, and scores are not probabilities.",
    )
    heads = ("what", "AUC", "average precision", "ECE", "Brier")
    return Table(f"{title}: finding the noise in the training pairs", heads, body, notes)


def _settings(title: str, rows: Sequence[Row]) -> Table:
    """What tuning chose, and the validation result."""
    body = []
    for row in rows:
        settings = row.lines[0]["settings"]
        own = [f"{k.partition('.')[2]} {v:g}" for k, v in settings.items() if k in space_of(row.model)]
        valid = [line["valid_ndcg@20"] for line in row.lines]
        epochs = f"{np.mean([line['epochs'] for line in row.lines]):.0f}" if row.method else None
        shown = None if None in valid else spread(np.array(valid))
        body.append((row.name, ", ".join(own), shown, epochs))
    heads = ("what", "options", "validation NDCG@20", "epochs")
    return Table(f"{title}: what was tuned", heads, tuple(body))
