"""docs/records/shapes.md, from the files of shapes/ alone: what `shapes.py` has measured, and what was asked for.

python benchmarks/shapes_page.py
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "records" / "shapes.md"
MOST_OVER, MOST_LOGS, MOST_RUN = 1.2, 20, 200e6  # times the budget; times the log; bytes
MOST_WALL, MOST_MEMORY = 2.0, 1024  # of `accord recommend --user`: seconds, megabytes
SHAPES = ("games", "views", "anime", "books", "coats")
Results = dict[str, Any]


def raw() -> dict[str, Results]:
    """The results by the name of their file: each shape without labels and with them."""
    names = [name + more for name in SHAPES for more in ("", "-labels")]
    return {name: json.loads((HERE / "shapes" / f"{name}.json").read_text(encoding="utf-8")) for name in names}


def ended(one: Results) -> bool:
    """Whether the clock ended the search, to keep the budget."""
    return any("the search ended before" in note for note in one["notes"])


def promises(one: Results) -> dict[str, bool]:
    """Whether what was asked for holds in a result."""
    return {
        "budget": one["train"]["wall"] <= MOST_OVER * one["budget"],
        "run": one["run_bytes"] <= min(MOST_RUN, MOST_LOGS * one["log_bytes"]),
        "seconds": one["recommend"]["wall"] < MOST_WALL,
        "memory": one["recommend"]["peak_mb"] < MOST_MEMORY,
    }


def cells(name: str, one: Results) -> list[str]:
    shape, _, labels = name.partition("-")
    met, run = promises(one), one["run_bytes"]
    mark = {True: "", False: " **missed**"}
    return [
        f"{shape}, labels" if labels else shape,
        *(f"{one[size]:,}" for size in ("rows", "users", "items")),
        f"{one['train']['wall']:.0f}{' (ended)' * ended(one)}{mark[met['budget']]}",
        str(one["tried"]),
        *(f"{one['took'].get(part, 0):.0f}" for part in ("read", "train", "labels", "evaluate", "refit", "report")),
        f"{one['train']['peak_mb']:,}",
        f"{run / 1e6:.1f}",
        f"{run / one['log_bytes']:.1f}{mark[met['run']]}",
        f"{one['load']['wall']:.1f}",
        f"{one['load']['peak_mb']:,}",
        f"{one['recommend']['wall']:.1f}{mark[met['seconds']]}",
        f"{one['recommend']['cpu']:.1f}",
        f"{one['recommend']['peak_mb']:,}{mark[met['memory']]}",
    ]


def page(results: dict[str, Results]) -> str:
    before = json.loads((HERE / "shapes" / "before.json").read_text(encoding="utf-8"))
    head = [
        "",
        "interactions",
        "users",
        "items",
        "`accord train`, s",
        "tried",
        "read",
        "train",
        "of it labels",
        "evaluate",
    ]
    head += ["refit", "report", "memory, MB", "run folder, MB", "times the log", "load, s", "memory, MB"]
    head += ["`accord recommend --user`, s", "CPU s", "memory, MB"]
    rows = [cells(name, one) for name, one in results.items()]
    lines = [f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows)]
    first, size = next(iter(results.values())), len(results)
    met = [promises(one) for one in results.values()]
    counts = {what: sum(one[what] for one in met) for what in met[0]}
    torch = [one["import_torch"] for one in results.values()]
    asked = [
        f"What `auto` takes with a budget of {first['budget']:.0f} s on logs drawn at random, of the sizes and the",
        "sparsity of games bought, shop views, anime watched, books read and coats rated.",
        f"Asked for: at most {MOST_OVER:g} times the budget for everything, labels included; a run folder of at most",
        f"{MOST_LOGS} times the log and {MOST_RUN / 1e6:.0f} MB; `accord recommend --user` under {MOST_WALL:g} s and",
        f"{MOST_MEMORY:,} MB; {counts['budget']} of {size} keep the budget (the clock ended",
        f"{sum(map(ended, results.values()))} of the searches), {counts['run']} the size of the folder,",
        f"{counts['seconds']} the seconds and {counts['memory']} the memory of an answer.",
    ]
    said = [
        f"Wall seconds of whole commands, five at once on a machine of 16 cores, each on two ({first['machine']}); of",
        "loading and recommending the best of three. Importing torch alone, here a build for CUDA, takes",
        f"{min(one['wall'] for one in torch):.1f} to {max(one['wall'] for one in torch):.1f} s and",
        f"{max(one['peak_mb'] for one in torch)} MB of these.",
        f"Before, a log of {before['log_mb']:g} MB gave a run of {before['run_mb']:,} MB, and `accord recommend",
        f"--user` of another took {before['recommend_cpu']} s of CPU time and {before['recommend_gb']:g} GB.",
        "A folder of up to 32 MiB keeps all votes, however small the log: without them NDCG@20 of coats with labels",
        f"was {before['coats_labels_ndcg']:.3f}, and is {results['coats-labels']['ndcg@20']:.3f} with them.",
    ]
    how = [
        "`python benchmarks/shapes.py NAME [--labels]` measures one, and `python benchmarks/shapes_page.py` writes",
        "this page.",
    ]
    parts = ["# Logs of five shapes", *("\n".join(part) for part in (asked, lines, said, how))]
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(raw()), encoding="utf-8")
