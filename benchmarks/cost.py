"""The paper's claim on cost: what DeCA and DeCA(p) take beside plain training, for every learned model.

    python benchmarks/cost.py [--device cpu|cuda] [--dataset NAME] [--epochs N] [--turns N] [--page]

Whole trainings of so many epochs, without early stopping and without checks; DeCA(p)'s with the plain training of its
partner, as many epochs again. The three methods take turns in one process, with one thread. A line for each training is
added to docs/reproduction/cost/cost.jsonl, and the page is written from that; --page writes it alone.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from statistics import median
from typing import Any

import when

Line = dict[str, Any]
NAME, TITLE = "cost", "What denoising costs"
FOLDER = Path(__file__).parents[1] / "docs" / "reproduction" / NAME
METHODS = {"normal": "Normal", "deca": "DeCA", "deca-p": "DeCA(p)"}
MODELS = {"mf": "MF", "gmf": "GMF", "neumf": "NeuMF", "cdae": "CDAE", "lightgcn": "LightGCN"}
TWICE, CLAIMS = {"deca": 2.0, "deca-p": 2.4}, {"deca": "well under twice", "deca-p": "at most about twice"}
NOTE = (
    "The paper says that DeCA takes well under twice the time of plain training, and DeCA(p) about twice, as it trains "
    "its partner first. Whole trainings under the published protocol with the paper's settings, without early stopping "
    "and without checks, in turn in one process with one thread; the seconds are those of the processor on a CPU and "
    "of the clock on a GPU, by the epochs of the target, DeCA(p)'s with the training of its partner. Median of the "
    "turns; times Normal: the median of the ratios within a turn. Below, well under twice is below 2 times, about "
    "twice below 2.4. Memory: the most that the process (on a GPU: torch) held while it trained. DeCA "
    "trains small networks besides the target, by default three MF, of which a step needs two: beside a target that is "
    "one itself they weigh most."
)


def peak(device: Any, forget: bool = False) -> int:
    """Bytes, the most since it was forgotten."""
    import torch

    if device.type == "cuda":
        if forget:
            torch.cuda.reset_peak_memory_stats(device)
        return int(torch.cuda.max_memory_allocated(device))
    if forget:
        Path("/proc/self/clear_refs").write_text("5")
    status = Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmHWM"))


def trained(data: Any, model: str, method: str, epochs: int, device: Any) -> Line:
    import torch

    from accord.training.plan import plan
    from accord.training.stack import train_stack

    options = {"train.early_stop": False, "train.pretrain_early_stop": False}
    run = plan(data, model, method, "published", 1, options, epochs, None)
    peak(device, forget=True)
    wall, cpu = time.perf_counter(), time.process_time()
    train_stack(data, run, device)
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return {"model": model, "method": method, "epochs": epochs, "seconds": wall, "cpu": cpu, "peak": peak(device)}


def measure(name: str, kind: str, epochs: int, turns: int) -> None:
    import torch

    from accord.data.load import load_named

    torch.set_num_threads(1)
    data, device = load_named(name), torch.device(kind)
    on = torch.cuda.get_device_name(device) if kind == "cuda" else when.processor()
    for model in MODELS:
        for method in METHODS:
            trained(data, model, method, 1, device)  # compiles
        for turn in range(turns):
            for method in METHODS:
                found = trained(data, model, method, epochs, device)
                line = {"dataset": name, "device": kind, "on": on, "turn": turn} | found | when.measured()
                with (FOLDER / f"{NAME}.jsonl").open("a", encoding="utf-8") as file:
                    file.write(json.dumps(line) + "\n")


def ratios(own: list[Line]) -> dict[str, float]:
    """Of one model on one device: a method's time by Normal's, the median of the turns."""
    clock = "cpu" if own[0]["device"] == "cpu" else "seconds"
    by_turn = {(line["turn"], line["method"]): line[clock] for line in own}
    turns = sorted({line["turn"] for line in own})
    return {method: median(by_turn[turn, method] / by_turn[turn, "normal"] for turn in turns) for method in METHODS}


def groups(lines: list[Line]) -> dict[tuple[str, str, str], list[Line]]:
    """By dataset, device and model; of a training that was measured again, the last."""
    last = {tuple(line[key] for key in ("dataset", "device", "model", "method", "turn")): line for line in lines}
    found: dict[tuple[str, str, str], list[Line]] = {}
    for line in last.values():
        found.setdefault((line["dataset"], line["device"], line["model"]), []).append(line)
    return found


def rows(lines: list[Line]) -> list[tuple[str, ...]]:
    found = []
    for (dataset, device, model), own in groups(lines).items():
        clock, times = "cpu" if device == "cpu" else "seconds", ratios(own)
        for method, called in METHODS.items():
            these = [line for line in own if line["method"] == method]
            epoch = median(line[clock] / line["epochs"] for line in these)
            memory = f"{max(line['peak'] for line in these) / 1e9:.2f} GB"
            of = f"{len(these)} × {these[0]['epochs']} epochs"
            where = dataset, these[0]["on"], MODELS[model], called
            found.append((*where, f"{epoch:.3f}", f"{times[method]:.2f}", memory, of, these[0]["commit"]))
    return found


def sentences(lines: list[Line]) -> list[str]:
    found = []
    for dataset, device in dict.fromkeys((line["dataset"], line["device"]) for line in lines):
        own = {
            model: ratios(group)
            for (name, on, model), group in groups(lines).items()
            if (name, on) == (dataset, device)
        }
        for method, most in TWICE.items():
            times = {model: ratio[method] for model, ratio in own.items()}
            holds = [MODELS[model] for model, ratio in times.items() if ratio < most]
            fails = [f"{MODELS[model]} ({ratio:.1f})" for model, ratio in times.items() if ratio >= most]
            said = f"{METHODS[method]} takes {min(times.values()):.1f} to {max(times.values()):.1f} times Normal's time"
            said += f" on {dataset} ({'a CPU' if device == 'cpu' else 'a GPU'}): "
            if not fails:
                said += f"{CLAIMS[method]} for every model, as the paper says."
            elif not holds:
                said += f"not {CLAIMS[method]} for any model."
            else:
                said += f"{CLAIMS[method]} for {', '.join(holds)}; not for {', '.join(fails)}."
            found.append(said)
    return found


def page(folder: Path) -> None:
    from accord.report.tables import Table
    from accord_lab.writing import write_all

    lines = [json.loads(line) for line in (folder / f"{NAME}.jsonl").read_text(encoding="utf-8").splitlines()]
    heads = ("data", "on", "model", "method", "an epoch, s", "times Normal", "peak memory", "measured", "commit")
    write_all(folder, NAME, [Table(TITLE, heads, tuple(rows(lines)))], [NOTE, *sentences(lines)], TITLE)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    options.add_argument("--dataset", default="ml-100k")
    options.add_argument("--epochs", type=int, default=5)
    options.add_argument("--turns", type=int, default=5)
    options.add_argument("--page", action="store_true", help="write the page from what was measured before")
    given = options.parse_args()
    FOLDER.mkdir(parents=True, exist_ok=True)
    if not given.page:
        measure(given.dataset, given.device, given.epochs, given.turns)
    page(FOLDER)


if __name__ == "__main__":
    main()
