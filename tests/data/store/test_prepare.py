"""A store is the same however it was made, and there only when it is complete."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pytest

from accord.cli.data import parse_bytes
from accord.data.columns import Columns
from accord.data.load import load
from accord.data.store import store as opened_module
from accord.data.store.prepare import prepare
from accord.errors import InputError
from accord.io.files import only_writer
from logs import assert_same, log_table, write_log


def arrays(store: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(store.iterdir()) if path.is_file()}


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


def test_text_files_are_read_by_name(tmp_path: Path, in_pieces: None) -> None:
    table, folder = log_table(times=False), tmp_path / "parts"
    folder.mkdir()
    for start in (0, 300, 500):
        write_log(folder / f"part-{start:03}.csv", table.slice(start, 300 if not start else 200))
    whole = prepare(write_log(tmp_path / "log.csv", table), tmp_path / "whole")
    parts = str(folder / "*.csv")
    assert prepare(parts, tmp_path / "store").interactions.table.equals(whole.interactions.table)
    (folder / "z.csv").write_text("who,what\n1,2\n")
    with pytest.raises(InputError, match="has other columns than"):
        prepare(parts, tmp_path / "other")


def test_bytes_do_not_depend_on_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    log = write_log(tmp_path / "log.parquet", log_table(text=True))
    prepare(log, tmp_path / "at-once")
    request.getfixturevalue("in_pieces")
    prepare(log, tmp_path / "pieces")
    assert arrays(tmp_path / "at-once") == arrays(tmp_path / "pieces")


@pytest.mark.parametrize("error", [KeyboardInterrupt, InputError("a bad row")])
def test_what_fails_leaves_nothing_behind(
    tmp_path: Path, in_pieces: None, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    log, out = write_log(tmp_path / "log.csv", log_table(text=True)), tmp_path / "store"
    prepare(log, tmp_path / "whole")
    for step in ("reading rows", "partitioning rows", "sorting rows"):

        def fail(name: str, done: int, total: int | None, step: str = step) -> None:
            if name == step and done > 1:
                raise error

        with pytest.raises((KeyboardInterrupt, InputError)):
            prepare(log, out, on_progress=fail)
        assert not out.exists()
    prepare(log, out)
    assert arrays(out) == arrays(tmp_path / "whole")


def test_what_a_killed_process_leaves_is_not_read_and_not_used(tmp_path: Path) -> None:
    log, out = write_log(tmp_path / "log.csv", log_table()), tmp_path / "store"
    (out / opened_module.WORK).mkdir(parents=True)
    (out / opened_module.WORK / "chunk-0-user").write_bytes(b"half a row")
    (out / "weight.bin").write_bytes(b"half a row")
    with pytest.raises(InputError, match="not finished; run `accord data prepare` again"):
        load(out)
    assert_same(load(log), prepare(log, out).dataset("auto", (0.8, 0.1, 0.1), None, 0))
    assert not (out / "weight.bin").exists()


def test_two_processes_do_not_prepare_one_store(tmp_path: Path) -> None:
    log, out = write_log(tmp_path / "log.csv", log_table()), tmp_path / "store"
    with only_writer(out), pytest.raises(InputError, match="is being written by another process; wait for it"):
        prepare(log, out)


def test_where_a_store_cannot_be_made(tmp_path: Path, store: Path) -> None:
    log = tmp_path / "log.csv"
    other = tmp_path / "other"
    for source, out, told in (
        (log, store, "is prepared already; give another out=, or overwrite=True"),
        (log, log, "is a file; give a folder"),
        (log, tmp_path, "is not empty and not a store"),
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


def test_amounts_of_memory() -> None:
    assert [parse_bytes(text) for text in ("500MB", "2 GB", "1.5GiB", "100000000", "64k")] == [
        500 * 2**20, 2**31, 3 * 2**29, 100_000_000, 2**16,
    ]  # fmt: skip
    with pytest.raises(InputError, match="--memory 'much': write it as 500MB or 4GB"):
        parse_bytes("much")
