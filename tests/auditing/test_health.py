"""What in a log should make one careful."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from accord.auditing.health import health
from accord.auditing.interaction_log import open_log
from audit_logs import frame, random_frame
from helpers import dataset


def found_in(log):
    return {finding["name"]: finding for finding in health(log)["findings"]}


def test_duplicates_are_counted_with_examples():
    table = random_frame()
    twice = pa.concat_tables([table, table.slice(0, 3), table.slice(0, 1)])
    finding = found_in(open_log(twice))["duplicates"]
    assert (finding["level"], finding["count"], finding["of"]) == ("notice", 4, 304)
    user, item = table.slice(0, 1).to_pylist()[0].values()
    assert finding["examples"][0] == f"{user} · {item}: 3 times"
    assert found_in(open_log(table))["duplicates"]["level"] == "fine"


def test_pairs_in_train_and_test_are_serious():
    data = dataset(4, 4, [(0, 0), (0, 1), (1, 1), (2, 2)], [(3, 3)], [(0, 0), (1, 2)])
    finding = found_in(open_log(data))["shared"]
    assert (finding["level"], finding["count"], finding["examples"]) == ("serious", 1, ("0 · 0",))


def test_a_value_that_is_not_finite_is_serious():
    log = open_log(random_frame(rating=lambda _rng, keys: np.where(np.arange(len(keys)) % 9, 3.0, np.inf)))
    assert found_in(log)["infinite_value"]["level"] == "serious"


def test_bots_are_far_more_active_than_others():
    rng = np.random.default_rng(0)
    rows = [(f"u{u}", f"i{i}") for u in range(60) for i in rng.choice(400, 6, replace=False)]
    rows += [("robot", f"i{i}") for i in range(390)]
    found = found_in(open_log(frame(rows, "user", "item")))
    assert found["bots"]["count"] == 1
    assert found["bots"]["examples"][0].startswith("robot: 390 interactions (65 times")
    ordinary = found_in(open_log(random_frame()))
    assert ordinary["bots"]["level"] == "fine"


def test_columns_that_tell_nothing():
    log = open_log(random_frame(rating=lambda _rng, keys: np.full(len(keys), 3.0)))
    assert found_in(log)["constant_value"]["examples"] == ("3",)
    rows = [(f"u{n}", f"i{n % 20}") for n in range(100)]
    assert found_in(open_log(frame(rows, "user", "item"), split="random"))["unique_user"]["level"] == "serious"


def test_odd_times():
    day = 86_400
    start = 1_600_000_000

    found = found_in(open_log(random_frame(time=lambda _rng, keys: start + np.sort(keys) * 10), split="random"))
    assert "odd_times" not in found

    def in_milliseconds(rng, keys):
        return 1000 * (start + rng.integers(0, day, len(keys)))

    found = found_in(open_log(random_frame(time=in_milliseconds), split="random"))
    assert found["odd_times"]["count"] == 300


def test_a_small_log_is_called_small():
    assert found_in(open_log(random_frame()))["small"]["count"] == 300
    assert "small" not in found_in(open_log(random_frame(50, 40, 1200)))
