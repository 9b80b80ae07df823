"""Judges of known error, and judges that are none: programs of a few lines, and no network."""

from __future__ import annotations

import json
import re
import shlex
import sys

import numpy as np
import pyarrow as pa
import pytest

import accord
from accord.data.load import load_whole
from accord.errors import InputError
from accord.posteriors.judge import _price, _worth, judge

pytestmark = pytest.mark.usefixtures("few_penalties")


@pytest.fixture(scope="module")
def log():
    """A simulated log, a tenth of which people have labelled, and the truth of every pair."""
    made = accord.simulate(users=200, items=100, interactions=5_000, seed=5, liked=0.4).dataset.everything().train
    table = made.table.select(["user", "item", "value"])
    truth = {(row["user"], row["item"]): row["value"] for row in table.to_pylist()}
    few = np.random.default_rng(0).random(len(table)) < 0.1
    labels = pa.array(np.where(few, table["value"].to_numpy(), np.nan), from_pandas=True)
    table = table.select(["user", "item"]).append_column("label", labels)
    return load_whole(table), truth


def program(path, body, first=""):
    """A judge: `body` answers `pair`."""
    path.write_text(
        f"import json, random, sys, time\nrandom.seed(1)\n{first}"
        f"for line in sys.stdin:\n    pair = json.loads(line)\n{body}"
    )
    return f"{shlex.quote(sys.executable)} {shlex.quote(str(path))}"


def knowing(tmp_path, truth, right):
    (tmp_path / "truth.json").write_text(json.dumps({f"{user} {item}": value for (user, item), value in truth.items()}))
    return program(
        tmp_path / "judge.py",
        "    real = truth[pair['user'] + ' ' + pair['item']]\n"
        f"    said = int(real if random.random() < {right} else 1 - real)\n"
        "    print('' if pair['item'].endswith('7') else said)\n",
        f"truth = json.load(open({str(tmp_path / 'truth.json')!r}))\n",
    )


@pytest.mark.parametrize("right", [1.0, 0.8])
def test_the_error_of_a_judge_is_found_and_its_labels_are_priced(log, tmp_path, right):
    data, truth = log
    result = judge(data, knowing(tmp_path, truth, right), 1_000, 60)
    labels = {(row["user"], row["item"]): row["label"] for row in result.table.to_pylist()}
    train = data.training_csr()
    pairs = zip(data.users.take(train.users).to_pylist(), data.items.take(train.items).to_pylist(), strict=True)
    known = dict(zip(pairs, train.columns["label"], strict=True))
    assert all(np.isnan(known[pair]) for pair in labels)  # only what nobody has labelled
    assert 600 < len(labels) < 800
    assert not [item for _, item in labels if item.endswith("7")], "of which it knows nothing"
    for said in set(labels.values()):  # what is written is the chance to be real, about
        assert abs(np.mean([truth[pair] for pair, label in labels.items() if label == said]) - said) < 0.12
    price = re.fullmatch(r"one human label is worth (.*) of its labels \((.*) to (.*)\)\.", result.notes[-1])
    low, high = float(price[2]), float(price[3])
    assert low <= float(price[1]) <= high
    assert low - 0.11 <= 1 / _worth(right, right, float(np.nanmean(train.columns["label"]))) <= high


def test_without_labels_by_people_its_answers_are_taken_as_they_are(log, tmp_path):
    data, truth = log
    bare = load_whole(data.train.table.select(["user", "item"]))
    result = judge(bare, knowing(tmp_path, truth, 1.0), 50, 60)
    assert "its errors are unknown" in result.notes[1]
    assert all(truth[row["user"], row["item"]] == row["label"] for row in result.table.to_pylist())


def test_a_judge_reads_titles_and_may_not_know(log, tmp_path):
    data, _ = log
    items = data.items.ids.to_pylist()
    titled = accord.load(
        data.train.table, ratios=(1, 0, 0), items=pa.table({"id": items, "title": [f"Film {item}" for item in items]})
    )
    asked = tmp_path / "asked.jsonl"
    command = program(
        tmp_path / "reads.py",
        f"    open({str(asked)!r}, 'a').write(line)\n    print('' if random.random() < 0.5 else 'true')\n",
    )
    result = judge(titled, command, 20, 60)
    pairs = [json.loads(line) for line in asked.read_text().splitlines()]
    assert len(pairs) == 20 > len(result.table)
    assert all(pair["title"] == f"Film {pair['item']}" for pair in pairs)
    assert all(pair["item"] not in [one["item"] for one in pair["history"]] for pair in pairs)
    assert pairs[0]["history"][0]["title"].startswith("Film ")


def test_the_rarer_noise_is_the_less_an_answer_is_worth():
    real = np.repeat([True, False], 200)
    said = np.where(np.random.default_rng(0).random(400) < 0.8, real, ~real).astype(float)
    half, tenth = (float(re.search(r"worth (\S+) of its", _price(said, real, share)[1][1])[1]) for share in (0.5, 0.9))
    assert tenth > 1.5 * half


def test_a_judge_is_asked_what_labels_leave_open(log, tmp_path):
    data, truth = log
    asked = judge(data, knowing(tmp_path, truth, 1.0), 60, 60).table
    found = accord.posterior(data)
    assert found.used
    p_real = {(row["user"], row["item"]): row["p_real"] for row in found.table.to_pylist() if row["label"] is None}
    doubt = [abs(p_real[row["user"], row["item"]] - 0.5) for row in asked.to_pylist()]
    assert np.mean(doubt) < 0.5 * np.mean([abs(each - 0.5) for each in p_real.values()])


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            "    sys.exit('the model is not there')\n",
            "ended with code 1 after 0 of 100 answers: the model is not there",
        ),
        ("    pass\nprint(1)\n", "gave 1 answers to 100 pairs; it has to write one line for each"),
        ("    print('maybe')\n", "answers 'maybe' in line 1, and a label is a number from 0"),
        ("    print(7)\n", "answers '7' in line 1"),
        ("    time.sleep(9)\n", "gave no answers to 100 pairs within 2 seconds"),
        ("    print()\n", "answered none of the pairs"),
    ],
)
def test_a_bad_judge_is_one_sentence(log, tmp_path, body, message):
    with pytest.raises(InputError, match=message):
        judge(load_whole(log[0].train.table.select(["user", "item"])), program(tmp_path / "bad.py", body), 100, 2)


def test_a_judge_that_guesses_or_is_none(log, tmp_path):
    data, _ = log
    with pytest.raises(InputError, match="may be no better than chance"):
        judge(data, program(tmp_path / "guess.py", "    print(random.randint(0, 1))\n"), 400, 60)
    for command, message in (
        ("no-such-program", "cannot be started"),
        ("'", "cannot be started"),
        ("", "cannot be started"),
    ):
        with pytest.raises(InputError, match=message):
            judge(data, command, 10, 60)
    with pytest.raises(InputError, match="judgements=0: give at least 1"):
        judge(data, "true", 0, 60)
