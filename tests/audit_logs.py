"""Logs for the tests of the audit: made by hand, drawn at random, or simulated with known noise."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.csv

import accord
from accord.auditing import verdict
from accord.posteriors.estimate import Estimate, with_interval

HARM = "<img src=x onerror=\"document.title='harmed'\">"


def clicks(folder, users=250, items=200, size=7_000, liked=0.18):
    """A log of simulated clicks with times, a column of notes and two rows twice; and its items' titles."""
    data = accord.simulate(users=users, items=items, interactions=size, seed=3, liked=liked).dataset
    table = pa.concat_tables([data.train.table, data.valid.table, data.test_noisy.table])
    table = table.take(np.random.default_rng(0).permutation(len(table)))
    table = table.append_column("time", pa.array(1_600_000_000 + 60 * np.arange(len(table))))
    table = table.append_column("note", pa.array(["a, b"] * len(table)))
    pyarrow.csv.write_csv(pa.concat_tables([table, table.slice(0, 2)]), folder / "clicks.csv")
    titles = pa.table({"id": data.items.ids, "title": [f"{HARM} {one}" for one in data.items.ids.to_pylist()]})
    pyarrow.csv.write_csv(titles, folder / "items.csv")
    return folder / "clicks.csv"


def limit_verdict(monkeypatch, epochs):
    """Train and search less for the verdict than the settings say."""
    monkeypatch.setattr(verdict, "BUDGET", ("model.budget", 0.2))
    original = verdict.Request
    monkeypatch.setattr(verdict, "Request", lambda *args, **more: original(*args, **more, epochs=epochs))


def frame(rows, *names):
    return pa.table(dict(zip(names, map(list, zip(*rows, strict=True)), strict=True)))


def random_frame(users=30, items=20, size=300, seed=0, **more):
    """Different pairs under text ids."""
    rng = np.random.default_rng(seed)
    keys = rng.choice(users * items, size, replace=False)
    columns = {"user": [f"u{key // items}" for key in keys], "item": [f"i{key % items}" for key in keys]}
    return pa.table(columns | {name: make(rng, keys) for name, make in more.items()})


def estimate_of(log, p_real, spread=0.05):
    """An estimate without labels by two opinions that differ by twice the spread."""
    opinions = np.clip(np.stack([p_real - spread, p_real + spread]), 0, 1)
    label = np.full(len(log), np.nan) if log.label is None else log.label
    return Estimate(
        *with_interval(opinions), label, opinions, opinions, ("popularity", "ease"), False, "made for a test.", {}
    )
