"""The table of docs/performance.md: what a user would ask first, on ARM, x86 and a GPU."""

from __future__ import annotations

import gpu
import rows_page
import targets
from figures import ON_XEON, Results, by_default, cpu_of, epoch_of, gigabytes, table

# title of a row: how the name of its target begins
SUMMARY = {
    "`auto` on a million interactions, two cores": "`auto` on",
    "`accord.audit` of MovieLens-100k, two cores": "`accord.audit`",
    "EASE of 9,000 items, fitting and evaluation, two cores": "ease of 9,000",
    "NeuMF, an epoch": "NeuMF, an epoch on the CPU, against the fastest",
    "LightGCN (64), an epoch": "LightGCN (64), an epoch",
    "CDAE, an epoch": "CDAE, an epoch",
    "NeuMF, recommendations for all users": "NeuMF, ranking",
    "LightGCN (64), recommendations for all users": "LightGCN (64), ranking",
    "MF, recommendations for all users": "MF, ranking",
    "`accord train`, CPU time to its first line": "`accord train`",
}


def summary_table(results: Results, lines: list[Results], checks: list[targets.Check]) -> str:
    """The rows of the short page: ARM, x86, GPU."""
    cases = {line["case"]: line for line in lines}
    epochs = [cpu_of(one["stack"]["runs"]["1"]["epoch"]) for one in (results, ON_XEON)]
    on_gpu = cases["gmf-deca"]["train"] / gpu.TARGETS["gmf-deca"][3]
    rows = [["GMF with DeCA on MovieLens-100k, an epoch", *(f"{one:.2f} s" for one in epochs), f"{on_gpu:.4f} s"]]
    for title, start in SUMMARY.items():
        cells = []
        for group in (checks, targets.of_processor(ON_XEON), [one for one in checks if one.what.startswith("GPU: ")]):
            reached = next((one.reached for one in group if one.what.removeprefix("GPU: ").startswith(start)), "")
            cells.append(reached.partition(";")[0])
        rows.append([title, *cells])
    (largest,) = (one for one in by_default(results) if one["pairs"] == targets.LARGEST)
    by_rows = max(rows_page.measured()[1], key=lambda line: (line["form"] == "by rows", line["interactions"]))
    cost = f"{epoch_of(largest)[1] / 60:.0f} min, {gigabytes(largest['peak'])}"
    title = "GMF with DeCA on 100 million interactions, an epoch (extrapolated)"
    rows.append([title, cost, "", f"{by_rows['epoch']:.0f} s"])
    return table(["", "ARM", "x86", "GPU"], rows)
