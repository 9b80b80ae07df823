"""A refactoring keeps every bit: what training, ranking, auditing and comparing give, as hashes.

    python stress/bits.py write FILE      train every case and write its hashes
    python stress/bits.py check FILE      train every case again and name those that differ; exits with 1 if any does

Every model with every method, under both protocols, as one run and as a stack of three; the solved models; tables that
are trained row by row; an audit; a comparison. Bits depend on the processor and on the versions of torch and numpy, so
a file is compared only where all of them are the same. Only what is public is used, so old code can be asked as well.
"""

from __future__ import annotations

import hashlib
import json
import platform
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

import accord

LEARNED = ("mf", "gmf", "neumf", "cdae", "lightgcn")
SOLVED = ("popularity", "ease")
METHODS = ("normal", "wbpr", "tce", "rce", "ensemble", "deca", "deca-p")
# so few pairs in a step that larger tables are trained row by row, in the form of Adam that can be
BY_ROWS = {"train.batch_size": 32, "protocol.optimiser": "decoupled"}
EPOCHS = 2
TIMES = ("seconds", "train_seconds", "device")  # of a line of results: not a matter of bits

Case = tuple[str, str, str, int]  # model, method, protocol, runs


def cases() -> Iterator[Case]:
    for protocol in ("corrected", "published"):
        for runs in (1, 3):
            yield from ((model, method, protocol, runs) for model in LEARNED for method in METHODS)
        yield from ((model, "normal", protocol, 1) for model in SOLVED)


def digest(*parts: Any) -> str:
    made = hashlib.sha256()
    for part in parts:
        made.update(part if isinstance(part, bytes) else json.dumps(part).encode())
    return made.hexdigest()[:16]


def found_by(made: accord.Recommender, data: accord.Dataset) -> dict[str, str]:
    """Hashes of a recommender's weights, metrics, lists and posteriors."""
    # in the order of their content: a weight may get another name
    weights = sorted(tensor.cpu().numpy().tobytes() for tensor in made.method.state_dict().values())
    figures = [made.metrics["mean"], *(run["metrics"] for run in made.metrics["runs"])]
    losses = [[entry["loss"], entry.get("valid")] for entry in made.history]
    lists = made.recommend(k=10)
    found = {
        "weights": digest(*weights),
        "metrics": digest(figures, losses),
        "lists": digest(lists.column("item").to_pylist(), lists.column("score").to_numpy().tobytes()),
    }
    if made.metrics["method"] != "none":
        found["posterior"] = digest(made.beliefs(data.train).column("belief").to_numpy().tobytes())
    return found


def trained() -> Iterator[tuple[str, dict[str, str]]]:
    data = accord.simulate(users=250, items=200, interactions=6_000, seed=3).dataset
    for model, method, protocol, runs in cases():
        made = accord.fit(data, model, method, protocol=protocol, seeds=runs, epochs=EPOCHS, device="cpu")
        yield f"{model} {method} {protocol} {runs}", found_by(made, data)
    wide = accord.simulate(users=600, items=500, interactions=6_000, seed=4).dataset
    for model in ("mf", "gmf"):
        for method in ("normal", "deca", "deca-p"):
            made = accord.fit(wide, model, method, epochs=EPOCHS, device="cpu", options=BY_ROWS)
            yield f"{model} {method} by rows", found_by(made, wide)


def audited() -> dict[str, str]:
    data = accord.simulate(users=200, items=150, interactions=4_000, seed=5).dataset
    made = accord.audit(data.train.table, seeds=1, device="cpu")
    found = {key: made.summary[key] for key in ("health", "noise", "verdict", "detection")}
    found["verdict"].pop("auto", None)  # on a busy machine the clock may end its search
    found["verdict"]["rows"] = [row for row in found["verdict"]["rows"] if row["name"] != "auto"]
    return {
        "summary": digest(without_words(found)),
        "p_real": digest(made.interactions.column("p_real").to_numpy().tobytes()),
    }


def without_words(value: Any) -> Any:
    """The numbers alone: sentences may be worded better."""
    if isinstance(value, dict):
        return {key: without_words(one) for key, one in value.items() if not isinstance(one, str)}
    if isinstance(value, list):
        return [without_words(one) for one in value if not isinstance(one, str)]
    return value


def compared() -> dict[str, str]:
    """`accord compare`, of which every line of results is compared, apart from how long it took."""
    with tempfile.TemporaryDirectory() as folder:
        words = ["compare", "demo", "--models", "gmf,mf", "--methods", "normal,deca", "--seeds", "2", "--epochs", "2"]
        command = [sys.executable, "-m", "accord", *words, "--tune", "2", "--device", "cpu", "--out", folder]
        subprocess.run(command, check=True, capture_output=True)
        files = sorted(path for path in Path(folder).iterdir() if path.suffix == ".jsonl")
        lines = [json.loads(line) for path in files for line in path.read_text(encoding="utf-8").splitlines()]
        kept = [
            {name: line.get(name) for name in ("model", "method", "seed", "settings", "metrics", "valid_ndcg@20")}
            for line in lines
        ]
        return {"lines": digest(sorted(json.dumps(line, sort_keys=True) for line in kept))}


def machine() -> str:
    """What bits depend on besides the code."""
    kinds = platform.machine(), torch.backends.cpu.get_cpu_capability()
    return f"{' '.join(kinds)}, torch {torch.__version__}, numpy {np.__version__}"


def measured() -> dict[str, dict[str, str]]:
    found = {}
    for name, hashes in trained():
        found[name] = hashes
        print(name, flush=True)
    found["audit"] = audited()
    print("audit", flush=True)
    found["compare"] = compared()
    return found


def main() -> int:
    if len(sys.argv) != 3 or sys.argv[1] not in ("write", "check"):
        print(__doc__)
        return 2
    path = Path(sys.argv[2])
    torch.set_num_threads(1)
    if sys.argv[1] == "write":
        path.write_text(json.dumps({"machine": machine(), "found": measured()}, indent=1) + "\n", encoding="utf-8")
        return 0
    kept = json.loads(path.read_text(encoding="utf-8"))
    if kept["machine"] != machine():
        print(f"{path} is of {kept['machine']}, and this is {machine()}: bits cannot be compared")
        return 2
    found = measured()
    differ = [
        f"{name}: {', '.join(part for part in hashes if found.get(name, {}).get(part) != hashes[part])}"
        for name, hashes in kept["found"].items()
        if found.get(name) != hashes
    ]
    print(f"{len(kept['found'])} cases, {len(differ)} differ", *differ, sep="\n")
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
