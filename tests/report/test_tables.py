"""Tables of results."""

from __future__ import annotations

import pytest

from accord.report.tables import Table


@pytest.mark.parametrize("wrong", [{"rows": (("a",),)}, {"rows": (), "marked": frozenset({(0, 0)})}])
def test_a_table_that_does_not_fit_is_our_mistake(wrong):
    with pytest.raises(AssertionError):
        Table("", ("a", "b"), **wrong)
