"""Every hostile input of the campaign ends as it must: most in this process, a few in one of their own, measured."""

from __future__ import annotations

import os
import sys
import unicodedata
from pathlib import Path

import inputs
import pyarrow as pa
import pyarrow.parquet
import pytest
from fuzz.folders import EXPRESSIONS, FOLDERS
from fuzz.logs import LOGS
from hypothesis import given, settings
from hypothesis import strategies as st

from accord.auditing.health import look_alikes
from accord.cli import app
from accord.data.interactions import IdMap
from accord.data.read import read_table
from accord.errors import InputError, printable, shown
from helpers import run_python

APART = (
    "gzip bomb: 10 GB of rows in 10 MB",
    "Parquet bomb: 4,000,000,000 rows in 1 MB",
    "a pipe that nobody writes to",
)
HERE = [case for case in (*LOGS, *FOLDERS, *EXPRESSIONS) if case.name not in APART]


@pytest.mark.parametrize("case", HERE, ids=lambda case: case.name)
def test_it_ends_as_it_must(case, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr(sys, "argv", ["accord", *case.make(tmp_path)])
    with pytest.raises(SystemExit) as ended:
        app.main()
    out, error = capfd.readouterr()
    assert ended.value.code == (2 if case.refused else 0), error
    assert case.says in out + error
    assert "\x1b" not in out + error  # no terminal is told anything
    assert len(error.splitlines()[-1] if error else "") < 1500
    if case.refused:
        assert error.splitlines()[-1].startswith("accord: ")
    assert not (tmp_path / "harmed").exists()


@pytest.mark.parametrize("name", APART)
def test_time_and_memory_are_bounded(name, tmp_path):
    case = next(case for case in LOGS if case.name == name)
    end = inputs.run(case, tmp_path)
    assert end.wrong(case) is None
    assert 0 < end.megabytes < 640  # of which Python, Arrow and torch take most, more on some processors


def test_the_campaign_notices_what_is_wrong():
    case = LOGS[0]
    right = inputs.End(2, f"accord: {case.says}.", 1.0, 100, False)
    assert right.wrong(case) is None
    for wrong in (
        inputs.End(None, right.said, 1.0, 100, False),
        inputs.End(0, right.said, 1.0, 100, False),
        inputs.End(2, "accord: something else.", 1.0, 100, False),
        inputs.End(2, right.said, inputs.SECONDS + 1.0, 100, False),
        inputs.End(2, right.said, 1.0, inputs.MOST_MEMORY + 1, False),
        inputs.End(2, right.said, 1.0, 100, True),
        inputs.End(2, f"Traceback\naccord: {case.says}", 1.0, 100, False),
    ):
        assert wrong.wrong(case) is not None


def test_nothing_of_a_pipe_is_lost_in_silence(tmp_path):
    """A pipe is read once: what was looked at to tell its columns would not be read."""
    path = tmp_path / "log.csv"
    os.mkfifo(path)
    with pytest.raises(InputError, match="cannot be read twice"):
        read_table(path)


ids = st.text(st.characters(codec="utf-8", exclude_categories=["Cc"]), min_size=1, max_size=8).filter(
    lambda text: text.strip() == text and text.lower() not in ("nan", "null", "none", "na", "n/a")
)


@settings(max_examples=25, deadline=None)
@given(st.lists(ids, min_size=2, max_size=8, unique=True), st.sampled_from([".csv", ".tsv", ".parquet"]))
def test_different_ids_stay_different(tmp_path_factory, users, ending):
    """By case, by Unicode form, by anything: nobody is merged with somebody else."""
    from accord.auditing.audit import write_table

    path = tmp_path_factory.mktemp("ids") / f"log{ending}"
    write_table(path, pa.table({"user": users, "item": [f"i{n}" for n in range(len(users))]}))
    found, _ = read_table(path)
    assert sorted(map(str, found.users.to_pylist())) == sorted(users)


@given(st.lists(ids, min_size=1, max_size=6, unique=True))
def test_look_alikes_are_those_that_a_person_takes_for_one(users):
    known = IdMap.of(pa.array(users))
    found = look_alikes(known)
    same = [unicodedata.normalize("NFKC", one).lower().strip() for one in known.ids.to_pylist()]
    assert {row for group in found for row in group} == {n for n, text in enumerate(same) if same.count(text) > 1}
    assert look_alikes(IdMap(pa.array([1, 2]))) == []


def test_what_is_shown_is_short_and_plain():
    assert shown("x" * 10**6).endswith("characters)")
    assert len(shown("x" * 10**6)) < 120
    assert printable("a\x1b[31mb\r\u202ec\td é\n") == "a\\x1b[31mb\\r\\u202ec\td é\n"


def test_the_page_tells_nothing_of_this_machine(tmp_path):
    case = LOGS[0]
    end = inputs.End(2, f"accord: {tmp_path}/log.csv is empty: <b>.", 1.0, 100, False)
    assert inputs.outcome(case, end, Path(tmp_path)) == "log.csv is empty: \\<b\\>."


def test_the_audit_names_ids_that_look_alike(tmp_path):
    from fuzz.logs import LOOKALIKES, rows

    from accord.auditing.health import health
    from accord.auditing.interaction_log import open_log

    (tmp_path / "log.csv").write_text(rows(*LOOKALIKES), encoding="utf-8")
    found = {one["name"]: one for one in health(open_log(tmp_path / "log.csv"))["findings"]}
    assert found["alike_users"]["count"] == 6
    assert any("'ANNA'" in example and "'anna'" in example for example in found["alike_users"]["examples"])
    assert "alike_items" not in found


SHORTENED = """
import sys
from pathlib import Path
import accord
path = Path(sys.argv[1])
whole, told = path.read_bytes(), []
for place in range(len(whole) - 8 - int.from_bytes(whole[-8:-4], "little"), len(whole) - 8):
    if whole[place] == 2:
        path.write_bytes(whole[:place] + bytes(1) + whole[place + 1 :])
        try:
            accord.load(str(path))
        except accord.InputError as error:
            told.append(str(error))
print(sum("Definition level histogram size mismatch" in sentence for sentence in told))
"""


def test_a_parquet_column_that_arrow_would_end_the_process_for(tmp_path):
    """Its footer says that a column has no nulls, and how often which level occurs as if it had."""
    pa.parquet.write_table(pa.table({"user": [1, 2, 3] * 20, "item": [4, 5, 6] * 20}), tmp_path / "log.parquet")
    ended = run_python("-c", SHORTENED, tmp_path / "log.parquet", timeout=120)
    assert (ended.returncode, ended.stdout) == (0, "2\n"), ended.stderr[-1000:]
