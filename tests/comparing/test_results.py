"""Raw results: lines that are only added, and what every user got."""

from __future__ import annotations

import numpy as np
import pytest

from accord.comparing.compare import Request, cells_of, compare
from accord.comparing.results import IDENTITY, Results, run_key
from accord.errors import InputError
from comparisons import quiet


def test_what_every_user_got_ends_in_one_file(data, tmp_path):
    results = Results(tmp_path)
    cells = cells_of(["mf"], ["normal"], {})
    compare(Request(data, seeds=2, epochs=1, say=quiet), cells, results)
    before = results.per_user("recall@20")
    assert {path.name for path in tmp_path.iterdir()} == {"results.jsonl", "results.per_user.parquet"}
    compare(Request(data, seeds=3, epochs=1, say=quiet), cells, results)
    after = results.per_user("recall@20")
    assert {path.name for path in tmp_path.iterdir()} == {"results.jsonl", "results.per_user.parquet"}
    assert set(after) == {run_key(line) for line in results.read()} > set(before)
    assert all(np.array_equal(after[key], values) for key, values in before.items())


def lines(*seeds):
    return [{**dict.fromkeys(IDENTITY, "x"), "seed": seed, "metrics": seed / 10} for seed in seeds]


def test_a_key_says_which_run_it_is_and_not_how_well_it_did():
    (one,), (other,) = lines(1), lines(2)
    assert run_key(one) == run_key(one | {"metrics": 0.9, "seconds": 3})
    assert run_key(one) != run_key(other)


def test_lines_are_put_in_order_among_the_others(tmp_path):
    results = Results(tmp_path)
    results.add(lines(1, 2, 3, 4), {})
    keys = {line["seed"]: run_key(line) for line in results.read()}
    results.arrange([keys[4], keys[2]])
    assert [line["seed"] for line in results.read()] == [1, 4, 3, 2]


def test_a_run_that_is_added_again_has_its_last_values(tmp_path):
    results = Results(tmp_path)
    (one,) = lines(1)
    results.add([one], {"ndcg@20": np.array([[0.1, 0.2]])})
    results.merge_per_user()
    results.add([one], {"ndcg@20": np.array([[0.3, 0.4]])})
    results.merge_per_user()
    assert {key: list(values) for key, values in results.per_user("ndcg@20").items()} == {run_key(one): [0.3, 0.4]}


@pytest.mark.parametrize(
    ("damage", "message"),
    [(b"{}\n", "line 3"), (b"[\n", "line 3"), (b"\xff\n", "is damaged")],
    ids=["not a run", "not JSON", "not text"],
)
def test_a_damaged_file_is_named(tmp_path, damage, message):
    results = Results(tmp_path)
    results.add(lines(1, 2), {})
    with results.file.open("ab") as file:
        file.write(damage)
    with pytest.raises(InputError, match=message):
        results.read()


def test_a_line_that_was_cut_short_is_removed(tmp_path):
    results = Results(tmp_path)
    results.add(lines(1, 2), {})
    whole = results.file.read_text()
    results.file.write_text(whole + '{"dataset": "x')
    assert len(results.read()) == 2
    assert results.file.read_text() == whole
