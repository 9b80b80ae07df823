"""Files are whole or not there, and what is wrong with one that is read is said in a sentence."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from accord.errors import InputError
from accord.io import files
from accord.io.files import (
    Unfolding,
    check_footer,
    check_rows,
    make_folder,
    only_writer,
    own_file,
    read_batches,
    read_json,
    read_table,
    replacing,
    staged,
    sync,
    unfoldable,
    write_json,
)
from lossy_disk import recorded


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_file_takes_its_place_when_all_is_written(tmp_path):
    path = tmp_path / "deep" / "file.txt"
    with replacing(path) as temporary:
        temporary.write_text("whole")
        assert not path.exists()
        assert temporary.match("deep/.file.txt.*.part"), "by which it is known and removed if we are killed now"
    assert path.read_text() == "whole"
    assert path.stat().st_mode & 0o777 == 0o644, "others may read it"
    with pytest.raises(ZeroDivisionError), replacing(path) as temporary:
        temporary.write_text(f"half {1 / 0}")
    assert path.read_text() == "whole"
    assert names(path.parent) == ["file.txt"]


def test_files_take_their_places_together_and_the_last_one_last(tmp_path, monkeypatch):
    (tmp_path / "metrics.json").write_text("old")
    (tmp_path / "mine.txt").write_text("kept")
    moved = []
    replace = type(tmp_path).replace

    def watched(path, target):
        assert not (tmp_path / "metrics.json").exists()  # until all others are there, the folder does not count
        moved.append(target.name)
        return replace(path, target)

    monkeypatch.setattr(type(tmp_path), "replace", watched)
    with staged(tmp_path, "metrics.json") as place:
        assert place.match(f"{tmp_path}/.*.part"), "by which it is known and removed if we are killed now"
        for name in ("metrics.json", "z.bin", "a.bin"):
            (place / name).write_text("new")
    assert moved == ["a.bin", "z.bin", "metrics.json"]
    assert names(tmp_path) == ["a.bin", "metrics.json", "mine.txt", "z.bin"]


# --- a power failure


def test_a_power_failure_leaves_the_old_file_or_the_new_one(tmp_path, monkeypatch):
    path = tmp_path / "results.jsonl"
    path.write_text("old")
    with recorded(tmp_path, monkeypatch) as recording, replacing(path) as temporary:
        temporary.write_text("new")
    outcomes = list(recording.left_behind())
    assert {left["results.jsonl"] for _, left in outcomes} == {b"old", b"new"}
    assert all(left["results.jsonl"] == b"new" for step, left in outcomes if step == len(recording.steps))


def test_a_power_failure_leaves_one_run_or_none(tmp_path, monkeypatch):
    """Never a file of one beside a file of another, unless the last one is missing, by which a folder is incomplete."""
    names = ("config.json", "weights.bin", "metrics.json")
    for name in names:
        (tmp_path / name).write_text(f"old {name}")
    with recorded(tmp_path, monkeypatch) as recording, staged(tmp_path, "metrics.json") as place:
        for name in names:
            with replacing(place / name) as temporary:
                temporary.write_text(f"new {name}")
    outcomes = list(recording.left_behind())
    for _, left in outcomes:
        if "metrics.json" in left:
            assert left in ({name: f"{age} {name}".encode() for name in names} for age in ("old", "new"))
    assert any("metrics.json" not in left for _, left in outcomes)
    assert all(left["metrics.json"] == b"new metrics.json" for step, left in outcomes if step == len(recording.steps))


def test_folders_are_not_synced_where_they_cannot_be_opened(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    opened = []
    windows = SimpleNamespace(name="nt", open=lambda *_: opened.append(1), fsync=len, close=len, O_RDONLY=0)
    monkeypatch.setattr(files, "os", windows)
    sync(tmp_path)
    assert not opened
    with pytest.raises(TypeError):  # by what stands for a handle here
        sync(tmp_path / "file")
    assert opened


def full(*place):
    return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), *place)


def named(context, error):
    """The file that an error names which was raised in a block."""
    with pytest.raises(OSError) as found, context:  # noqa: PT011
        raise error
    return found.value.filename


def test_the_name_of_the_file_is_in_the_error_of_a_full_disk(tmp_path):
    path, elsewhere = tmp_path / "deep" / "file.txt", str(tmp_path / "elsewhere")
    assert named(replacing(path), full()) == str(path)
    assert named(replacing(path), full(elsewhere)) == elsewhere
    with pytest.raises(OSError) as found, replacing(path) as temporary:  # noqa: PT011
        raise full(str(temporary))
    assert found.value.filename == str(path)
    assert named(staged(tmp_path, "last"), full()) == str(tmp_path)
    assert named(staged(tmp_path, "last"), full(elsewhere)) == elsewhere
    with pytest.raises(OSError) as found, staged(tmp_path, "last") as place, replacing(place / "weights.bin"):  # noqa: PT011
        raise full()
    assert found.value.filename == str(tmp_path / "weights.bin")
    with pytest.raises(FileNotFoundError) as found, staged(tmp_path, "last"):
        pass
    assert found.value.filename == str(tmp_path / "last")
    with pytest.raises(FileNotFoundError) as found, staged(tmp_path, "last") as place:
        place.rmdir()  # as a cleaner of old files may
    assert found.value.filename == str(place)


def test_a_folder_is_made_with_those_that_it_lies_in(tmp_path):
    for _ in range(2):
        make_folder(tmp_path / "runs" / "today" / "run")
    assert (tmp_path / "runs" / "today" / "run").is_dir()


@pytest.mark.parametrize("name", ["taken", "taken/run"])
def test_a_file_that_is_in_the_way_of_a_folder_is_named(tmp_path, name):
    (tmp_path / "taken").write_text("a file")
    with pytest.raises(InputError, match=rf"taken is a file, and so \S+{name} cannot be a folder; give another place"):
        make_folder(tmp_path / name)


def test_one_process_writes_to_a_folder_and_leftovers_go(tmp_path):
    folder = tmp_path / "runs" / "run"
    (folder / ".half.part").mkdir(parents=True)
    (folder / ".half.part" / "file").touch()
    (folder / ".left.part").write_text("of a process that was killed")
    (folder / "mine.part").touch()
    code = (
        f"import pathlib\nfrom accord.io.files import only_writer\nwith only_writer(pathlib.Path({str(folder)!r})): 1"
    )
    with only_writer(folder):
        assert names(folder) == ["mine.part"]
        (folder / "kept").touch()
        other = subprocess.run([sys.executable, "-c", code, str(folder)], capture_output=True, text=True, check=False)
        said = f"{folder} is being written by another process; wait for it, or give another --out."
        assert other.stderr.endswith(f"InputError: {said}\n")
    with only_writer(folder):
        assert names(folder) == ["kept", "mine.part"]
    with only_writer(tmp_path / "empty"), only_writer(None):
        assert (tmp_path / "empty").is_dir()
    assert not (tmp_path / "empty").exists()  # nothing was written, so nothing is left behind


def test_a_folder_is_written_to_where_there_are_no_locks(tmp_path, monkeypatch):
    def refuses(*_):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    (tmp_path / "mine").touch()
    (tmp_path / ".left.part").touch()
    with monkeypatch.context() as patch:
        patch.setattr(files.fcntl, "flock", refuses)
        with only_writer(tmp_path):
            assert names(tmp_path) == ["mine"]
    (tmp_path / ".left.part").touch()
    monkeypatch.setattr(files, "fcntl", None)  # as on Windows
    with only_writer(tmp_path):
        assert names(tmp_path) == [".left.part", "mine"], "it may be another process's"


def test_json_there_and_back(tmp_path):
    path = tmp_path / "a.json"
    write_json(path, {"ü": [1, None]})
    assert read_json(path) == {"ü": [1, None]}
    assert path.read_bytes() == '{\n "ü": [\n  1,\n  null\n ]\n}\n'.encode(), "UTF-8 on every machine"
    path.write_text(r'{"a": "\u00fc\ud83d\ude00"}')
    assert read_json(path) == {"a": "ü😀"}
    for damaged in (b"{", b"[" * 100_000, b'"\xff"', rb'"\ud800"'):
        path.write_bytes(damaged)
        with pytest.raises(InputError, match=r"^\S+a\.json is damaged \(.+\); train again\.$"):
            read_json(path)
    missing = r"^\S+b\.json is missing, so that its folder is not complete; copy or make the whole folder again\.$"
    with pytest.raises(InputError, match=missing):
        read_json(tmp_path / "b.json")


def test_a_file_that_leads_out_of_its_folder_is_not_read(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "secret").write_text("{}")
    (tmp_path / "run" / "config.json").symlink_to(tmp_path / "secret")
    with pytest.raises(
        InputError, match=r"config\.json is a link that leads out of its folder; put the file itself there\.$"
    ):
        own_file(tmp_path / "run" / "config.json")
    (tmp_path / "run" / "inside").write_text("{}")
    (tmp_path / "run" / "metrics.json").symlink_to(tmp_path / "run" / "inside")
    assert read_json(tmp_path / "run" / "metrics.json") == {}


# --- Parquet


def test_parquet_whole_and_in_parts(tmp_path, monkeypatch):
    table = pa.table({"user": range(25), "item": ["a"] * 25})
    pq.write_table(table, tmp_path / "a.parquet")
    assert read_table(tmp_path / "a.parquet").equals(table)
    monkeypatch.setattr(files, "BATCH_ROWS", 10)
    batches = list(read_batches(tmp_path / "a.parquet", {"user", "item"}))
    assert [batch.num_rows for batch in batches] == [0, 10, 10, 5]
    assert all(batch.schema.equals(table.schema) for batch in batches)
    pq.write_table(table[:0], tmp_path / "empty.parquet")
    assert read_table(tmp_path / "empty.parquet").equals(table[:0])
    with pytest.raises(InputError, match=r"a\.parquet is damaged \(it has no column 'score'\)"):
        list(read_batches(tmp_path / "a.parquet", {"user", "score"}))
    (tmp_path / "a.parquet").write_bytes(b"PAR1 and nothing more")
    with pytest.raises(InputError, match=r"a\.parquet is damaged"):
        read_table(tmp_path / "a.parquet")


def test_more_rows_than_so_few_bytes_can_mean_are_not_read(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "MANY_ROWS", 1000)
    monkeypatch.setattr(files, "MOST_ROWS_A_BYTE", 2)
    path = tmp_path / "bomb.parquet"
    path.write_bytes(b"x" * 400)
    check_rows(path, 1000)
    with pytest.raises(InputError, match=r"^\S+bomb\.parquet claims 1,001 rows in 400 bytes, so it is not read\.$"):
        check_rows(path, 1001)
    path.write_bytes(b"x" * 600)
    check_rows(path, 1200)
    pq.write_table(pa.table({"user": pa.array([1] * 10_000)}), path)
    with pytest.raises(InputError, match=r"bomb\.parquet claims 10,000 rows in [\d,]+ bytes"):
        read_table(path)


def footer_of(path, **claims):
    """What a Parquet file says of itself, some of it changed."""
    real = pq.read_metadata(path)
    kept = {name: getattr(real, name) for name in ("row_group", "num_row_groups", "num_rows", "num_columns", "schema")}
    return SimpleNamespace(**kept | claims)


def test_a_parquet_file_that_contradicts_itself_is_damaged(tmp_path, monkeypatch):
    path = tmp_path / "log.parquet"
    pq.write_table(pa.table({"user": range(25), "items": [[1, 2]] * 25}), path, row_group_size=10)
    check_footer(path, footer_of(path))
    for rows in (24, 26):
        with pytest.raises(
            InputError,
            match=rf"^\S+log\.parquet is damaged \(it claims {rows} rows and holds 25\); write it again\.$",
        ):
            check_footer(path, footer_of(path, num_rows=rows))
    monkeypatch.setattr(files, "MANY_ROWS", 1000)
    monkeypatch.setattr(files, "MOST_ROWS_A_BYTE", 0)
    with pytest.raises(InputError, match="claims 1,234,567 rows"):
        check_footer(path, footer_of(path, num_rows=1_234_567))
    monkeypatch.setattr(files, "MANY_ROWS", 24)
    with pytest.raises(InputError, match="claims 25 rows"):
        check_footer(path, footer_of(path, num_rows=1))
    pq.write_table(pa.table({"user": range(25), "item": range(25)}), path)
    real = pq.read_metadata(path).row_group(0)

    def other(number):
        columns = [real.column(place) for place in range(2)]
        columns[number] = SimpleNamespace(num_values=24, total_uncompressed_size=1)
        group = SimpleNamespace(num_rows=25, num_columns=2, column=columns.__getitem__)
        return footer_of(path, row_group=lambda _: group)

    monkeypatch.setattr(files, "MANY_ROWS", 1000)
    for number in range(2):
        with pytest.raises(
            InputError,
            match=r"log\.parquet is damaged \(its columns do not have as many rows as it claims\); write it again\.$",
        ):
            check_footer(path, other(number))


def test_a_column_that_unfolds_to_far_more_than_the_file_is_not_read(tmp_path, monkeypatch):
    path = tmp_path / "log.parquet"
    pq.write_table(pa.table({"user": range(10), "item": ["x" * 50] * 10}), path, use_dictionary=False)
    largest = max(pq.read_metadata(path).row_group(0).column(place).total_uncompressed_size for place in range(2))
    monkeypatch.setattr(files, "MOST_TIMES", 0)
    monkeypatch.setattr(files, "SMALL", largest)
    check_footer(path, pq.read_metadata(path))
    monkeypatch.setattr(files, "SMALL", largest - 1)
    with pytest.raises(
        InputError, match=r"^\S+log\.parquet unfolds to more than 0 times its size, as no log does; write it again\.$"
    ):
        check_footer(path, pq.read_metadata(path))
    monkeypatch.setattr(files, "MOST_TIMES", 1)  # of a file that is longer than each of its columns
    check_footer(path, pq.read_metadata(path))


def test_a_file_of_more_columns_than_any_log_has_is_not_read(tmp_path, monkeypatch):
    path = tmp_path / "wide.parquet"
    pq.write_table(pa.table({f"c{number}": [1] for number in range(20)}), path)
    footer = pq.read_metadata(path)
    monkeypatch.setattr(files, "MOST_LISTED", 10)
    with pytest.raises(InputError, match=r"wide\.parquet is damaged"):
        read_table(path)
    with pytest.raises(OSError, match=r"."):
        check_footer(path, footer)


def test_a_damaged_page_of_any_row_group_is_found_before_it_is_used(tmp_path):
    path = tmp_path / "log.parquet"
    pq.write_table(pa.table({"user": range(40)}), path, row_group_size=20, compression="none", use_dictionary=False)
    footer = pq.read_metadata(path)
    check_footer(path, footer)
    content = bytearray(path.read_bytes())
    start = footer.row_group(1).column(0).data_page_offset
    content[start : start + 20] = b"\xff" * 20
    path.write_bytes(content)
    with pytest.raises(OSError, match=r"."):
        check_footer(path, footer)
    with pytest.raises(InputError, match=r"^\S+log\.parquet is damaged \((?s:.+)\); train again\.$"):
        read_table(path)


def test_which_columns_cannot_be_read_as_dictionaries(tmp_path):
    path = tmp_path / "log.parquet"
    columns = {"user": ["a", "b"], "item": ["x", "y"], "title": ["t", "u"]}
    pq.write_table(
        pa.table(columns),
        path,
        use_dictionary=["title"],
        column_encoding={"item": "DELTA_BYTE_ARRAY"},
        row_group_size=1,
    )
    assert unfoldable(pq.read_metadata(path)) == {"item"}
    assert read_table(path).to_pydict() == columns
    assert [batch.to_pydict() for batch in read_batches(path, set())][-1] == {
        name: values[-1:] for name, values in columns.items()
    }


def codes(*texts, **more):
    return pa.array(texts, **more).dictionary_encode()


def test_text_is_unfolded_up_to_a_size_of_all_batches_together(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "SMALL", 10)
    monkeypatch.setattr(files, "MOST_TIMES", 2)
    (tmp_path / "a").write_bytes(b"123")
    (tmp_path / "b").write_bytes(b"1234")
    batch = pa.record_batch({"item": codes("xyz", "xyz", "z", "z"), "user": codes("ab", "c", "ab", None)})
    unfolding = Unfolding([tmp_path / "a"])
    kept = unfolding.plain(batch, but={"item"})
    assert kept.schema.types == [batch.schema.field("item").type, pa.string()]
    assert kept.to_pydict() == batch.to_pydict()
    assert unfolding.size == 5
    unfolding.plain(batch, but={"item"})
    assert unfolding.size == 10, "as much as may be"
    sentence = r"unfolds to more than 2 times its size, as no log does; write it again\.$"
    with pytest.raises(InputError, match=rf"^{tmp_path}/a {sentence}"):
        unfolding.plain(pa.record_batch({"user": codes("a")}))
    folder = Unfolding([tmp_path / "a", tmp_path / "b"])
    folder.plain(batch)
    assert folder.size == 13
    folder.plain(pa.record_batch({"user": codes("a")}))
    with pytest.raises(InputError, match=rf"^{tmp_path} {sentence}"):
        folder.plain(pa.record_batch({"user": codes("a")}))


def test_what_counts_as_text_that_is_unfolded(tmp_path):
    (tmp_path / "a").touch()
    field = pa.field("user", pa.dictionary(pa.int32(), pa.string()), metadata={"kept": "yes"})
    table = pa.table(
        [pa.chunked_array([codes("ab", None), codes("c", "c")]), codes(1, 2, 2, 1), codes(b"ab", b"", None, b"c"),
         pa.array([1.0, 2.0, 3.0, 4.0]), pa.array(["abcd", "", "", ""])],
        schema=pa.schema([field, ("number", pa.dictionary(pa.int32(), pa.int64())),
                          ("bytes", pa.dictionary(pa.int32(), pa.binary())), ("value", pa.float64()),
                          ("text", pa.string())]),
    )  # fmt: skip
    unfolding = Unfolding([tmp_path / "a"])
    plain = unfolding.plain(table)
    assert unfolding.size == 4 + 0 + 3 + table.column("text").nbytes
    assert plain.to_pydict() == table.to_pydict()
    assert plain.schema.types == [pa.string(), pa.int64(), pa.binary(), pa.float64(), pa.string()]
    assert plain.schema.field("user").metadata == {b"kept": b"yes"}
    before = unfolding.size
    nothing = pa.DictionaryArray.from_arrays(pa.array([0, None]), pa.array([None], pa.string()))
    for empty in (codes(None, None, type=pa.string()), nothing):
        assert unfolding.plain(pa.record_batch({"user": empty})).to_pydict() == {"user": [None, None]}
    assert unfolding.size == before


def test_text_that_is_no_text_is_found(tmp_path):
    path = tmp_path / "log.parquet"
    text = pa.Array.from_buffers(pa.string(), 1, [None, pa.py_buffer(b"\0\0\0\0\1\0\0\0"), pa.py_buffer(b"\xff")])
    pq.write_table(pa.table({"user": text}), path, use_dictionary=False)
    for read in (read_table, lambda path: list(read_batches(path, {"user"}))):
        with pytest.raises(InputError, match=r"log\.parquet is damaged \((?s:.+)UTF8(?s:.+)\); train again\.$"):
            read(path)
