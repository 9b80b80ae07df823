"""The pairs in a run folder: values and weights come back, damage is one sentence."""

from __future__ import annotations

import accord


def test_a_run_folder_keeps_the_values_that_training_was_not_told(simulation, tmp_path):
    data, folder = simulation.dataset, tmp_path / "run"
    accord.fit(data, "popularity", out=folder)
    again = accord.Recommender.load(folder).trained_on
    assert again.table.select(["user", "item"]).equals(data.train.table.select(["user", "item"]))
    assert (again.column("value") == simulation.is_real).all()
    assert again.source_name("value") == data.train.source_name("value")
