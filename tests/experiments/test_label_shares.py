"""What labels are worth by their share: drawn alike everywhere, kept as they come."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import accord
from accord.data.interactions import Interactions
from accord.errors import InputError
from accord.experiments import label_shares
from accord.report.tables import write_all
from helpers import small_data


@pytest.fixture(scope="module")
def data():
    made = accord.simulate(users=300, items=150, interactions=6_000, seed=2).dataset
    label = pa.array(made.train.column("value").astype(float))
    return replace(made, train=Interactions.of(made.train.users, made.train.items, label=label))


def test_labels_are_drawn_by_pair_and_by_user(data):
    truth = data.train.column("label")
    for draw in range(2):
        some = label_shares.drawn_labels(data, 0.1, "random", draw)
        kept = ~np.isnan(some)
        assert 0.07 < kept.mean() < 0.13
        assert (some[kept] == truth[kept]).all()
    assert not np.array_equal(label_shares.drawn_labels(data, 0.1, "random", 0), some, equal_nan=True)
    users = data.rows(data.train)[0]
    whole = ~np.isnan(label_shares.drawn_labels(data, 0.1, "users", 0))
    assert len(np.unique(users[whole])) <= 30
    assert not set(users[whole]) & set(users[~whole]), "all labels of a user or none"


def test_one_line_per_draw_and_none_twice(data, tmp_path):
    said = []
    lines = label_shares.run(data, [0.5], ["random"], 1, tmp_path, "cpu", 1.0, said.append)
    (line,) = lines
    assert line["used"]
    assert line["auc"] > line["label_free_auc"] - 0.05
    assert line["auc"] > line["popularity_auc"]
    assert 0 < line["ndcg@20"] <= 1
    again = label_shares.run(data, [0.5], ["random"], 1, tmp_path, "cpu", 1.0, lambda text: pytest.fail(text))
    assert again == lines
    (row,) = label_shares.table(lines).rows
    assert row[:3] == (data.name, "50%", f"{line['auc']:.4f}")
    assert row[5] == f"{line['ndcg@20']:.4f}"


def test_mean_and_sd_over_draws():
    line = dict.fromkeys(("auc", "label_free_auc", "popularity_auc", "consensus", "ease", "ease_told"), 0.5)
    line |= {"dataset": "d", "by": "users", "share": 0.05, "p_ease": 0.001}
    rows = label_shares.table([line | {"ndcg@20": 0.6}, line | {"ndcg@20": 0.8}]).rows
    assert rows[0][1] == "5% of users"
    assert rows[0][5] == "0.7000 ± 0.1414"
    assert rows[0][-1] == "2 of 2"


def test_data_without_labels_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"has no labels to draw from; give --labels, as 'rating>=4'"):
        label_shares.run(small_data(), [0.1], ["random"], 1, tmp_path)


def test_the_committed_page_is_what_its_raw_lines_say(tmp_path):
    folder = Path(__file__).parents[2] / "docs" / "reproduction" / "labels"
    lines = [json.loads(line) for line in (folder / "labels.jsonl").read_text().splitlines()]
    made = label_shares.table(lines)
    write_all(tmp_path, label_shares.NAME, [made], [label_shares.NOTE], made.title)
    assert (tmp_path / "labels.md").read_text() == (folder / "labels.md").read_text()
