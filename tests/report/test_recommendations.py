"""What runs recommend, counted."""

from __future__ import annotations

import numpy as np

from accord.report import measure
from accord.report.measure import Runs
from accord.report.page import Section
from accord.report.recommendations import SEEN, recommended


def test_the_section_counts_what_is_recommended(trained):
    runs = Runs([trained["ease-normal"]])
    section = Section("What is recommended")
    recommended(runs, section)
    spread, most = (block["table"] for block in section.blocks if block["kind"] == "table")
    run = trained["ease-normal"][1]
    seen, counts = run.train.popularity(), runs.runs[0].recommended.counts
    assert [row[0] for row in spread.rows] == [SEEN, "ease", "popularity"]
    assert spread.rows[0][1:3] == (f"{(seen > 0).mean():.1%}", f"{measure.gini(seen):.3f}")
    assert spread.rows[1][3] == f"{measure.by_tenth(counts, seen)[-1]:.1%}"
    top = int(np.argmax(counts))
    item, title, lists, had, interactions = most.rows[0]
    assert item == run.items.ids[top].as_py()
    assert title.endswith(f" {top}")
    users = int((run.train.counts > 0).sum())
    assert (lists, had, interactions) == (f"{counts[top] / users:.1%}", f"{seen[top] / users:.1%}", f"{seen[top]:,}")
    assert len(most.rows) == measure.EXAMPLES
