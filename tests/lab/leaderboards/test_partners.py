"""Partners of other families, from the runs to the page."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from accord.comparing.results import Results
from accord.errors import InputError
from accord.evaluation.noise import auc
from accord.fitting import fit
from accord_lab.leaderboards import partners
from accord_lab.leaderboards.noise_conditions import LabelledPairs
from comparisons import ask


def test_partners_from_runs_to_page(data, tmp_path):
    parts = partners.run([data], ask, tmp_path, "mf", ["gmf", "ease"])
    lines = Results(tmp_path, "partners").read()
    learned = [line for line in lines if line["model"] not in ("ease", "popularity")]
    seeds = len({line["seed"] for line in learned})
    assert len(learned) == 5 * seeds  # plain, a copy, two partners, and the learned partner alone
    assert len(lines) == len(learned) + 2
    (table,) = parts
    names = [row[0] for row in table.rows]
    assert names == [
        "MF + Normal", "MF + DeCA(p), a copy of itself", "MF + DeCA(p), GMF", "MF + DeCA(p), EASE",
        "GMF + Normal, alone", "EASE alone", "Popularity",
    ]  # fmt: skip
    own = [line for line in lines if line["settings"].get("method.partner") == "ease"]
    assert table.rows[3][1].startswith(f"{np.mean([line['metrics']['ndcg@20'] for line in own]):.4f}")
    assert table.rows[3][4].startswith(f"{np.mean([line['noise']['auc'] for line in own]):.3f}")
    assert [row[2] is None for row in table.rows] == [True, False, False, False, True, True, True]
    tests = json.loads((tmp_path / "partners.json").read_text())[data.name]["tests"]
    assert table.marked == {(names.index(name), 2) for name, test in tests.items() if test["p_holm"] < 0.05}
    plain = [line for line in lines if (line["model"], line["method"]) == ("mf", "normal")]
    assert all(set(line["disagreement"]) == {"ease"} for line in plain)
    assert not any("disagreement" in line for line in lines if line not in plain)
    page = (tmp_path / "partners.md").read_text()
    partners.render(tmp_path)
    assert (tmp_path / "partners.md").read_text() == page
    with pytest.raises(InputError, match="nothing was finished"):
        partners.render(tmp_path / "elsewhere")


def test_disagreement_is_how_far_apart_two_models_place_a_pair(data):
    """By hand: ranks of both among the labelled pairs."""
    labelled = LabelledPairs.by_value(data)
    judge = partners.Judge(data, labelled, "mf", ("popularity",))
    trained = fit(data, "mf", "normal", seeds=2, epochs=2, device="cpu")
    counts = data.training_csr().popularity()[labelled.items].astype(float)
    pairs = (torch.from_numpy(rows).expand(2, -1) for rows in (labelled.users, labelled.items))
    with torch.no_grad():
        every = trained.method.belief(*pairs).numpy()
    for f, found in zip(every, judge(trained), strict=True):
        places = [(own[:, None] > own).sum(1) + (own[:, None] == own).sum(1) / 2 for own in (f, counts)]
        assert found["disagreement"]["popularity"] == pytest.approx(
            auc(-np.abs(places[0] - places[1]), labelled.real), abs=1e-9
        )
