"""What the leaderboard shows: what denoising gains under rules that hold."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from accord.comparing.compare import Cell
from accord_lab.findings.injected import costs, detected
from accord_lab.findings.published import curve_ends
from accord_lab.findings.raw import DATASETS, Raw, table
from accord_lab.leaderboards import leaderboard
from accord_lab.leaderboards.leaderboard import SIGNIFICANT, Board, Row
from accord_lab.leaderboards.oracle import SETTINGS
from accord_lab.names import display_name, p_value, percent, percent_span, short, span

FOLDER = "corrected"


def _boards(folder: Path, *more: str) -> list[Board]:
    boards = {board.dataset: board for board in leaderboard.read_boards(folder / FOLDER)}
    return [boards[name] for name in (*DATASETS, *more) if name in boards]


def _row(board: Board, model: str, method: str | None = None) -> Row:
    return next(row for row in board.rows if (row.model, row.method) == (model, method))


def _ndcg(row: Row) -> float:
    return float(row.values("ndcg@20").mean())


def _learned(board: Board) -> list[Row]:
    return [row for row in board.rows if row.method]


def _models(board: Board) -> list[str]:
    return [row.model for row in board.rows if row.method == "normal"]


def _methods(board: Board) -> list[str]:
    return list(dict.fromkeys(row.method for row in board.rows if row.method))


def oracle(folder: Path) -> str:
    """The settings of EASE with the ratings."""
    rows = [(display_name(name), *(f"{w:g}" for w in one.weights), f"{one.l2:g}") for name, one in SETTINGS.items()]
    return table(("data", *(f"weight of {stars} ★" for stars in range(1, 6)), "penalty"), rows)


def budget(folder: Path) -> str:
    """How rows were tuned, and the smallest difference that the tests detect."""
    trials, rows = Raw(folder / FOLDER, "tuning"), []
    for board in _boards(folder):
        entry, tests = board.entry, board.entry["tests"]["normal"].values()
        seen = [abs(test["difference"]) for test in tests if test["p_holm"] < SIGNIFICANT]
        unseen = [abs(test["difference"]) for test in tests if test["p_holm"] >= SIGNIFICANT]
        users = f"{entry['judged']['warm'] + entry['judged']['cold']:,}"
        of_ease = len(trials.of(board.dataset, Cell("ease", None)))
        counts = (str(number) for number in (entry["seeds"], entry["trials"], of_ease))
        rows.append((board.title, users, *counts, short(min(seen)), short(max(unseen))))
    heads = ("seeds", "trials per row", "trials of EASE", "smallest significant difference", "largest that is not")
    return table(("data", "test users", *heads), rows)


def default(folder: Path) -> str:
    """How `auto` compares with every other row."""
    rows = []
    for board in _boards(folder, "demo"):
        tests = board.entry["tests"]["auto"]
        significant = [test["difference"] for test in tests.values() if test["p_holm"] < SIGNIFICANT]
        below, above = (sum(sign * one > 0 for one in significant) for sign in (-1, 1))
        others = [row for row in board.rows if row.model != "auto"]
        best = max(others, key=_ndcg)
        shown = [_row(board, "ease"), _row(board, "popularity"), best]
        figures = [f"{short(_ndcg(row))} (p {p_value(tests[row.name]['p_holm'])})" for row in shown]
        figures[-1] = f"{best.name}, {figures[-1]}"
        rows.append((board.title, short(_ndcg(_row(board, "auto"))), *figures, str(len(tests)), str(below), str(above)))
    heads = ("auto", "EASE", "popularity", "best other row", "other rows", "significantly below", "significantly above")
    return table(("data", *heads), rows)


def gains(folder: Path) -> str:
    """What each method changes against Normal of the same model: how often significantly, and how far."""
    boards = _boards(folder)
    rows = []
    for method in _methods(boards[0])[1:]:
        cells = []
        for board in boards:
            pairs = [(_row(board, model, method), _row(board, model, "normal")) for model in _models(board)]
            tests = [board.entry["tests"]["normal"][row.name] for row, _ in pairs]
            above, below = (
                sum(test["p_holm"] < SIGNIFICANT and sign * test["difference"] > 0 for test in tests)
                for sign in (1, -1)
            )
            changes = percent_span(_ndcg(row) / _ndcg(normal) - 1 for row, normal in pairs)
            cells += [f"{above} above, {below} below", changes]
        rows.append((display_name(method), *cells))
    heads = [head for board in boards for head in (f"{board.title}, of {len(_models(board))}", "change of NDCG@20")]
    return table(("method", *heads), rows)


def best_rows(folder: Path) -> str:
    """The best learned row of each dataset, models without denoising, and the ceiling."""
    rows = []
    for board in _boards(folder):
        best = max(_learned(board), key=_ndcg)
        tests = board.entry["tests"]["best"].items()
        over = [name for name, test in tests if test["p_holm"] < SIGNIFICANT and test["difference"] > 0]
        ease, ceiling, recovered = _ndcg(_row(board, "ease")), None, None
        if board.oracle is not None:
            ceiling, recovered = short(_ndcg(board.oracle)), (_ndcg(best) - ease) / (_ndcg(board.oracle) - ease)
        undenoised = short(_ndcg(_row(board, "popularity"))), short(ease)
        shown = f"{best.name}, {short(_ndcg(best))}", *undenoised, board.entry["best"], ", ".join(over) or "none"
        rows.append((board.title, *shown, ceiling, None if recovered is None else percent(recovered, 0)))
    heads = ("best learned row", "popularity", "EASE", "best row without denoising", "significantly above that")
    return table(("data", *heads, "ceiling", "of the room to it, the best learned row has"), rows)


def detection(folder: Path) -> str:
    """Detecting noise and calibration, by the ratings: over the models, for every method."""
    boards = [board for board in _boards(folder) if _row(board, "popularity").noise("auc") is not None]
    rows = []
    for method in _methods(boards[0]):
        cells = []
        for board in boards:
            of_method = [row for row in board.rows if row.method == method]
            cells += [span(_noise(of_method, "auc"), 3), span(_noise(of_method, "ece"), 2)]
        rows.append((display_name(method), *cells))
    last, reach = ["popularity"], ["rows that reach popularity"]
    for board in boards:
        (popular,), learned = _noise([_row(board, "popularity")], "auc"), _noise(_learned(board), "auc")
        last += [short(popular, 3), ""]
        reach += [f"{sum(value >= popular for value in learned)} of {len(learned)}", ""]
    heads = [head for board in boards for head in (f"{board.title}, AUC", "calibration error")]
    return table(("method", *heads), [*rows, last, reach])


def _noise(rows: Iterable[Row], figure: str) -> list[float]:
    return [float(values.mean()) for row in rows if (values := row.noise(figure)) is not None]


PARTS_OF_PAGE = {part.__name__: part for part in (oracle, budget, default, gains, detection, costs)} | {
    "best-rows": best_rows, "why": curve_ends, "injected": detected,
}  # fmt: skip
