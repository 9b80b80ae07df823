"""A store gives what the same log gives in memory, to the last bit, however it was made and wherever it was stopped."""

from __future__ import annotations

import importlib
import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from accord.auditing.interaction_log import open_log
from accord.cli.app import app
from accord.cli.data import parse_bytes
from accord.data import interactions as interactions_module
from accord.data import read, sampling, sources
from accord.data.columns import Columns
from accord.data.interactions import Csr, Dataset, IdMap
from accord.data.read import load
from accord.data.sampling import Sampler, TrainingPairs
from accord.data.store import prepare as prepare_module
from accord.data.store import sorted_ids
from accord.data.store import store as opened_module
from accord.data.store.prepare import prepare
from accord.data.store.store import Store
from accord.errors import InputError
from accord.fitting import fit
from accord.nn.layers import generators
from helpers import CPU, random_csr

ROOT = Path(__file__).parents[3]


@pytest.fixture
def in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every bound so small that little data needs many chunks, blocks and groups."""
    monkeypatch.setattr(sources, "BATCH_ROWS", 97)
    monkeypatch.setattr(sources, "TEXT_BLOCK", 2**11)
    monkeypatch.setattr(prepare_module, "CHUNK_SHARE", 2**20)
    monkeypatch.setattr(prepare_module, "LEAST_BLOCK", 7)
    monkeypatch.setattr(prepare_module, "BYTES_A_ROW", 2**25)
    monkeypatch.setattr(opened_module, "PAIRS_AT_ONCE", 61)


def log_table(rows: int = 700, text: bool = False, seed: int = 0, times: bool = True, gaps: bool = False) -> pa.Table:
    """A log with repeated pairs, equal times and users of very different activity."""
    rng = np.random.default_rng(seed)
    users = (60 * rng.random(rows) ** 2).astype(np.int64) * 7 - 20
    items = (40 * rng.random(rows) ** 1.5).astype(np.int64) + 1000
    values = rng.integers(1, 6, rows).astype(np.float64)
    columns: dict[str, Any] = {
        "userId": [f"u-{user}é" for user in users] if text else users,
        "movieId": items,
        "rating": pa.array(values, mask=rng.random(rows) < 0.1 if gaps else None),
    }
    if times:
        columns["timestamp"] = rng.integers(0, 300, rows)
    return pa.table(columns)


def write_log(path: Path, table: pa.Table) -> Path:
    if path.suffix == ".parquet":
        pq.write_table(table, path, row_group_size=100)
    else:
        pyarrow.csv.write_csv(table, path)
    return path


def arrays(store: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(store.iterdir()) if path.is_file()}


def assert_same(one: Dataset, other: Dataset) -> None:
    assert one.name == other.name
    assert one.notes == other.notes
    for part in ("train", "valid", "test", "valid_clean", "test_noisy"):
        mine, theirs = getattr(one, part), getattr(other, part)
        assert (mine is None) == (theirs is None), part
        if mine is not None:
            assert mine.table.equals(theirs.table.combine_chunks()) or mine.table.combine_chunks().equals(
                theirs.table.combine_chunks()
            ), part
            assert mine.rows.schema.equals(theirs.rows.schema, check_metadata=True)
            assert np.array_equal(one.csr(mine).keys, other.csr(theirs).keys)
    assert one.users.ids.equals(other.users.ids)
    assert one.items.ids.equals(other.items.ids)


@pytest.mark.parametrize("kind", ["parquet", "csv"])
@pytest.mark.parametrize(
    "shape", [{}, {"text": True}, {"times": False}, {"gaps": True}], ids=["ints", "text", "no times", "gaps"]
)
def test_a_store_reads_as_the_log_does(tmp_path: Path, in_pieces: None, kind: str, shape: dict[str, Any]) -> None:
    log = write_log(tmp_path / f"log.{kind}", log_table(**shape))
    store = prepare(log, tmp_path / "store")
    assert len(store.interactions) < 700
    for split in ["random", "chronological", "leave-last-out"] if shape.get("times", True) else ["auto"]:
        for clean in (None, "rating>=4"):
            asked = {"split": split, "clean": clean, "seed": 3, "ratios": (0.7, 0.1, 0.2)}
            for _ in range(2):  # made, and found again
                assert_same(load(log, **asked), load(tmp_path / "store", **asked))
    assert not (tmp_path / "store" / "preparing").exists()


def test_ids_are_what_all_of_them_are(tmp_path: Path, in_pieces: None) -> None:
    """Integers in the first chunks and a word in the last: all are text, in the order of text."""
    users = [*[str(number) for number in range(300)], "007", "ann"]
    log = write_log(tmp_path / "log.csv", pa.table({"user": users, "item": [str(len(user)) for user in users]}))
    store = prepare(log, tmp_path / "store")
    assert store.interactions.user_ids.ids.to_pylist() == sorted(users)
    assert store.interactions.item_ids.ids.type == pa.int64()
    assert_same(load(log), load(tmp_path / "store"))


def test_fractions_that_come_late_and_columns_that_cannot_be_read(tmp_path: Path, in_pieces: None) -> None:
    table = log_table().set_column(3, "timestamp", pa.array([*range(650), *[0.5] * 50], pa.float64()).cast(pa.string()))
    table = table.set_column(2, "rating", pa.array([*["1"] * 650, *["good"] * 50]))
    log = write_log(tmp_path / "log.csv", table)
    prepare(log, tmp_path / "store")
    assert_same(load(log), load(tmp_path / "store"))
    assert any("only guessed" in note for note in load(tmp_path / "store").notes)
    with pytest.raises(InputError, match="which is not a number"):
        prepare(log, tmp_path / "other", columns=Columns(value="rating"))


def test_a_folder_of_text_files_is_read_by_name(tmp_path: Path, in_pieces: None) -> None:
    table, folder = log_table(times=False), tmp_path / "parts"
    folder.mkdir()
    for start in (0, 300, 500):
        write_log(folder / f"part-{start:03}.csv", table.slice(start, 300 if not start else 200))
    whole = prepare(write_log(tmp_path / "log.csv", table), tmp_path / "whole")
    assert prepare(folder, tmp_path / "store").interactions.table.equals(whole.interactions.table)
    (folder / "z.csv").write_text("who,what\n1,2\n")
    with pytest.raises(InputError, match="has other columns than"):
        prepare(folder, tmp_path / "other")


def test_bytes_do_not_depend_on_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    log = write_log(tmp_path / "log.parquet", log_table(text=True))
    prepare(log, tmp_path / "at-once")
    request.getfixturevalue("in_pieces")
    prepare(log, tmp_path / "pieces")
    assert arrays(tmp_path / "at-once") == arrays(tmp_path / "pieces")


class Killed(BaseException):
    """As a killed process: nothing is tidied up by those who catch errors."""


def stopped_at(monkeypatch: pytest.MonkeyPatch, number: int, after: bool) -> Callable[[], bool]:
    """Stop before or after the n-th file of JSON is written; says whether that came to pass."""
    count = 0

    def write(path: Path, content: Any) -> None:
        nonlocal count
        count += 1
        if count == number and not after:
            raise Killed
        write_json(path, content)
        if count == number:
            raise Killed

    write_json = __import__("accord.io.files", fromlist=["write_json"]).write_json
    monkeypatch.setattr(prepare_module, "write_json", write)
    return lambda: count >= number


@pytest.mark.parametrize("after", [False, True])
def test_stopped_anywhere_it_goes_on_to_the_same_bytes(
    tmp_path: Path, in_pieces: None, monkeypatch: pytest.MonkeyPatch, after: bool
) -> None:
    log = write_log(tmp_path / "log.csv", log_table(200, text=True))
    prepare(log, tmp_path / "whole")
    number = 1
    while True:
        happened = stopped_at(monkeypatch, number, after)
        out = tmp_path / "stopped"
        try:
            prepare(log, out)
        except Killed:
            assert happened()
            if not opened_module.is_store(out):
                with pytest.raises(InputError, match="not finished; run the same `accord data prepare` again"):
                    load(out)
                with (out / "item.bin").open("ab") as file:
                    file.write(b"half a row")  # as if stopped in the middle of an append
                prepare(log, out)
        assert arrays(out) == arrays(tmp_path / "whole"), number
        shutil.rmtree(out)
        if not happened():
            break
        number += 1
    assert number > 10


def test_another_log_is_not_taken_for_the_one_begun(
    tmp_path: Path, in_pieces: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, out = write_log(tmp_path / "log.csv", log_table()), tmp_path / "store"
    happened = stopped_at(monkeypatch, 5, after=True)
    with pytest.raises(Killed):
        prepare(log, out)
    assert happened()
    write_log(log, log_table(seed=1))
    assert_same(load(log), prepare(log, out).dataset("auto", (0.8, 0.1, 0.1), None, 0))


@settings(max_examples=50, deadline=None)
@given(st.lists(st.lists(st.text(max_size=3), min_size=1, max_size=12), min_size=1, max_size=5), st.integers(1, 4))
def test_runs_merge_into_one_sorted_list(tmp_path_factory: pytest.TempPathFactory, lists: Any, block: int) -> None:
    folder = tmp_path_factory.mktemp("runs")
    known = [IdMap.of(pa.array(ids, pa.string())).ids for ids in lists]
    paths = [folder / str(number) for number in range(len(known))]
    for path, ids in zip(paths, known, strict=True):
        sorted_ids.write_run(path, ids, block)
    merged, rows = [], [list[int]() for _ in known]
    for step in sorted_ids.merged(paths):
        merged += step.ids.to_pylist()
        for number, own in step.rows:
            rows[number] += own.tolist()
    assert merged == IdMap.of(*known).ids.to_pylist()
    for ids, own in zip(known, rows, strict=True):
        assert [merged[row] for row in own] == ids.to_pylist()


# --- use


@pytest.mark.parametrize(
    ("model", "method"), [("gmf", "deca"), ("cdae", "normal"), ("lightgcn", "wbpr"), ("ease", "normal")]
)
def test_training_on_a_store_is_training_on_the_log(tmp_path: Path, model: str, method: str) -> None:
    log = write_log(tmp_path / "log.parquet", log_table())
    prepare(log, tmp_path / "store")
    made = [
        fit(source, model, method, epochs=2, out=tmp_path / f"run-{name}")
        for name, source in (("log", log), ("store", tmp_path / "store"))
    ]
    states = [one.method.state_dict() for one in made]
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])
    for one in made:
        one.metrics.pop("seconds")
        for run in one.metrics["runs"]:
            run.pop("train_seconds")
    assert made[0].metrics == made[1].metrics
    for name in ("seen", "test", "users", "items"):
        tables = [pq.read_table(tmp_path / f"run-{which}" / f"{name}.parquet") for which in ("log", "store")]
        assert tables[0].equals(tables[1])


def test_an_audit_reads_a_store_as_a_log_of_its_rows(tmp_path: Path) -> None:
    table = log_table(text=True)
    merged = read.read_table(table, ordered=True)[0].table.rename_columns(table.column_names)
    log = write_log(tmp_path / "log.parquet", merged)
    prepare(log, tmp_path / "store")
    one, other = open_log(log), open_log(tmp_path / "store")
    assert one.columns.equals(other.columns)
    assert one.clean == other.clean
    assert np.array_equal(one.part, other.part)
    assert_same(one.data, other.data)


@pytest.mark.parametrize("negatives", ["unseen", "popularity"])
@pytest.mark.parametrize("batching", ["pairs", "users"])
def test_negatives_are_the_same_without_a_table(monkeypatch: pytest.MonkeyPatch, negatives: Any, batching: Any) -> None:
    whole = random_csr(50, 30, 0.2)
    stored = Csr(whole.ptr, whole.items.astype(np.int32), whole.num_items, whole.users.astype(np.int32))
    epochs = []
    for csr, most in ((whole, 2**24), (stored, 0)):
        monkeypatch.setattr(sampling, "LAID_OUT_WHOLE", most)
        sampler = Sampler(TrainingPairs.of(csr, CPU), generators([1, 2], "x"), 32, negatives, batching)
        epochs.append(list(sampler.epoch()))
        monkeypatch.setattr(sampling, "DRAWN_AT_ONCE", 64)  # of the second: drawn in many parts
    for one, other in zip(*epochs, strict=True):
        assert torch.equal(one.users, other.users)
        assert torch.equal(one.items, other.items)
        assert other.items.dtype == torch.long


def test_a_matrix_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = random_csr(40, 20, 0.3, 1), random_csr(40, 20, 0.3, 2)
    whole, popular = one.merge(other), one.popularity()
    monkeypatch.setattr(interactions_module, "PAIRS_AT_ONCE", 17)
    blocks = one.merge(other)
    assert np.array_equal(whole.ptr, blocks.ptr)
    assert np.array_equal(whole.items, blocks.items)
    assert np.array_equal(popular, one.popularity())
    assert np.array_equal(np.concatenate(list(one.key_parts())), one.keys)


# --- what a user can do wrong


@pytest.fixture
def store(tmp_path: Path) -> Path:
    prepare(write_log(tmp_path / "log.csv", log_table()), tmp_path / "store")
    return tmp_path / "store"


def test_stores_that_are_none(tmp_path: Path, store: Path) -> None:
    header = json.loads((store / "store.json").read_text())
    for content, told in (
        ("{", "not of a store that accord made"),
        ("[]", "not of a store that accord made"),
        ('{"name": "mine"}', "not of a store that accord made"),
        (json.dumps(header | {"version": 2}), "a store of version 2, and this accord reads 1"),
        (json.dumps(header | {"arrays": {}}), "is damaged"),
    ):
        (store / "store.json").write_text(content)
        with pytest.raises(InputError, match=told):
            load(store)
    (store / "store.json").write_text(json.dumps(header))
    (store / "item.bin").write_bytes(b"1234")
    with pytest.raises(InputError, match=r"damaged \(item.bin has 4 bytes, not \d+\); prepare it again"):
        load(store)
    (store / "item.bin").unlink()
    with pytest.raises(InputError, match=r"damaged \(item.bin is missing\)"):
        load(store)


def test_a_damaged_split_says_what_to_remove(store: Path) -> None:
    load(store)
    (split,) = (store / "splits").iterdir()
    (split / "store.json").write_text("{}")
    with pytest.raises(InputError, match=r"chronological-0.8-0.1-0.1-seed-0 is damaged; remove it"):
        load(store)


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"columns": Columns(user="userId")}, "prepared already, so columns cannot be chosen"),
        ({"clean": "dwell>3"}, "holds no column 'dwell' that the clean rule speaks of; prepare it with --value-col"),
        ({"split": "middle"}, "unknown split"),
    ],
)
def test_what_cannot_be_asked_of_a_store(store: Path, asked: dict[str, Any], told: str) -> None:
    with pytest.raises(InputError, match=told):
        load(store, **asked)


def test_where_a_store_cannot_be_made(tmp_path: Path, store: Path) -> None:
    log = tmp_path / "log.csv"
    other = tmp_path / "other"
    for source, out, told in (
        (log, store, "is prepared already; give another --out, or --overwrite"),
        (log, log, "is a file; give a folder"),
        (log, tmp_path, "holds something else"),
        (store, other, "is a store already"),
        (tmp_path / "nowhere", other, "no file or folder"),
    ):
        with pytest.raises(InputError, match=told):
            prepare(source, out)
    for text, told in (
        ("user,item\n", "is empty"),
        ("user,item\na,x\na,y\n", "only one user"),
        ("user,item\na,x\n,y\nb,z\n", r"1 row has no user id in column 'user' \(first: row 2\)"),
        ("a,b\nx,y\n", "no user column"),
    ):
        log.write_text(text)
        with pytest.raises(InputError, match=told):
            prepare(log, other)
    with pytest.raises(InputError, match="give at least 16 MB"):
        prepare(log, other, memory=1000)


def test_a_store_is_replaced_only_when_asked(tmp_path: Path, store: Path) -> None:
    (store / "mine.txt").write_text("kept")
    log = write_log(tmp_path / "log.csv", log_table(seed=5))
    replaced = prepare(log, store, overwrite=True)
    assert_same(load(log), replaced.dataset("auto", (0.8, 0.1, 0.1), None, 0))
    assert (store / "mine.txt").read_text() == "kept"


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_log(Path("log.csv"), log_table())
    done = CliRunner().invoke(app, ["data", "prepare", "log.csv", "--out", "store", "--memory", "64MB"])
    assert done.exit_code == 0, done.output
    assert "store: store, " in done.stderr
    assert "users with 40 items" in done.stderr
    checks = [CliRunner().invoke(app, ["data", "check", what, "--json"]).stdout for what in ("log.csv", "store")]
    assert checks[0] == checks[1]
    assert json.loads(checks[0])["name"] == "log"
    monkeypatch.setattr(prepare_module, "write_json", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    stopped = CliRunner().invoke(app, ["data", "prepare", "log.csv", "--out", "other"])
    assert stopped.exit_code == 130
    assert "the same command continues where it stopped" in stopped.stderr


def test_amounts_of_memory() -> None:
    assert [parse_bytes(text) for text in ("500MB", "2 GB", "1.5GiB", "100000000", "64k")] == [
        500 * 2**20, 2**31, 3 * 2**29, 100_000_000, 2**16,
    ]  # fmt: skip
    with pytest.raises(InputError, match="--memory 'much': write it as 500MB or 4GB"):
        parse_bytes("much")


def test_a_store_is_open_without_being_read(store: Path) -> None:
    """Ids and pairs lie in their files: nothing is copied on the way to the training matrix."""
    opened = Store.open(store)
    data = opened.dataset("auto", (0.8, 0.1, 0.1), None, 0)
    train = data.csr(data.train)
    assert train is data.train.stored
    assert isinstance(train.items.base, np.memmap)
    column = data.train.column("item")
    assert column.__array_interface__["data"] == (train.items.__array_interface__["data"][0], True)


# --- what was measured


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return importlib.import_module("scale_store")


def test_the_page_says_what_was_measured(benchmark: Any) -> None:
    page = benchmark.PAGE.read_text(encoding="utf-8")
    results = json.loads(benchmark.RESULTS.read_text(encoding="utf-8"))
    assert benchmark.MARK + benchmark.table(results) + "<!-- end -->" in page, "run benchmarks/scale_store.py --page"
    assert set(results) >= {"make", *benchmark.STEPS}


def test_a_bound_that_is_missed_is_called_so(benchmark: Any) -> None:
    results = json.loads(benchmark.RESULTS.read_text(encoding="utf-8"))
    for step, bound in (("prepare", 6), ("train", 8), ("recommend", 4)):
        for resident, told in ((bound * 1e9, "met"), (bound * 1.01e9, "**missed**")):
            results[step]["resident_bytes"] = resident
            assert f"| {bound} GB, {told} |" in benchmark.table(results)


def test_a_process_is_watched(benchmark: Any) -> None:
    code = "import time; x = bytearray(300_000_000); time.sleep(0.3)"
    found = benchmark.watched([sys.executable, "-c", code])
    assert 300e6 < found["resident_bytes"] < 400e6
    assert found["resident_bytes"] >= found["own_bytes_at_peak"] > 290e6
