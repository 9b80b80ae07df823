"""SIGKILL at random moments, then the same command again: nothing lost, nothing wrong.

    python stress/crash.py [--times 200] [--seed 1] [--only train compare reproduce download audit serve]

`--times` is about how often each of them is killed. A process that has imported everything forks for each life, so that
most of a life is work and not imports. After every kill what lies on the disk is looked at: a run folder either does
not load, or is the right one. At the end everything equals, bit for bit where it is of weights, what an undisturbed
process wrote.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import hashlib
import importlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from record import RESULTS, Found, Table, table_as_text

TRAINED = (
    *(("gmf", "deca-p"), ("gmf", "deca"), ("neumf", "deca"), ("lightgcn", "deca-p"), ("cdae", "deca-p")),
    *(("mf", "tce"), ("cdae", "ensemble"), ("popularity", "normal")),
)
SMALL = ["--device", "cpu", "--k", "5,20"]
LIVES = 12  # of one command at most, the last of which is not disturbed
POLL = 0.002


@dataclass
class Tally:
    """What became of one kind of command."""

    kind: str
    kills: int = 0
    commands: int = 0  # brought to their end
    whole: int = 0  # kills after which a right folder or file was there
    resumed: int = 0  # lives that went on from what a killed one left
    wrong: list[str] = field(default_factory=list)


# --- lives


def life(work: Callable[[], None], seconds: float | None, log: Path) -> int | None:
    """Do it in a process of its own. Its exit code; None if it was killed after so many seconds."""
    child = os.fork()
    if child == 0:
        code = 70
        try:
            sys.stdout = sys.stderr = log.open("a", buffering=1)
            os.dup2(sys.stdout.fileno(), 1)
            os.dup2(sys.stdout.fileno(), 2)
            work()
            code = 0
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 1
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    deadline = None if seconds is None else time.monotonic() + seconds
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        if deadline is not None and time.monotonic() >= deadline:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return None
        time.sleep(POLL)


def accord(*words: Any) -> Callable[[], None]:
    """A command, as a user types it."""

    def run() -> None:
        from accord.cli.app import main

        sys.argv = ["accord", *map(str, words)]
        main()

    return run


def undisturbed(work: Callable[[], None], log: Path) -> float:
    """How long it takes when it is left alone."""
    began = time.monotonic()
    code = life(work, None, log)
    if code != 0:
        raise SystemExit(f"an undisturbed command ended with {code}:\n{log.read_text()[-2000:]}")
    return time.monotonic() - began


@dataclass
class Victim:
    """A command to kill. `command` is given whether there is something to resume; `look` says whether the folder is
    whole (True), not there yet (False), or raises AssertionError because it is wrong; `leaves` whether a killed life
    left something to go on from.
    """

    tally: Tally
    folder: Path
    command: Callable[[bool], Callable[[], None]]
    look: Callable[[], bool]
    leaves: Callable[[], bool]
    took: float
    log: Path

    def torment(self, draw: random.Random, kills: int) -> None:
        """Start, kill, look, go on; the last life is left alone. It ends where something is wrong."""
        while kills > 0 and not self.tally.wrong:
            shutil.rmtree(self.folder, ignore_errors=True)
            for _ in range(min(kills, LIVES - 1)):
                if self.live(draw.uniform(0, 1.1 * self.took)):
                    break
                kills -= 1
            else:
                self.live(None)
            self.tally.commands += 1
            self.final()

    def live(self, seconds: float | None) -> bool:
        """One life; True if it came to its end."""
        resume = self.leaves()
        self.tally.resumed += resume
        self.log.touch()
        before = self.log.stat().st_size
        code = life(self.command(resume), seconds, self.log)
        said = self.log.read_text()[before:]
        if "Traceback" in said or code not in (0, None):
            self.complain(f"exit {code}: {said[-400:]}")
        self.tally.kills += code is None
        try:
            whole = self.look()
            self.tally.whole += whole and code is None
        except AssertionError as error:
            self.complain(str(error))
            whole = True
        return whole  # finished: a command that is repeated would refuse to replace it

    def final(self) -> None:
        try:
            if not self.look():
                self.complain("not whole at the end")
        except AssertionError as error:
            self.complain(str(error))

    def complain(self, what: str) -> None:
        self.tally.wrong.append(f"{self.tally.kind}: {what}")
        print(f"WRONG {self.tally.kind}: {what}", flush=True)


# --- what is right


def weights_of(folder: Path) -> str:
    from accord.io.tensors import read_tensors

    tensors, _ = read_tensors(folder / "model.safetensors")
    made = hashlib.sha256()
    for name in sorted(tensors):
        made.update(name.encode() + tensors[name].numpy().tobytes())
    return made.hexdigest()


def run_is_right(reference: Path, folder: Path) -> bool:
    """Whether a run folder loads; if it does, it is the reference's, bit for bit."""
    import accord as library

    try:
        loaded = library.Recommender.load(folder)
    except library.InputError:
        return False
    assert weights_of(folder) == weights_of(reference), f"{folder.name} loads, but its weights are others"
    assert loaded.metrics["mean"] == json.loads((reference / "metrics.json").read_text())["mean"], "other metrics"
    losses = [[entry["loss"], entry.get("valid")] for entry in loaded.history]
    other = [json.loads(line) for line in (reference / "log.jsonl").read_text().splitlines()]
    assert losses == [[entry["loss"], entry.get("valid")] for entry in other], "another history"
    return True


