"""Agreement on softmax, from the runs to the page."""

from __future__ import annotations

import json

import numpy as np
import pytest

from accord.comparing.compare import Cell
from accord.comparing.results import Results
from accord.errors import InputError
from accord_lab.leaderboards import softmax
from comparisons import ask, rated


@pytest.fixture
def few_rows(monkeypatch):
    """The rows of which no two are alike, small."""
    names = ("softmax", "DeCA on softmax, g EASE", "cross-entropy (Normal)", "EASE")
    small = {name: softmax.CELLS[name] for name in names}
    for name, cell in small.items():
        if cell.method is not None:
            options = dict(cell.options) | {"model.dim": 8, "train.epochs": 2}
            small[name] = Cell(cell.model, cell.method, tuple(options.items()))
    monkeypatch.setattr(softmax, "CELLS", small)


@pytest.mark.usefixtures("few_rows")
def test_from_runs_to_page(data, tmp_path):
    parts = softmax.run([rated(data)], ask, tmp_path, 2, ["uniform"], [0.3])
    assert [part.title for part in parts] == ["rated", "rated, uniform noise, 30%"]
    lines = Results(tmp_path, "softmax").read()
    noisy, clean = (
        [x for x in lines if x["method"] == "deca-softmax" and x["injected"]["rate"] == rate] for rate in (0.3, 0)
    )
    row = dict(zip(parts[1].columns, parts[1].rows[1], strict=True))
    assert row["what"] == "DeCA on softmax, g EASE"
    found = np.array([line["metrics"]["ndcg@20"] for line in noisy])
    assert row["NDCG@20"].startswith(f"{found.mean():.4f}")
    assert row["noise AUC"].startswith(f"{np.mean([line['noise']['auc'] for line in noisy]):.3f}")
    alone = np.array([line["injected"]["ndcg@20"]["uniform 0.3"] for line in clean])
    assert row["cost"] == f"{np.mean(found / alone - 1):+.1%}"
    assert "noise" in clean[0], "by the ratings, where nothing was put in"
    plain = [x["metrics"]["ndcg@20"] for x in lines if x["method"] == "softmax" and x["injected"]["rate"] == 0.3]
    test = json.loads((tmp_path / "softmax.json").read_text())["rated, uniform 0.3"]["tests"][row["what"]]
    assert test["difference"] == pytest.approx(found.mean() - np.mean(plain), abs=1e-6)
    trials = Results(tmp_path, "tuning").read()
    tried = {x["settings"]["method.temperature"] for x in trials if x["method"] == "softmax"}
    assert len(tried) == 2
    assert all(0.08 <= value <= 0.6 for value in tried)
    best = max((x for x in trials if x["method"] == "softmax"), key=lambda x: x["valid_ndcg@20"])
    chosen = {x["settings"]["method.temperature"] for x in lines if x["method"] == "softmax"}
    assert chosen == {best["settings"]["method.temperature"]}, "by the validation"
    page = (tmp_path / "softmax.md").read_text()
    softmax.render(tmp_path)
    assert (tmp_path / "softmax.md").read_text() == page
    with pytest.raises(InputError, match="nothing was finished"):
        softmax.render(tmp_path / "elsewhere")
