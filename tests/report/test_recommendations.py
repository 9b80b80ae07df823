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
    spread, most = (block["table"].table for block in section.blocks if block["kind"] == "table")
    run = trained["ease-normal"][1]
    seen, counts = run.train.popularity(), runs.runs[0].recommended.counts
    assert [row[0] for row in spread.rows] == [SEEN, "ease", "popularity"]
    assert spread.rows[0][1:3] == (f"{(seen > 0).mean():.1%}", f"{measure.gini(seen):.3f}")
    assert spread.rows[1][3] == f"{measure.by_tenth(counts, seen)[-1]:.1%}"
    top = int(np.argmax(counts))
    item, title, lists, interactions = most.rows[0]
    assert item == run.items.ids[top].as_py()
    assert title.endswith(f" {top}")
    assert (lists, interactions) == (f"{counts[top]:,}", f"{seen[top]:,}")
    assert len(most.rows) == measure.EXAMPLES


def test_shares_of_the_tenths_are_a_whole(trained):
    section = Section("What is recommended")
    recommended(Runs([trained["mf-normal"]]), section)
    (chart,) = (one for block in section.blocks if block["kind"] == "charts" for one, _ in block["charts"])
    assert chart.data.columns == ("tenth", SEEN, "mf + normal", "popularity", "ease")
    for column in range(1, 4):
        shares = [float(row[column].removesuffix("%")) for row in chart.data.rows]
        assert abs(sum(shares) - 100) < 1