def lines_of(folder: Path, name: str) -> dict[str, Any]:
    from accord.experiments.results import Results

    return {key: line | {"seconds": 0} for key, line in Results(folder, name).by_key().items()}


def results_are_right(reference: Path, folder: Path, name: str, last: str) -> bool:
    """Whether all results are there; those that are, are the reference's. `last`: a file that is written from them."""
    found, expected = lines_of(folder, name), lines_of(reference, name)
    for key, line in found.items():
        assert line == expected[key], f"{name}.jsonl has another result for {line['model']} + {line['method']}"
    if set(found) != set(expected) or not (folder / last).exists():
        return False
    assert list(found) == list(expected), "the lines are in another order"
    assert (folder / last).read_text() == (reference / last).read_text(), f"{last} differs"
    return True


def audit_is_right(reference: Path, folder: Path) -> bool:
    import pyarrow.parquet as pq

    summary = folder / "summary.json"
    if not summary.exists():
        return False
    said, expected = (json.loads((one / "summary.json").read_text()) for one in (folder, reference))
    for part in ("health", "noise", "detection", "verdict"):
        assert said[part] == expected[part], f"the summary says something else of {part}"
    for name in ("interactions", "users", "items"):
        one, other = (pq.read_table(place / f"{name}.parquet") for place in (folder, reference))
        assert one.equals(other), f"{name}.parquet differs"
    return not (folder / "unfinished").exists()


# --- the campaigns


@functools.cache
def dataset() -> Any:
    """A log of 200 users with known noise."""
    import accord as library

    return library.simulate(users=200, items=120, interactions=3_000, seed=4).dataset


@functools.cache
def clicks(folder: Path) -> Path:
    """The same as a file."""
    import pyarrow as pa
    import pyarrow.csv

    parts = (dataset().train, dataset().valid)
    rows = pa.concat_tables([part.table.select(["user", "item", "value"]) for part in parts])
    pyarrow.csv.write_csv(rows, folder / "clicks.csv")
    return folder / "clicks.csv"


def has_checkpoint(folder: Path) -> bool:
    return any(folder.glob("checkpoint-*")) and not (folder / "metrics.json").exists()


def train_victim(root: Path, model: str, method: str, tally: Tally) -> Victim:
    """Training as the command does it, without the report behind it, which would take most of a life."""
    data, name = dataset(), f"{model}-{method}"
    options = {} if model == "popularity" else {"train.checkpoint_seconds": 0, "train.batch_size": 512}
    reference, folder, log = root / f"{name}-reference", root / name, root / f"{name}.log"

    def training(out: Path, resume: bool) -> None:
        import accord as library

        library.fit(
            data, model, method, seeds=2, epochs=12, device="cpu", ks=(5, 20), options=options, out=out, resume=resume
        )

    training(reference, False)  # here, so that everything is warm in those who fork
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
    """On a folder in the form of Electronics."""
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
    words = ["reproduce", "overall", "--dataset", "electronics", "--model", "gmf,lightgcn"]
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
    words = ["audit", clicks(root), "--folds", 2, "--seeds", 1, "--device", "cpu"]
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


