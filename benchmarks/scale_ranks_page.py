"""The tables of docs/records/scaling.md that come from benchmarks/scale/ranks.json, and the plan for 100 million users.

python benchmarks/scale_ranks_page.py     writes them into the page, between its marks
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from figures import GPU_COPY, gpu_runs, moved_on_gpu

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "records" / "scaling.md"
RESULTS = HERE / "scale" / "ranks.json"
GPU = HERE / "gpu-results.jsonl"
METHODS = {"normal": "normal", "deca": "DeCA", "deca-p": "DeCA(p)"}


def main() -> None:
    results = json.loads(RESULTS.read_text())
    PAGE.write_text(filled(PAGE.read_text(), parts(results, GPU.read_text())))


def filled(page: str, made: dict[str, str]) -> str:
    """The page with each part between its marks."""
    for name, text in made.items():
        begin, end = f"<!-- {name} -->\n", f"\n<!-- /{name} -->"
        before, mark, rest = page.partition(begin)
        assert mark, f"docs/records/scaling.md has no place for {name}"
        page = before + begin + text + end + rest.partition(end)[2]
    return page


def parts(results: dict[str, Any], gpu: str) -> dict[str, str]:
    _, cases, _ = gpu_runs([json.loads(line) for line in gpu.splitlines()])
    return {
        "equality": equality(results["equality"]),
        "memory": memory(results["memory"]),
        "traffic": traffic(results["traffic"]),
        "killed": killed(results["killed"]),
        "plan": plan(next(line for line in cases if line["case"] == "electronics-shape")),
    }


def table(head: list[str], rows: list[list[str]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows))


def equality(measured: dict[str, Any]) -> str:
    exact, rounded = (measured["largest_relative_difference"][kind] for kind in ("float64", "float32"))
    rows = []
    for case, of in exact.items():
        worst = {n: max(of[n].values()) for n in ("1", "2", "4")}
        short = [small(max(rounded[case][n].values())) if case in rounded else "" for n in ("2", "4", "nudged")]
        rows.append([f"`{case}`", *(small(worst[n]) for n in worst), *short])
    head = ["", *(f"float64, {n} rank{'s' if n > 1 else ''}" for n in (1, 2, 4))]
    return table([*head, "float32, 2 ranks", "float32, 4 ranks", "float32, one process, last bits moved"], rows)


def small(value: float) -> str:
    return "0" if value == 0 else f"{value:.0e}".replace("e-0", "e-")


def memory(measured: dict[str, Any]) -> str:
    rows = []
    alone = measured["ranks"]["1"]["user_rows"][0]
    for number, of in measured["ranks"].items():
        most = max(of["user_rows"])
        grown = max(after - before for before, after in zip(of["before"], of["after"], strict=True))
        rows.append([number, f"{most / 1e6:.1f} MB", f"{most / alone:.4f}", f"{grown / 1e6:,.0f} MB"])
    return table(["ranks", "user tables of a rank", "of one rank's", "what training adds to a process"], rows)


def traffic(measured: dict[str, Any]) -> str:
    rows = []
    for case, of in measured["bytes_per_step_and_rank"].items():
        for number, bytes_ in of.items():
            figures = [f"{bytes_[name]:,}" for name in ("formula", "counted", "interface")]
            rows.append([f"`{case}`", number, *figures, f"{bytes_['interface_over_formula'] - 1:+.1%}"])
    return table(["", "ranks", "formula", "counted", "loopback interface", "interface against formula"], rows)


def killed(measured: dict[str, Any]) -> str:
    resumed = {name: of for name, of in measured.items() if name.startswith("resumed")}
    labels = {
        name: name if "process" in name else f"{name} rank{'' if name.endswith(' 1') else 's'}" for name in resumed
    }
    rows = [[labels[name], *(small(of[part]) for part in ("loss", "test"))] for name, of in resumed.items()]
    seconds = f"{measured['seconds_until_the_job_ended']:.0f} seconds"
    text = f"The job of four ranks ended {seconds} after one was killed, and printed:\n\n    {measured['said'][0]}\n\n"
    return text + table(["", "largest relative difference, loss of an epoch", "figures of the test"], rows)


# --- the plan: arithmetic from what was measured

USERS, PAIRS, ITEMS, DIM = 100_000_000, 10_000_000_000, 1_000_000, 32
RANKS, BATCH = 16, 2**20
NETWORKS, TRAINED = 4, 3  # GMF with DeCA has four networks; a step trains three


def plan(measured: dict[str, Any]) -> str:
    """Every figure of it is extrapolated."""
    steps_there, users_there, items_there, tested = 15 * 503, 1_157_633, 9_560, 75_000
    moved = moved_on_gpu(TRAINED * DIM * (users_there + items_there), DIM * TRAINED * 2 * 2048)
    speed = moved * steps_there / measured["train"]  # bytes per second, of whole steps
    user_rows = 4 * DIM * USERS * NETWORKS / RANKS
    item_rows = 4 * DIM * ITEMS * NETWORKS / RANKS
    pairs = PAIRS / RANKS
    steps = PAIRS / BATCH
    dense = dense_of(BATCH)
    looked_up = 2 * BATCH / RANKS
    distinct = ITEMS * (1 - (1 - 1 / ITEMS) ** looked_up)
    sent = TRAINED * distinct * (RANKS - 1) / RANKS * (8 + 8 * DIM)
    network = 50e9
    step = dense / speed + sent / network
    ranked = tested * items_there / measured["rank"]
    rows = [
        ["user tables of a rank: 4 networks, weights", gigabytes(user_rows)],
        ["the same with gradient, two moments and the best weights so far", gigabytes(5 * user_rows)],
        ["item tables of a rank, shared out, the same", gigabytes(5 * item_rows)],
        ["pairs of a rank: users, items, negatives, order, 8 bytes each", gigabytes(32 * pairs)],
        ["where the pairs of each user begin, on every rank", gigabytes(8 * USERS)],
        ["**the order of an epoch while it is drawn, on every rank**", f"**{gigabytes(8 * PAIRS)}**"],
        [f"steps of an epoch, batches of {BATCH:,}", f"{steps:,.0f}"],
        ["bytes that a step moves in a rank's memory", gigabytes(dense)],
        [f"time of that at {speed / 1e12:.1f} TB/s", f"{dense / speed * 1e3:.1f} ms"],
        ["bytes that a rank sends in a step", f"{sent / 1e6:.0f} MB"],
        ["time of that at 50 GB/s (assumed, not measured)", f"{sent / network * 1e3:.1f} ms"],
        ["an epoch, if nothing else takes time", duration(steps * step)],
        ["the same with batches of 2,048", duration(PAIRS / 2048 * dense_of(2048) / speed)],
        ["ranking all items for all users once", duration(USERS * ITEMS / RANKS / ranked)],
        ["a checkpoint, written by each rank", gigabytes(4 * (user_rows + item_rows))],
        ["the run folder's weights, which pass through rank 0's memory", gigabytes((user_rows + item_rows) * RANKS)],
    ]
    limit = f"(the limit of a copy is {GPU_COPY / 1e12:.1f} TB/s)"
    return table([f"GMF with DeCA, dim {DIM}, {RANKS} ranks {limit}", "extrapolated"], rows)


def dense_of(batch: int) -> float:
    return moved_on_gpu(TRAINED * DIM * (USERS + ITEMS) / RANKS, DIM * TRAINED * 2 * batch / RANKS)


def gigabytes(value: float) -> str:
    return f"{value / 1e9:.1f} GB"


def duration(seconds: float) -> str:
    return (
        f"{seconds:.0f} s"
        if seconds < 120
        else f"{seconds / 60:.0f} min"
        if seconds < 7200
        else f"{seconds / 3600:.0f} h"
    )


if __name__ == "__main__":
    main()
