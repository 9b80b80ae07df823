"""`accord demo`: every row trained, and a report of all."""

from __future__ import annotations

import accord
import accord.comparing.compare  # what imports `plan` while it is patched would keep what it got
import accord.fitting
from accord.data.simulate import Simulation
from accord.training.plan import plan
from commands import run


def with_a_short_search(data, model, method, **more):
    return plan(data, model, method, options={"model.budget": 0.2} if model == "auto" else None, **more)


def test_every_row_has_a_run_folder_and_the_report_shows_them(tmp_path, monkeypatch, capsys):
    small: Simulation = accord.simulate(users=60, items=40, interactions=900, seed=1, liked=0.4)
    monkeypatch.setattr("accord.data.simulate.simulate", lambda: small)
    monkeypatch.setattr("accord.training.plan.plan", with_a_short_search)
    monkeypatch.chdir(tmp_path)
    code, out, err = run(monkeypatch, capsys, "demo", "--seeds", "1", "--out", "here", "--device", "cpu")
    assert code == 0, err
    assert "of them noise; the models do not know which" in err
    rows = [line.split() for line in out.splitlines()[1:]]
    assert [row[-1] for row in rows] == [
        f"here/{name}" for name in ("auto", "popularity", "ease", "gmf-normal", "gmf-deca", "gmf-deca-p")
    ]
    for row in rows:
        loaded = accord.Recommender.load(tmp_path / row[-1])
        assert f"{loaded.metrics['mean']['recall@20']:.4f}" in row
    assert (tmp_path / "here" / "report.html").exists()
