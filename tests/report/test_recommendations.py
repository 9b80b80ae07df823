"""What runs recommend, counted."""

from __future__ import annotations

import numpy as np
import pytest

from accord.report.page import Section
from accord.report.recommendations import EXAMPLES, SEEN, gini, recommendations, top_tenth
from accord.report.runs import Runs


def test_the_section_counts_what_is_recommended(trained):
    runs = Runs([trained["ease-normal"]])
    section = Section("Recommendations")
    recommendations(runs, section)
    spread, most = (block["table"] for block in section.blocks if block["kind"] == "table")
    run = trained["ease-normal"][1]
    seen, counts = run.train.popularity(), runs.runs[0].recommended
    assert [row[0] for row in spread.rows] == [SEEN, "ease", "popularity"]
    assert spread.rows[0][1:3] == (f"{(seen > 0).mean():.1%}", f"{gini(seen):.3f}")
    assert spread.rows[1][3] == f"{top_tenth(counts, seen):.1%}"
    top = int(np.argmax(counts))
    item, title, lists, had, interactions = most.rows[0]
    assert item == run.items.ids[top].as_py()
    assert title.endswith(f" {top}")
    users = int((run.train.counts > 0).sum())
    assert (lists, had, interactions) == (f"{counts[top] / users:.1%}", f"{seen[top] / users:.1%}", f"{seen[top]:,}")
    assert len(most.rows) == EXAMPLES


def test_gini_by_hand():
    assert gini(np.array([5, 5, 5, 5])) == 0
    assert gini(np.array([0, 0, 0, 8])) == pytest.approx(0.75)
    assert gini(np.array([1, 3])) == pytest.approx(0.25)
    assert gini(np.array([0, 0])) == 0


def test_the_share_of_the_most_popular_tenth_by_hand():
    popularity = np.arange(20)[::-1].copy()  # item 0 is the most popular
    counts = np.zeros(20, dtype=np.int64)
    counts[[0, 1, 19]] = [6, 2, 2]
    assert top_tenth(counts, popularity) == 0.8
