"""Partners of other families, from the runs to the page."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from accord.comparing.results import Results
from accord.errors import InputError
from accord.evaluation.noise import auc
from accord.fitting import fit
from accord_lab import partners
from accord_lab.known_noise import Labelled
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
    plain = [line for line in lines if (line["model"], line["method"]) == ("mf", "normal")]
    assert all(set(line["disagreement"]) == {"ease"} for line in plain)
    assert not any("disagreement" in line for line in lines if line not in plain)
    page = (tmp_path / "partners.md").read_text()
    partners.render(tmp_path)
    assert (tmp_path / "partners.md").read_text() == page
    with pytest.raises(InputError, match="nothing was finished"):
        partners.render(tmp_path / "elsewhere")


def line(ndcg, noise, apart=None):
    found = {"metrics": {"ndcg@20": ndcg}, "noise": {"auc": noise}}
    return found | ({} if apart is None else {"disagreement": {"ease": apart}})


def test_the_sentences_follow_from_the_figures():
    rows = {
        "GMF + Normal": [line(0.10, 0.60, 0.4), line(0.12, 0.62, 0.5)],
        "GMF + DeCA(p), a copy of itself": [line(0.09, 0.5), line(0.09, 0.5)],
        "GMF + DeCA(p), EASE": [line(0.2, 0.7), line(0.2, 0.7)],
        "GMF + DeCA(p), MF": [line(0.05, 0.55), line(0.05, 0.55)],
        "EASE alone": [line(0.3, 0.8)],
        "MF + Normal, alone": [line(0.1, 0.65)],
        "Popularity": [line(0.1, 0.9)],
    }
    tests = {
        "GMF + DeCA(p), a copy of itself": {"p_holm": 0.01, "difference": -0.02},
        "GMF + DeCA(p), EASE": {"p_holm": 0.01, "difference": 0.09},
        "GMF + DeCA(p), MF": {"p_holm": 0.3, "difference": -0.06},
    }
    assert partners._sentences("Data", rows, tests) == (
        "Data: NDCG@20 is 0.1100 with plain training, 0.0900 with a copy as the partner, and 0.0500 to 0.2000 with "
        "partners of other kinds, 1 of 2 significantly above plain training and 0 below. Noise is told with an AUC of "
        "0.610 by plain training, 0.500 with a copy, 0.550 to 0.700 with another kind, 0.800 by the best partner alone "
        "(EASE), and 0.900 by how popular an item is. Disagreement itself tells it with 0.450 to 0.450."
    )


def test_disagreement_is_how_far_apart_two_models_place_a_pair(data):
    """By hand: ranks of both among the labelled pairs."""
    labelled = Labelled.by_value(data)
    judge = partners.Judge(data, labelled, "mf", ("popularity",))
    trained = fit(data, "mf", "normal", seeds=2, epochs=2, device="cpu")
    counts = data.training_csr().popularity()[labelled.items].astype(float)
    pairs = (torch.from_numpy(rows).expand(2, -1) for rows in (labelled.users, labelled.items))
    with torch.no_grad():
        every = trained.method.posterior(*pairs).numpy()
    for f, found in zip(every, judge(trained), strict=True):
        places = [(own[:, None] > own).sum(1) + (own[:, None] == own).sum(1) / 2 for own in (f, counts)]
        assert found["disagreement"]["popularity"] == pytest.approx(
            auc(-np.abs(places[0] - places[1]), labelled.real), abs=1e-9
        )
