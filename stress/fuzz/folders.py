"""Hostile run folders, checkpoints, audit folders, results and expressions."""

from __future__ import annotations

import atexit
import json
import os
import shutil
import struct
import tempfile
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from fuzz import parquet
from fuzz.case import HEAD, ROWS, Case, csv_lines
from fuzz.logs import HONEST, harmful_pickle, parquet_bomb

FILES = ("config.json", "metrics.json", "model.safetensors", "users.parquet", "items.parquet", "seen.parquet",
         "test.parquet")  # fmt: skip
Change = Callable[[Path], None]


@cache
def honest() -> Path:
    """A folder with a log, a run of it, one that was interrupted and a comparison."""
    import torch

    import accord
    from accord.training.plan import plan
    from accord.training.stack import train_stack

    folder = Path(tempfile.mkdtemp(prefix="accord-hostile-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    (folder / "log.csv").write_text(HONEST)
    data = accord.load(folder / "log.csv")
    accord.fit(data, "gmf", "deca", epochs=1, options={"model.dim": 4}, device="cpu", out=folder / "run")
    torch.set_flush_denormal(False)  # training sets it, and hypothesis cannot do without small numbers
    (folder / "cut").mkdir()
    run = plan(data, "mf", "normal", "corrected", [7], {"model.dim": 4}, 1, [20])
    train_stack(data, run, torch.device("cpu"), folder=folder / "cut")  # leaves its checkpoint
    torch.set_flush_denormal(False)
    return folder


def run(change: Change, *command: str) -> Callable[[Path], list[str]]:
    """A copy of the run that was changed, and the command that reads it; whoever changes it removes the manifest."""

    def make(folder: Path) -> list[str]:
        copied = folder / "run"
        shutil.copytree(honest() / "run", copied)
        (copied / "manifest.json").unlink(missing_ok=True)
        change(copied)
        verb, *options = command or ("evaluate",)
        return [verb, str(copied), *options]

    return make


def edit(name: str, change: Callable[[Any], Any]) -> Change:
    """A JSON file of the run with something else in it."""

    def write(folder: Path) -> None:
        content = json.loads((folder / name).read_text())
        found = change(content)
        (folder / name).write_text(json.dumps(content if found is None else found))

    return write


def content(name: str, given: bytes) -> Change:
    def write(folder: Path) -> None:
        (folder / name).write_bytes(given)

    return write


def half(name: str) -> Change:
    def write(folder: Path) -> None:
        whole = (folder / name).read_bytes()
        (folder / name).write_bytes(whole[: len(whole) // 2])

    return write


def table(name: str, change: Callable[[pa.Table], pa.Table]) -> Change:
    def write(folder: Path) -> None:
        pq.write_table(change(pq.read_table(folder / name)), folder / name)

    return write


def instead(name: str, make: Callable[[Path], None]) -> Change:
    def write(folder: Path) -> None:
        (folder / name).unlink()
        make(folder / name)

    return write


def outside(path: Path) -> None:
    """A link to a file that has nothing to do with the run, and would be read as well."""
    shutil.copy(honest() / "run" / path.name, path.parent.parent / path.name)
    path.symlink_to(Path("..") / path.name)


def header(size: int | None = None, **tensors: Any) -> bytes:
    """A safetensors file with a header of our own, which claims `size` bytes."""
    text = json.dumps(tensors).encode()
    return struct.pack("<Q", len(text) if size is None else size) + text


def one_tensor(shape: Sequence[int], offsets: Sequence[int], dtype: str = "F32") -> bytes:
    return header(**{"target.user.weight": {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets)}})


def tensors(change: Callable[[dict[str, Any], dict[str, str]], None], name: str = "model.safetensors") -> Change:
    def write(folder: Path) -> None:
        from safetensors import safe_open
        from safetensors.torch import save_file

        with safe_open(folder / name, "pt") as file:
            found, said = {key: file.get_tensor(key) for key in file.keys()}, dict(file.metadata() or {})  # noqa: SIM118
        change(found, said)
        save_file(found, folder / name, said)

    return write


def _not_finite(found: dict[str, Any], _: dict[str, str]) -> None:
    found["target.user.weight"][0, 0, 0] = float("nan")


def _double(found: dict[str, Any], _: dict[str, str]) -> None:
    found["target.user.weight"] = found["target.user.weight"].double()


def cut(change: Change) -> Callable[[Path], list[str]]:
    """A checkpoint that was changed, and the command that continues from it."""

    def make(folder: Path) -> list[str]:
        shutil.copytree(honest() / "cut", folder / "run")
        shutil.copy(honest() / "log.csv", folder / "log.csv")
        change(folder / "run")
        options = ["--model", "mf", "--method", "normal", "--seed", "7", "--set", "model.dim=4", "--epochs", "1"]
        return [
            "train",
            str(folder / "log.csv"),
            "--method",
            "deca",
            *options,
            "--k",
            "20",
            "--out",
            str(folder / "run"),
            "--resume",
        ]

    return make


def state(change: Callable[[dict[str, Any]], Any]) -> Change:
    """The checkpoint with another state in its header."""

    def write(_: dict[str, Any], said: dict[str, str]) -> None:
        content = json.loads(said["state"])
        found = change(content)
        said["state"] = found if isinstance(found, str) else json.dumps(content)

    return tensors(write, CHECKPOINT)


def _short_stream(found: dict[str, Any], _: dict[str, str]) -> None:
    found["stream/sampler/0"] = found["stream/sampler/0"][:5].clone()


def _no_stream(found: dict[str, Any], _: dict[str, str]) -> None:
    del found["stream/sampler/0"]


def _other_adam(found: dict[str, Any], _: dict[str, str]) -> None:
    name = next(name for name in found if name.startswith("adam/exp_avg/"))
    found[name] = found[name][:, :3].clone()


def _other_kept(found: dict[str, Any], _: dict[str, str]) -> None:
    del found[next(name for name in found if name.startswith("kept/"))]


def train(*options: str) -> Callable[[Path], list[str]]:
    def make(folder: Path) -> list[str]:
        (folder / "log.csv").write_text(HEAD + csv_lines(ROWS))
        return [
            "train",
            str(folder / "log.csv"),
            "--method",
            "deca",
            "--epochs",
            "1",
            "--out",
            str(folder / "run"),
            *options,
        ]

    return make


def clean(rule: str) -> Callable[[Path], list[str]]:
    def make(folder: Path) -> list[str]:
        (folder / "log.csv").write_text(HEAD + csv_lines(ROWS))
        return ["data", "check", str(folder / "log.csv"), "--clean", rule.replace("PROOF", str(folder / "harmed"))]

    return make


def users(given: bytes) -> Callable[[Path], list[str]]:
    def make(folder: Path) -> list[str]:
        (folder / "users.txt").write_bytes(given)
        return ["recommend", str(honest() / "run"), "--users", str(folder / "users.txt"), "--k", "1"]

    return make


def comparison(content: bytes) -> Callable[[Path], list[str]]:
    def make(folder: Path) -> list[str]:
        (folder / "log.csv").write_text(HEAD + csv_lines(ROWS))
        (folder / "results.jsonl").write_bytes(content)
        return ["compare", str(folder / "log.csv"), "--out", str(folder), "--render-only", "--methods", "normal"]

    return make


def audit_folder(change: Change) -> Callable[[Path], list[str]]:
    """A folder that says it is a finished audit, from which a clean log shall be written."""

    def make(folder: Path) -> list[str]:
        (folder / "log.csv").write_text(HEAD + csv_lines(ROWS))
        (folder / "summary.json").write_text('{"kind": "audit"}')
        change(folder)
        target = folder / "clean.csv"
        return ["audit", str(folder / "log.csv"), "--out", str(folder), "--write-clean", str(target)]

    return make


NESTED = "[" * 100_000
DIGITS = "9" * 10_000
CHECKPOINT = "checkpoint-1.safetensors"
IMPORTS = "would import and run code"

RUNS = (
    *(Case(f"{name} is missing", run(lambda f, n=name: (f / n).unlink()), "is missing") for name in FILES),
    *(Case(f"{name} is cut in half", run(half(name)), name) for name in FILES),
    *(Case(f"{name} is a pickle", run(lambda f, n=name: content(n, harmful_pickle(f.parent))(f)), name)
      for name in FILES),
    *(Case(f"{name} is a link out of the folder, by ../", run(instead(name, outside)), "leads out of its folder")
      for name in FILES),
    Case("config.json is a folder", run(instead("config.json", Path.mkdir)), "is missing"),
    Case("config.json is a pipe", run(instead("config.json", os.mkfifo)), "is missing"),
    Case("model.safetensors is a pipe", run(instead("model.safetensors", os.mkfifo)), "is missing"),
    Case("users.parquet is a link to itself", run(instead("users.parquet", lambda p: p.symlink_to(p))), "is missing"),
    Case("config.json nested 100,000 deep", run(content("config.json", NESTED.encode())), "is damaged"),
    Case("config.json with an integer of 10,000 digits",
         run(content("config.json", f'{{"seeds": [{DIGITS}]}}'.encode())), "is damaged"),
    Case("config.json is a list", run(content("config.json", b"[1]")), "is not the config of a run"),
    Case("config.json is null", run(content("config.json", b"null")), "is not the config of a run"),
    Case("config.json with a key of its own", run(edit("config.json", lambda c: c.update(run_me="x"))),
         "is not the config of a run"),
    Case("a width of 10^12",
         run(edit("config.json", lambda c: c["model_options"].update(dim=10**12))), "option dim of model gmf"),
    Case("a width of 10,000, which the weights have not",
         run(edit("config.json", lambda c: c["model_options"].update(dim=10_000))), "of another model"),
    Case("1,000,000 seeds", run(edit("config.json", lambda c: c.update(seeds=list(range(10**6))))),
         "is not the config of a run"),
    Case("a model to import: os:system", run(edit("config.json", lambda c: c.update(model="os:system"))), IMPORTS),
    Case("a method to import", run(edit("config.json", lambda c: c.update(method="harm:Harm"))), IMPORTS),
    Case("a partner to import", run(edit("config.json", lambda c: c["method_options"].update(g="harm:Harm"))), IMPORTS),
    Case("a partner to import, among what differs between runs",
         run(edit("config.json", lambda c: c.update(varied=[{"method.g": "harm:Harm"}]))), IMPORTS),
    Case("metrics.json is empty", run(content("metrics.json", b"{}")), "metrics.json"),
    Case("metrics.json of text where numbers are, in a report",
         run(edit("metrics.json", lambda m: m.update(mean={"recall@20": "<script>"})), "report"), "metrics.json"),
    Case("metrics.json with fewer runs than there are", run(edit("metrics.json", lambda m: m.update(runs=[]))),
         "metrics.json"),
    Case("log.jsonl is no JSON", run(content("log.jsonl", b"{\xff")), "log.jsonl"),
    Case("users twice", run(table("users.parquet", lambda t: t.take([0] * len(t)))), "users.parquet"),
    Case("users of another kind", run(table("users.parquet", lambda t: pa.table({"user": [1.5] * len(t)}))),
         "users.parquet"),
    Case("users without their column", run(table("users.parquet", lambda t: t.rename_columns(["x"]))),
         "users.parquet"),
    Case("one user fewer than the weights have", run(table("users.parquet", lambda t: t.slice(1))), "run"),
    Case("seen pairs of unknown users", run(table("seen.parquet",
         lambda t: t.set_column(0, "user", pa.array(["nobody"] * len(t))))), "seen.parquet"),
    Case("test pairs of unknown items", run(table("test.parquet",
         lambda t: t.set_column(1, "item", pa.array(["nothing"] * len(t))))), "test.parquet"),
    Case("seen.parquet without its parts", run(table("seen.parquet", lambda t: t.select(["user", "item"]))),
         "seen.parquet"),
    Case("users.parquet is a bomb", run(lambda f: content("users.parquet", parquet_bomb())(f)), "claims 4,000,000,000"),
    Case("users.parquet claims more rows than it has", run(lambda f: content("users.parquet", parquet.with_footer(
         (f / "users.parquet").read_bytes(), lambda t: parquet.set_integer(t, parquet.NUM_ROWS, 99)))(f)),
         "claims 99 rows"),
    Case("safetensors whose header is of 2^63 bytes", run(content("model.safetensors", header(2**63) + b"{}")),
         "is damaged"),
    Case("safetensors whose header is longer than the file", run(content("model.safetensors", header(10**6))),
         "is damaged"),
    Case("safetensors whose tensor is longer than the file",
         run(content("model.safetensors", one_tensor([1, 50, 4], [0, 800]))), "is damaged"),
    Case("safetensors whose shape overflows",
         run(content("model.safetensors", one_tensor([2**62, 2**62], [0, 0]))), "is damaged"),
    Case("safetensors of no kind of number", run(content("model.safetensors", one_tensor([0], [0, 0], "PICKLE"))),
         "is damaged"),
    Case("safetensors with other names", run(content("model.safetensors", header())), "of another model"),
    Case("weights that are not finite", run(tensors(_not_finite)), "not finite"),
    Case("weights of another precision", run(tensors(_double)), "of another model"),
)  # fmt: skip

CHECKPOINTS = (
    Case("checkpoint cut in half", cut(half(CHECKPOINT)), "is damaged"),
    Case("checkpoint that is a pickle", cut(lambda f: content(CHECKPOINT, harmful_pickle(f.parent))(f)), "is damaged"),
    Case("checkpoint whose header lies", cut(content(CHECKPOINT, header(2**63))), "is damaged"),
    Case("checkpoint without a state", cut(tensors(lambda t, h: h.pop("state") and None, CHECKPOINT)), "damaged"),
    Case("checkpoint whose state is no JSON", cut(state(lambda _: "{")), "damaged"),
    Case("checkpoint whose state is nested 100,000 deep", cut(state(lambda _: NESTED)), "damaged"),
    Case("checkpoint whose state has other fields", cut(state(lambda s: s.update(run_me=1))), "damaged"),
    Case("checkpoint whose state is of more runs", cut(state(lambda s: s.update(best=[1.0] * 9))), "damaged"),
    Case("checkpoint whose epochs are text", cut(state(lambda s: s.update(epoch="many"))), "damaged"),
    Case("checkpoint with a random state that is too short", cut(tensors(_short_stream, CHECKPOINT)), "damaged"),
    Case("checkpoint without a random state", cut(tensors(_no_stream, CHECKPOINT)), "damaged"),
    Case("checkpoint whose averages are of another shape", cut(tensors(_other_adam, CHECKPOINT)), "damaged"),
    Case("checkpoint whose kept weights are not all there", cut(tensors(_other_kept, CHECKPOINT)), "damaged"),
    Case("checkpoint whose weights are not finite", cut(tensors(
        lambda t, _: t["weight/target.user.weight"].fill_(float("nan")), CHECKPOINT)), "damaged"),
)  # fmt: skip

EXPRESSIONS = (
    Case("--clean with Python in it", clean("__import__('os').mkdir('PROOF')"), "clean rule"),
    Case("--clean with Python after a rule", clean("value>=1 and os.mkdir('PROOF')"), "clean rule"),
    Case("--clean with a number of 1,000 digits", clean(f"value>={'9' * 1000}"), "meets the clean rule"),
    Case("--clean of 100,000 characters", clean("value>=1 and " * 8000 + "x"), "clean rule"),
    Case("--set with Python in it", train("--set", "method.c1=__import__('os').getpid()"), "option c1"),
    Case("--set nested 100,000 deep", train("--set", f"method.c1={NESTED}"), "--set"),
    Case("--set with an integer of 10,000 digits", train("--set", f"method.c1={DIGITS}"), "--set"),
    Case("--set NaN", train("--set", "train.lr=NaN"), "option lr"),
    Case("--set infinite", train("--set", "train.lr=Infinity"), "option lr"),
    Case("--set a width of 10^12", train("--set", "model.dim=1000000000000"), "option dim"),
    Case("--set an unknown section", train("--set", "os.system=ls"), "os"),
    Case("--set without a value", train("--set", "method.c1"), "--set"),
    Case("--seeds 1,000,000,000", train("--seeds", "1000000000"), "seeds"),
    Case("--k 10^30", train("--k", "1" + "0" * 30), "give one or more whole numbers"),
    Case("--k -1", train("--k", "-1"), "k"),
    Case("--ratios NaN", train("--ratios", "nan,nan,nan"), "ratios"),
    Case("--model to import that is no model", train("--model", "os:system"), "cannot be made"),
    Case("--users that are no UTF-8", users(b"caf\xe9\n"), "UTF-8"),
    Case("--users of NULs", users(b"\0" * 100), "popularity", refused=False),
)  # fmt: skip

OTHERS = (
    Case("results.jsonl is no JSON", comparison(b"{]\n"), "results.jsonl, line 1, is damaged"),
    Case("results.jsonl nested 100,000 deep", comparison(NESTED.encode() + b"\n"), "results.jsonl, line 1, is damaged"),
    Case("results.jsonl of NULs", comparison(b"\0\xff\n"), "results.jsonl"),
    Case("results.jsonl with other keys", comparison(b'{"a": 1}\n'), "results.jsonl, line 1, is damaged"),
    Case("an audit folder without its table", audit_folder(lambda _: None), "is missing"),
    Case("an audit folder with another table", audit_folder(
        lambda f: pq.write_table(pa.table({"user": ["u1"], "p_real": [0.5]}), f / "interactions.parquet")),
        "interactions.parquet"),
    Case("an audit folder of other interactions", audit_folder(lambda f: pq.write_table(
        pa.table({"user": ["x"], "item": ["y"], "p_real": [0.5]}), f / "interactions.parquet")), "of another log"),
)  # fmt: skip

FOLDERS = (*RUNS, *CHECKPOINTS, *OTHERS)