CONTENT = random.Random(0).randbytes(3_000_000)


class Slowly(BaseHTTPRequestHandler):
    """A file that takes its time, from where it is asked."""

    def do_GET(self) -> None:
        first = int(re.sub(r"\D", "", self.headers.get("Range", "0")) or 0)
        if first >= len(CONTENT):
            self.send_error(416)
            return
        self.send_response(206 if first else 200)
        self.send_header("Content-Length", str(len(CONTENT) - first))
        self.send_header("Content-Range", f"bytes {first}-{len(CONTENT) - 1}/{len(CONTENT)}")
        self.end_headers()
        with contextlib.suppress(OSError):
            for start in range(first, len(CONTENT), 100_000):
                self.wfile.write(CONTENT[start : start + 100_000])
                time.sleep(0.01)

    def log_message(self, *_: Any) -> None:
        pass


def download(root: Path, draw: random.Random, times: int) -> Tally:
    from accord.data.download import download as fetch

    server = ThreadingHTTPServer(("127.0.0.1", 0), Slowly)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url, sha256 = f"http://127.0.0.1:{server.server_port}/data.bin", hashlib.sha256(CONTENT).hexdigest()
    folder, log = root / "download", root / "download.log"
    target = folder / "data.bin"

    def look() -> bool:
        if not target.exists():
            return False
        assert target.read_bytes() == CONTENT, "the file is there, but it is another"
        return True

    def work() -> None:
        fetch(url, target, sha256, progress=False)

    took = undisturbed(work, log)
    victim = Victim(Tally("download"), folder, lambda _: work, look, (folder / "data.bin.part").exists, took, log)
    victim.torment(draw, times)
    server.shutdown()
    return victim.tally


def serve(root: Path, draw: random.Random, times: int) -> Tally:
    """A server that watches a folder, which is trained anew with other seeds and killed; every answer is of one of
    the whole runs, and the server never fails.
    """
    tally = Tally("serve --watch")
    words = ["train", clicks(root), "--method", "normal", "--epochs", 3, *SMALL]
    log, folder = root / "serve.log", root / "served"
    known = {seed: reference_lists(root, words, seed, log) for seed in (1, 2, 3)}
    took = undisturbed(accord(*words, "--seed", 1, "--out", folder, "--overwrite"), log)
    with watching(folder, known) as (asked, wrong):
        for number in range(times):
            seed = draw.choice((1, 2, 3))
            replaced = accord(*words, "--seed", seed, "--out", folder, "--overwrite")
            code = life(replaced, draw.uniform(0, 1.1 * took), log)
            tally.kills += code is None
            tally.whole += code is None and (folder / "metrics.json").exists()
            if number % 5 == 4:  # now and then one is let through, and must arrive
                life(replaced, None, log)
                tally.commands += 1
                if not arrives(asked, seed):
                    wrong.append(f"the run of seed {seed} was never served")
    tally.wrong += [f"serve: {what}" for what in wrong]
    tally.resumed = len(asked)
    return tally


def reference_lists(root: Path, words: list[Any], seed: int, log: Path) -> list[Any]:
    import accord as library

    folder = root / f"served-{seed}"
    undisturbed(accord(*words, "--seed", seed, "--out", folder, "--overwrite"), log)
    table = library.Recommender.load(folder).recommend(["u0001"], k=10)
    return table.column("item").to_pylist()


def arrives(asked: list[int], seed: int) -> bool:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if asked and asked[-1] == seed:
            return True
        time.sleep(0.05)
    return False


@contextlib.contextmanager
def watching(folder: Path, known: dict[int, list[Any]]) -> Iterator[tuple[list[int], list[str]]]:
    """A server, and somebody who asks it all the time: the seeds that answered, and what was wrong."""
    command = [sys.executable, "-m", "accord", "serve", str(folder), "--port", "0", "--watch"]
    asked: list[int] = []
    wrong: list[str] = []
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr is not None
        address = None
        while address is None:
            line = server.stderr.readline()
            assert line, "the server has ended"
            found = re.search(r"page (http://\S+)/", line)
            address = found[1] if found else None
        threading.Thread(target=server.stderr.read, daemon=True).start()
        ended = threading.Event()
        asking = threading.Thread(target=ask, args=(address, known, asked, wrong, ended))
        asking.start()
        try:
            yield asked, wrong
        finally:
            ended.set()
            asking.join()
            server.send_signal(signal.SIGTERM)
            server.wait(30)


