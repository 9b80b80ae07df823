"""What docs/performance.md says of solved models: their targets at size, and their peers."""

from __future__ import annotations

from figures import NAMES, Results, cpu_of, gigabytes, seconds, spread, table

SIZES = ("ease-9000", "ease-16000", "item-knn", "sparse-ease")
ASKED = {"item-knn": 120, "sparse-ease": 600}  # the seconds on two cores that were asked for; of EASE, see once.json


def sizes(results: Results) -> dict[str, Results]:
    """Those that were measured."""
    return {name: results[f"solved-{name}"] for name in SIZES if f"solved-{name}" in results}


def title(case: Results) -> str:
    log = case["log"]
    return f"{case['model']} of {log['items']:,} items, {log['pairs']:,} interactions"


def size_checks(results: Results) -> list[tuple[str, str, str, bool]]:
    """By CPU seconds of one thread: two cores have twice the seconds that were asked for."""
    checks = []
    for name, case in sizes(results).items():
        if name in ASKED:
            most, took = ASKED[name], case["fit"]["cpu"]
            asked, reached = f"under {2 * most} CPU s ({most} s on two cores)", f"{seconds(took)} CPU s"
            checks.append((f"{title(case)}, fitting", asked, reached, took < 2 * most))
    if "peer-ials" in results:
        ours, theirs = (results["peer-ials"][who] for who in ("ours", "implicit"))
        times = cpu_of(theirs["fit"]) / cpu_of(ours["fit"])
        what = "iALS, a fit on ml-100k, against implicit"
        checks.append((what, "no slower", f"{times:.2f} times", times >= 1))
    return checks


def size_table(results: Results) -> str:
    rows = []
    for case in sizes(results).values():
        log, judged = case["log"], case["judged"]
        shape = [f"{log[name]:,}" for name in ("pairs", "users", "items")]
        figures = [seconds(case["fit"]["cpu"]), seconds(judged["cpu"]), f"{judged['users']:,}", f"{judged['ndcg']:.4f}"]
        rows.append([case["model"], *shape, *figures, gigabytes(judged["peak"])])
    head = [
        "",
        "interactions",
        "users",
        "items",
        "fit, CPU s",
        "ranking, CPU s",
        "users ranked",
        "NDCG@20",
        "peak memory",
    ]
    return table(head, rows)


def peers(results: Results) -> list[tuple[str, str, str, Results, Results]]:
    """The case, the log, the peer's name, ours and theirs."""
    return [
        (
            part.removeprefix("peer-").removesuffix("-ml-100k"),
            measured["log"],
            measured["peer"],
            measured["ours"],
            measured[measured["peer"]],
        )
        for part, measured in results.items()
        if part.startswith("peer-")
    ]


def peers_table(results: Results) -> str:
    rows = []
    for name, log, library, *both in peers(results):
        for called, measured in zip(("ours", library), both, strict=True):
            options = ", ".join(f"{key.removeprefix('model.')} {value}" for key, value in measured["options"].items())
            first = [f"**{name}**", log] if called == "ours" else ["", ""]
            figures = [
                spread(measured["fit"]),
                spread(measured["rank"]),
                f"{measured['ndcg']:.4f}",
                gigabytes(measured["peak"]),
                options,
            ]
            rows.append([*first, NAMES[called], *figures])
    head = ["", "log", "", "fit, CPU s", "ranking, CPU s", "NDCG@20", "peak memory", "chosen on the validation"]
    return table(head, rows)


def logs(results: Results) -> Results:
    logs: Results = results.get("solved-ranking", {"logs": {}})["logs"]
    return logs


def ranking_table(results: Results) -> str:
    rows = [
        [log, model, seconds(cpu["fit"]), seconds(cpu["rank"]), f"{cpu['rank'] / cpu['fit']:.2f}"]
        for log, measured in logs(results).items()
        for model, cpu in measured["cpu"].items()
    ]
    return table(["", "", "fit, CPU s", "ranking all users, CPU s", "ranking by fit"], rows)
