"""Whether a folder of results says what its raw results say: every page, generated part and tested difference; and
whether a cell of each table, trained anew, gives its raw results again."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from accord.comparing.compare import Cell, Line, Request, compare
from accord.comparing.results import IDENTITY, Results, read_lines
from accord.config import imports_allowed
from accord.data.interactions import Dataset
from accord.errors import InputError
from accord.evaluation.significance import holm
from accord.io.files import read_json
from accord_lab import bars
from accord_lab.findings import pages
from accord_lab.labels import chosen, exposure, shares, training
from accord_lab.leaderboards import injected, leaderboard, partners, softmax
from accord_lab.names import display_name, standard_deviation
from accord_lab.paper.reproduce import EXPERIMENTS, reproduce

METRICS = ("recall@20", "ndcg@20")
ERRORS = 5.0  # a cell trained anew differs if by more standard errors than this, and by more than a share:
SHARE, ELSEWHERE = 0.01, 0.05  # on the kind of device that it was run on, and on another
QUICK = 0.2  # share of the cells, those that took least time, of which one is trained anew
ROUNDING = 1e-6  # of differences: the raw results have eight digits
Find = Callable[[str], Dataset | None]  # a dataset by its name, None where it is not available
PAGES: dict[str, Callable[[Path], Any]] = {
    page.NAME: page.render
    for page in (leaderboard, injected, partners, softmax, shares, training, chosen, exposure, bars)
}
WITHOUT_PAGE = ("tuning",)  # trials: the leaderboard has a table of them


@dataclass(frozen=True)
class Check:
    """What was checked, and what is wrong with it; `wrong` of None: it could not be checked, for the reason given."""

    what: str
    wrong: bool | None
    why: str = ""


def verify(folder: Path, find: Find, train: bool, device: str = "auto", allow_imports: bool = False) -> Iterator[Check]:
    """Every check of a folder, as it is done. Classes that its files name are imported only if that is allowed."""
    for check in _checks(folder, find, train, device):
        with imports_allowed(allow_imports):
            result = check()
        yield result


def _checks(folder: Path, find: Find, train: bool, device: str) -> Iterator[Callable[[], Check]]:
    files = sorted(path for path in folder.rglob("*.jsonl") if path.stem not in WITHOUT_PAGE)
    if not files:
        raise InputError(
            f"{folder} has no raw results (*.jsonl); give the folder of 'accord lab reproduce' or its parent."
        )
    for file in files:
        yield partial(_page, folder, file, find)
    for file in sorted(folder.rglob("leaderboard.json")):
        yield partial(check_tests, folder, file)
        yield partial(check_users, folder, file)
    for page in pages.PAGES:
        if pages.is_there(folder, page):
            yield partial(_generated_parts, folder, page)
    for file in files if train else ():
        yield partial(_trained, folder, file, find, device)


def _page(folder: Path, file: Path, find: Find) -> Check:
    """Whether a page is what its raw results give, letter by letter."""
    page = file.with_suffix(".md")
    what = str(page.relative_to(folder))
    if file.stem not in (*PAGES, *EXPERIMENTS):
        return Check(what, None, "no page of the lab is made from it")
    if not page.exists():
        return Check(what, True, "the page is missing; write it with --render-only")
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        for path in (file, file.with_suffix(".json")):
            if path.exists():
                shutil.copyfile(path, place / path.name)
        if file.stem in PAGES:
            PAGES[file.stem](place)
        elif (lacking := _render(file.stem, place, find)) is not None:
            return Check(what, None, lacking)
        return Check(what, *_difference(page.read_text(encoding="utf-8"), (place / page.name).read_text("utf-8")))


def _render(name: str, place: Path, find: Find) -> str | None:
    """Write the page of an experiment; the reason if a dataset that it needs is not available."""
    lines = Results(place, name).read()
    datasets = {dataset: find(dataset) for dataset in dict.fromkeys(line["dataset"] for line in lines)}
    if missing := [dataset for dataset, data in datasets.items() if data is None]:
        return f"needs the dataset {', '.join(missing)}; set ACCORD_DATA"
    seeds = len({line["seed"] for line in lines if line["method"] != "none"})
    available = [data for data in datasets.values() if data is not None]

    def request(data: Dataset) -> Request:
        return Request(data, lines[0]["protocol"]["name"], seeds, per_user=False)

    reproduce(name, available, None, None, request, place, render_only=True)
    return None


def _difference(page: str, rendered: str) -> tuple[bool, str]:
    """Whether two texts differ, and the first line that does."""
    if page == rendered:
        return False, ""
    pairs = zip([*page.splitlines(), ""], [*rendered.splitlines(), ""], strict=False)
    number, (old, new) = next((n, pair) for n, pair in enumerate(pairs, 1) if pair[0] != pair[1])
    return True, f"line {number} is '{old[:200]}', and by the raw results '{new[:200]}'"


def check_tests(folder: Path, file: Path) -> Check:
    """Whether the differences that were tested are those of the runs, and p is corrected as it says."""
    lines = Results(file.parent, leaderboard.NAME).by_key()
    what = str(file.relative_to(folder))
    for dataset, entry in read_json(file).items():
        means = {
            leaderboard.row_name(row): float(np.mean([lines[key]["metrics"]["ndcg@20"] for key in row["runs"]]))
            for row in entry["rows"]
        }
        for against, tests in entry["tests"].items():
            for row, test in tests.items():
                normal, best = f"{row.partition(' + ')[0]} + Normal", entry["best"]
                baseline = {"normal": normal, "best": best, leaderboard.AUTO: display_name(leaderboard.AUTO)}[against]
                by_runs = means[row] - means[baseline]
                if abs(by_runs - test["difference"]) > ROUNDING:
                    why = f"{dataset}: {row} differs by {test['difference']:+.6f}, its runs by {by_runs:+.6f}"
                    return Check(what, True, why)
            corrected = holm([test["p"] for test in tests.values()])
            if not np.allclose(corrected, [test["p_holm"] for test in tests.values()]):
                return Check(what, True, f"{dataset}: p against {against} is not corrected by Holm's method")
    return Check(what, False)


def check_users(folder: Path, file: Path) -> Check:
    """Whether the tests come out again from the metrics of every user, where the folder has them."""
    results = Results(file.parent, leaderboard.NAME)
    what = f"{file.relative_to(folder)}, tests done again"
    if not results.per_user_file.exists():
        name = results.per_user_file.name
        return Check(what, None, f"{name} is missing; the same command without --render-only makes it")
    users = results.per_user("ndcg@20")
    for dataset, entry in read_json(file).items():
        values = {leaderboard.row_name(row): np.stack([users[key] for key in row["runs"]]) for row in entry["rows"]}
        again = leaderboard.tests_between(entry["rows"], values, entry["best"])
        for against, tests in entry["tests"].items():
            for row, test in tests.items():
                now = again[against][row]
                wrong = [name for name in test if not np.isclose(test[name], now[name], rtol=1e-6, atol=1e-9)]
                if wrong:
                    why = ", ".join(f"{name} is {test[name]:.6g} and by the users {now[name]:.6g}" for name in wrong)
                    return Check(what, True, f"{dataset}, {row} against {against}: {why}")
    return Check(what, False)


def _generated_parts(folder: Path, page: str) -> Check:
    try:
        rendered = pages.filled(folder, page)
    except InputError as error:
        return Check(page, True, str(error))
    return Check(page, *_difference((folder / page).read_text(encoding="utf-8"), rendered))


def _trained(folder: Path, file: Path, find: Find, device: str) -> Check:
    """Train a cell anew, with the same seeds, and compare its means. They need not be equal: another processor adds in
    another order, which gives other runs of the same kind."""
    what = f"{file.relative_to(folder)}, a cell trained anew"
    if not all(line.keys() >= {*IDENTITY} for line in read_lines(file)):
        return Check(what, None, "its lines are not single runs")
    choice = _quick_cell(Results(file.parent, file.stem).read(), find)
    if choice is None:
        return Check(what, None, "none of its datasets is available; set ACCORD_DATA")
    data, lines = choice
    first, seeds = lines[0], tuple(line["seed"] for line in lines)
    options = tuple((name, value) for name, value in first["settings"].items() if value is not None)
    cell = Cell(first["model"], first["method"], options)
    request = Request(data, first["protocol"]["name"], seeds, device=device, say=lambda _: None, per_user=False)
    what = f"{file.relative_to(folder)}: {cell.model} + {cell.method} on {data.name}, {len(seeds)} seed(s) trained anew"
    with tempfile.TemporaryDirectory() as place:
        again = compare(request, [cell], Results(Path(place))).read()
    figures = []
    for metric in METRICS:
        before, now = (np.array([line["metrics"][metric] for line in runs]) for runs in (lines, again))
        where = again[0]["device"], first["device"]
        figures.append(f"{metric} {now.mean():.4f} on {where[0]}, was {before.mean():.4f} on {where[1]}")
        error_of_means = np.sqrt((standard_deviation(before) ** 2 + standard_deviation(now) ** 2) / len(seeds))
        share = SHARE if where[0] == where[1] else ELSEWHERE
        if abs(now.mean() - before.mean()) > max(ERRORS * error_of_means, share * before.mean()):
            return Check(what, True, figures[-1])
    return Check(what, False, "; ".join(figures))


def _quick_cell(lines: list[Line], find: Find) -> tuple[Dataset, list[Line]] | None:
    """Of the learned cells that took least time, on data that is available as it was then, the one whose seeds differ
    least, since a mistake shows there first: its dataset, and one line per seed."""
    cells: dict[str, list[Line]] = {}
    for line in lines:
        if line["method"] != "none":
            key = repr([line[name] for name in ("dataset", "data", "model", "method", "settings")])
            cells.setdefault(key, []).append(line)
    available = {name: data for name in {line["dataset"] for line in lines} if (data := find(name)) is not None}
    prints = {name: Request(data).fingerprint for name, data in available.items()}
    same_data = [runs for runs in cells.values() if prints.get(runs[0]["dataset"]) == runs[0]["data"]]
    if not same_data:
        return None
    same_data.sort(key=lambda runs: sum(line["seconds"] for line in runs))
    ndcg = [[line["metrics"]["ndcg@20"] for line in runs] for runs in same_data[: max(1, int(QUICK * len(same_data)))]]
    best = same_data[int(np.argmin([standard_deviation(values) / (np.mean(values) or 1.0) for values in ndcg]))]
    return available[best[0]["dataset"]], best
