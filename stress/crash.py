"""SIGKILL at random moments, then the same command again: nothing lost, nothing wrong.

    python stress/crash.py [--times 200] [--seed 1] [--only train compare reproduce audit serve]

`--times` is about how often each of them is killed. A process that has imported everything forks for each command, so
that most of its time is work and not imports. After every kill the files on the disk are checked: a run folder either
does not load, or is the right one. At the end everything equals what an undisturbed process wrote, weights bit for bit.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from crash_serve import serve
from intact import audit_is_right, results_are_right, run_is_right
from killing import Tally, Victim, accord, clicks, dataset, undisturbed, warm
from record import BEGAN, RESULTS, Found, Table, table_as_text

TRAINED = (
    *(("gmf", "deca-p"), ("gmf", "deca"), ("neumf", "deca"), ("lightgcn", "deca-p"), ("cdae", "deca-p")),
    *(("mf", "tce"), ("cdae", "ensemble"), ("popularity", "normal")),
)


def has_checkpoint(folder: Path) -> bool:
    return any(folder.glob("checkpoint-*")) and not (folder / "metrics.json").exists()


def train_victim(root: Path, model: str, method: str, tally: Tally) -> Victim:
    """Training as the command does it, without the report at its end, which would take most of the time."""
    data, name = dataset(), f"{model}-{method}"
    options = {} if model == "popularity" else {"train.checkpoint_seconds": 0, "train.batch_size": 512}
    reference, folder, log = root / f"{name}-reference", root / name, root / f"{name}.log"

    def training(out: Path, resume: bool) -> None:
        import accord as library

        library.fit(
            data, model, method, seeds=2, epochs=12, device="cpu", ks=(5, 20), options=options, out=out, resume=resume
        )

    training(reference, False)  # here, so that everything is warm in the forked processes
    took = undisturbed(functools.partial(training, folder, False), log)
    return Victim(
        tally, folder, lambda resume: functools.partial(training, folder, resume),
        functools.partial(run_is_right, reference, folder), functools.partial(has_checkpoint, folder), took, log,
    )  # fmt: skip


def train(root: Path, draw: random.Random, times: int) -> Tally:
    tally = Tally("train")
    for number, (model, method) in enumerate(TRAINED):
        share = times // len(TRAINED) + (number < times % len(TRAINED))
        train_victim(root, model, method, tally).torment(draw, share)
        print(f"train {model} {method}: {tally.kills} kills", flush=True)
    return tally


def compare(root: Path, draw: random.Random, times: int) -> Tally:
    words = ["compare", clicks(root), "--models", "gmf", "--methods", "normal,deca,deca-p", "--seeds", 2]
    words += ["--epochs", 4, "--device", "cpu"]
    return of_results("compare", root, draw, times, words, "", "results", "compare.csv")


def reproduce(root: Path, draw: random.Random, times: int) -> Tally:
    """On a folder in the format of Electronics."""
    import numpy as np

    place = root / "data" / "electronics"
    place.mkdir(parents=True, exist_ok=True)
    random_ = np.random.default_rng(5)
    pairs = random_.permutation(200 * 60)[:1600]
    rows = np.stack([pairs // 60, pairs % 60, random_.integers(1, 6, len(pairs))], 1)
    parts = {"train.rating": rows[:1200], "valid.rating": rows[1200:1400], "test.noisy": rows[1400:]}
    parts["test.negative"] = parts["test.noisy"][parts["test.noisy"][:, 2] == 5]
    for part, own in parts.items():
        (place / f"electronics.{part}").write_text("".join(f"{u}\t{i}\t{r}\n" for u, i, r in own))
    os.environ["ACCORD_DATA"] = str(root / "data")
    words = ["lab", "reproduce", "overall", "--dataset", "electronics", "--model", "gmf,lightgcn"]
    words += ["--method", "normal,deca,deca-p"]
    words += ["--seeds", 2, "--epochs", 3, "--device", "cpu"]
    return of_results("reproduce", root, draw, times, words, "published", "overall", "overall.csv")


def of_results(
    kind: str, root: Path, draw: random.Random, times: int, words: list[Any], below: str, name: str, last: str
) -> Tally:
    reference, folder, log = root / f"{kind}-reference", root / kind, root / f"{kind}.log"
    undisturbed(accord(*words, "--out", reference), log)
    shutil.rmtree(reference)
    took = undisturbed(accord(*words, "--out", reference), log)

    def command(_: bool) -> Callable[[], None]:
        return accord(*words, "--out", folder)

    look = functools.partial(results_are_right, reference / below, folder / below, name, last)
    victim = Victim(Tally(kind), folder, command, look, (folder / below / f"{name}.jsonl").exists, took, log)
    victim.torment(draw, times)
    return victim.tally


def audit(root: Path, draw: random.Random, times: int) -> Tally:
    words = ["audit", clicks(root), "--seeds", 1, "--device", "cpu"]
    reference, folder, log = root / "audit-reference", root / "audit", root / "audit.log"
    took = undisturbed(accord(*words, "--out", reference), log)

    def unfinished() -> bool:
        return (folder / "unfinished").exists()

    def command(resume: bool) -> Callable[[], None]:
        return accord(*words, "--out", folder, *(["--resume"] if resume else []))

    look = functools.partial(audit_is_right, reference, folder)
    victim = Victim(Tally("audit"), folder, command, look, unfinished, took, log)
    victim.torment(draw, times)
    return victim.tally


CAMPAIGNS: dict[str, Callable[[Path, random.Random, int], Tally]] = {
    campaign.__name__: campaign for campaign in (train, compare, reproduce, audit, serve)
}


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--times", type=int, default=200, help="about how many kills of each")
    options.add_argument("--seed", type=int, default=1, help="of the random moments")
    options.add_argument("--only", nargs="+", default=list(CAMPAIGNS), choices=list(CAMPAIGNS))
    options.add_argument("--results", type=Path, default=RESULTS, help="folder of crash.json")
    given = options.parse_args()
    warm()
    heads = ["what was killed", "kills", "complete after a kill", "commands that finished"]
    table = Table(
        "Killed at random moments",
        [*heads, "processes that continued from a killed one", "wrong or lost", "run on, commit"],
    )
    if len(given.only) < len(CAMPAIGNS) and (given.results / "crash.json").exists():  # the others stay as they were
        table.rows = json.loads((given.results / "crash.json").read_text())["tables"][0]["rows"]
    wrong: list[str] = []
    when = f"{BEGAN['date']}, `{BEGAN['commit']}`"
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="accord-crash-") as name:
        for kind in given.only:
            tally = CAMPAIGNS[kind](Path(name), random.Random(given.seed), given.times)
            wrong += tally.wrong
            served = "" if kind != "serve" else f"{tally.resumed:,} answers, each of a whole run"
            table.rows = [row for row in table.rows if row[0] != tally.kind]
            table.rows.append(
                [tally.kind, tally.kills, tally.whole, tally.commands, served or tally.resumed, len(tally.wrong), when]
            )
            print(
                f"{kind}: {tally.kills} kills, {len(tally.wrong)} wrong, {time.monotonic() - began:.0f} s", flush=True
            )
    table.notes += wrong[:10]
    how = [
        f"`python stress/crash.py --times {given.times} --seed {given.seed}`: SIGKILL at moments drawn evenly over "
        "the time that a command takes, then the same command again (with `--resume` where it has that), until it "
        "ends.",
        "After every kill the folder is read: it does not load, or it is the undisturbed one. At the end weights, "
        "metrics and history of `train`, the lines and tables of `compare` and `reproduce` (apart from seconds), all "
        "tables of `audit` equal those of an undisturbed process, bit for bit.",
        "`train` is "
        + ", ".join(f"{model} + {method}" for model, method in TRAINED[:-1])
        + " and popularity, two runs "
        "at once, with a checkpoint after every epoch. `serve --watch` gets requests all the time while the "
        "training into its folder is repeated and killed.",
    ]
    Found("Killed at any moment", how, [table], made=None).write("crash", given.results)
    print(table_as_text(table))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
