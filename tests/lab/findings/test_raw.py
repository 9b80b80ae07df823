"""Figures as the sentences write them, and sentences that the raw results no longer say."""

from __future__ import annotations

import numpy as np
import pytest

from accord.comparing.compare import Cell
from accord.errors import InputError
from accord_lab.findings.raw import Raw, bullets, fig, fig_sd, listed, percent, said, shares, signed, span
from reproduction import FOLDER, metric


def test_figures_are_rounded_and_never_cut():
    assert [fig(0.11368), fig(0.2651, 3), fig(1.5, 1), fig(-0.0028), fig(-0.00001)] == [
        ".1137", ".265", "1.5", "−.0028", ".0000",
    ]  # fmt: skip
    assert [signed(0.0016), signed(-0.0016), percent(-0.018), percent(0.0001), percent(-0.0001)] == [
        "+.0016", "−.0016", "−1.8%", "+0.0%", "+0.0%",
    ]  # fmt: skip
    assert [span([0.3, 0.1, 0.2], 1), span([0.1], 1), shares([-0.3, -0.25])] == [".1 to .3", ".1", "25 to 30%"]
    assert fig_sd([0.1, 0.3]) == f".2000 ± {fig(float(np.std([0.1, 0.3], ddof=1)))}"
    assert [listed(["a"]), listed(["a", "b", "c"])] == ["a", "a, b and c"]


def test_a_sentence_that_no_longer_holds_is_refused():
    assert said("one is below two.", 1 < 2) == "one is below two."
    with pytest.raises(InputError, match="no longer say: two is below one"):
        said("two is below one.", 1 < 2, 2 < 1)


def test_lines_are_found_by_their_settings():
    raw = Raw(FOLDER / "published", "grid")
    options = (("method.c1", 10.0), ("method.c2", 1.0), ("method.alpha", 0.5))
    by_hand = metric("published/grid.jsonl", dataset="modcloth", method="deca", c1=10.0, c2=1.0, alpha=0.5)
    assert len(by_hand) == 3
    assert list(raw.values("modcloth", Cell("gmf", "deca", options))) == by_hand
    with pytest.raises(InputError, match=r"no runs of gmf \+ deca c1=7"):
        raw.mean("modcloth", Cell("gmf", "deca", (("method.c1", 7.0),)))
    with pytest.raises(InputError, match="has no results"):
        Raw(FOLDER, "absent")


def test_items_of_a_list_are_wrapped_and_stay_together():
    text = bullets([("word " * 60,), ("end.",)])
    assert max(map(len, text.splitlines())) <= 128
    assert [line[:2] for line in text.splitlines()] == ["- ", "  ", "  ", "- "]
