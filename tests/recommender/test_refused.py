"""Pairs outside the log: a refused item is in no list of its user, whatever recommends and after saving."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import accord
from accord.errors import InputError
from accord.recommender.batch import write_lists


def log_with_refusals(users=60, items=40, refused=15):
    """A log, and for each user some items that they do not have: refused, but for a tenth; a tenth is between."""
    log = (
        accord.simulate(users=users, items=items, interactions=900, seed=1, liked=0.4).dataset.everything().train.table
    )
    log = log.select(["user", "item"])
    owned = set(zip(log["user"].to_pylist(), log["item"].to_pylist(), strict=True))
    rng, ids = np.random.default_rng(0), sorted(set(log["item"].to_pylist()))
    rows = [
        {"user": user, "item": item, "label": max(0.0, rng.integers(-7, 3) / 2)}
        for user in sorted(set(log["user"].to_pylist()))
        for item in rng.permutation(ids)[:refused].tolist()
        if (user, item) not in owned
    ]
    return log, pa.Table.from_pylist(rows)


def pairs(table):
    return set(zip(table["user"].to_pylist(), table["item"].to_pylist(), strict=True))


@pytest.mark.parametrize(
    ("model", "protocol"),
    [("ease", "corrected"), ("mf", "corrected"), ("popularity", "corrected"), ("cdae", "published")],
)
def test_no_refused_item_is_recommended(model, protocol, tmp_path):
    log, labels = log_with_refusals()
    refused = pairs(labels.filter(pa.compute.less(labels["label"], 0.5)))
    options = {"method": "normal", "epochs": 1} if model in ("mf", "cdae") else {}
    recommender = accord.fit(log, model, labels=labels, protocol=protocol, seeds=2 if model == "mf" else 1, **options)
    recommender.save(tmp_path / "run")
    loaded = accord.Recommender.load(tmp_path / "run")
    for one in (recommender, loaded):
        lists = one.recommend(k=40)
        assert len(lists) >= 60
        assert not pairs(lists) & refused
        write_lists(one, tmp_path / "all.parquet", 40)
        assert not pairs(pq.read_table(tmp_path / "all.parquet")) & refused
        user, item = sorted(refused)[0]
        other = next(one for one in log["item"].to_pylist() if one != item)
        folded = one.recommend([user], 40, history={user: [other]}, exclude=["i0001"])["item"].to_pylist()
        assert folded
        assert not {item, "i0001"} & set(folded)
    for label in (0.5, 1):
        liked = pairs(labels.filter(pa.compute.equal(labels["label"], label)))
        assert pairs(loaded.recommend(k=40)) & liked  # which they do not have yet


def test_an_update_keeps_what_was_refused(tmp_path):
    log, labels = log_with_refusals()
    refused = pairs(labels.filter(pa.compute.less(labels["label"], 0.5)))
    accord.fit(log, "ease", labels=labels, out=tmp_path / "run")
    more = pa.table({"user": ["u0002", "newcomer"], "item": ["novelty", "i0003"]})
    updated = accord.Recommender.load(tmp_path / "run").update(more)
    updated.save(tmp_path / "again")
    assert not pairs(accord.Recommender.load(tmp_path / "again").recommend(k=40)) & refused
    accord.fit(log, "ease", out=tmp_path / "run").save(tmp_path / "run", overwrite=True)  # a run without refusals
    assert pairs(accord.Recommender.load(tmp_path / "run").recommend(k=40)) & refused
    assert not (tmp_path / "run" / "outside.parquet").exists(), "nobody's refusals stay behind"


def test_labels_that_are_none_are_not_read(tmp_path):
    log, labels = log_with_refusals()
    run = tmp_path / "run"
    accord.fit(log, "popularity", labels=labels, out=run)
    (run / "manifest.json").write_text((run / "manifest.json").read_text().replace('"outside.parquet"', '"other"'))
    assert accord.Recommender.load(run).outside is None  # a file that is not of the run
    accord.fit(log, "popularity", labels=labels, out=tmp_path / "bad")
    table = pq.read_table(tmp_path / "bad" / "outside.parquet")
    pq.write_table(table.set_column(2, "label", pa.array([2.0] * len(table))), tmp_path / "bad" / "outside.parquet")
    with pytest.raises(InputError, match=r"outside\.parquet is not the file"):
        accord.Recommender.load(tmp_path / "bad")
