from __future__ import annotations

from accord.serve.search import Search


def test_search_puts_the_id_itself_first():
    import numpy as np
    import pyarrow as pa

    found = Search(pa.array([15, 5, 51, 500]), None, np.array([9, 1, 2, 3]))
    assert found.find("5", 10) == [1, 3, 2, 0]  # itself, those that begin so by frequency, those that hold it
    assert found.find("", 2) == [0, 3]