def ask(address: str, known: dict[int, list[Any]], asked: list[int], wrong: list[str], ended: threading.Event) -> None:
    seeds = {tuple(items): seed for seed, items in known.items()}
    while not ended.is_set():
        try:
            with urllib.request.urlopen(f"{address}/v1/recommendations?user=u0001&k=10", timeout=30) as answer:
                items = tuple(entry["item"] for entry in json.load(answer)["items"])
            with urllib.request.urlopen(f"{address}/healthz", timeout=30) as health:
                assert health.status == 200
        except (OSError, AssertionError, KeyError) as error:
            wrong.append(f"no answer: {error}")
            time.sleep(0.5)
            continue
        if items in seeds:
            asked.append(seeds[items])
        else:
            wrong.append(f"a list of none of the runs: {items}")
        time.sleep(0.02)


CAMPAIGNS: dict[str, Callable[[Path, random.Random, int], Tally]] = {
    campaign.__name__: campaign for campaign in (train, compare, reproduce, download, audit, serve)
}


def warm() -> None:
    """Import what a life needs, so that it begins with its work; no thread may be there when a process forks."""
    for name in (
        "torch._dynamo",
        "accord.cli.app",
        "accord.report.run_report",
        "accord.report.comparison_report",
        "accord.auditing.page",
    ):
        importlib.import_module(name)
    importlib.import_module("torch").set_num_threads(1)


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--times", type=int, default=200, help="about how many kills of each")
    options.add_argument("--seed", type=int, default=1, help="of the random moments")
    options.add_argument("--only", nargs="+", default=list(CAMPAIGNS), choices=list(CAMPAIGNS))
    options.add_argument("--results", type=Path, default=RESULTS, help="folder of crash.json")
    given = options.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"  # no thread may be there when a process forks
    warm()
    heads = ["what was killed", "kills", "whole after a kill", "commands brought to their end"]
    table = Table("Killed at random moments", [*heads, "lives that went on from an earlier one", "wrong or lost"])
    if len(given.only) < len(CAMPAIGNS) and (given.results / "crash.json").exists():  # the others as they were
        table.rows = json.loads((given.results / "crash.json").read_text())["tables"][0]["rows"]
    wrong: list[str] = []
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="accord-crash-") as name:
        for kind in given.only:
            tally = CAMPAIGNS[kind](Path(name), random.Random(given.seed), given.times)
            wrong += tally.wrong
            served = "" if kind != "serve" else f"{tally.resumed:,} answers, each of a whole run"
            table.rows = [row for row in table.rows if row[0] != tally.kind]
            table.rows.append(
                [tally.kind, tally.kills, tally.whole, tally.commands, served or tally.resumed, len(tally.wrong)]
            )
            print(
                f"{kind}: {tally.kills} kills, {len(tally.wrong)} wrong, {time.monotonic() - began:.0f} s", flush=True
            )
    table.notes += wrong[:10]
    how = [
        f"`python stress/crash.py --times {given.times}`: SIGKILL at moments drawn evenly over the time that a "
        "command takes, then the same command again (with `--resume` where it has that), until it ends.",
        "After every kill the folder is read: it does not load, or it is the undisturbed one. At the end weights, "
        "metrics and history of `train`, the lines and tables of `compare` and `reproduce` (apart from seconds), all "
        "tables of `audit` and the downloaded bytes equal those of an undisturbed process, bit for bit.",
        "`train` is "
        + ", ".join(f"{model} + {method}" for model, method in TRAINED[:-1])
        + " and popularity, two runs "
        "at once, with a checkpoint after every epoch. `serve --watch` is asked all the time while its folder is "
        "trained anew and killed.",
    ]
    Found("Killed at any moment", how, [table]).write("crash", given.results)
    print(table_as_text(table))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
