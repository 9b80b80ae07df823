"""How real runs hold interactions to be, as a section of a report."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

import accord
from accord.report.beliefs import Values, beliefs
from accord.report.page import Section
from accord.report.runs import Runs


def test_beliefs_are_those_of_the_method(trained):
    runs = Runs([trained["mf-normal"], trained["mf-deca-p"], trained["ease-normal"]])
    section = Section("Which interactions are real")
    beliefs(runs, section)
    how_much, *extremes = (block["table"] for block in section.blocks if block["kind"] == "table")
    names = [row[0] for row in how_much.rows]
    assert names == ["mf + normal", "mf + deca-p", "popularity of the item"]  # ease gives no probability
    scores = runs.runs[1].beliefs
    assert how_much.rows[1][1:3] == (f"{scores.mean():.3f}", f"{(scores < 0.5).mean():.1%}")
    assert len(extremes) == 4
    least = extremes[2]
    assert float(least.rows[0][-1]) == np.round(scores.min(), 4)
    assert least.columns == ("user", "item", "title", "value", "interactions of the user", "of the item", "probability")
    run = runs.runs[1].recommender
    (user,), (item,) = run.users.rows([least.rows[0][0]]), run.items.rows([least.rows[0][1]])
    assert least.rows[0][4:6] == (f"{run.train.counts[user]:,}", f"{run.train.popularity()[item]:,}")
    assert (
        len(
            [
                title
                for title in [
                    one.title for block in section.blocks if block["kind"] == "charts" for one in block["charts"]
                ]
                if "mf" in title
            ]
        )
        == 2
    )


def test_values_are_grouped_only_where_there_are_many(trained, data):
    run = trained["mf-normal"][1]
    values = Values.of(run.trained_on)
    assert values.names == ["0", "1"]
    assert (values.group == data.train.column("value")).all()
    many = np.linspace(0, 100, len(data.train))
    table = data.train.table.set_column(2, "value", pa.array(many))
    other = accord.fit(replace(data, train=accord.Interactions(table)), "popularity")
    values = Values.of(other.trained_on)
    assert values.names[0] == "0 to 20"
    assert np.ptp(np.bincount(values.group)) <= 2  # fifths of equal size
