"""The sentences about the overall table, against its raw results and the paper's values read by hand."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest

import accord_lab.paper
from accord_lab.findings.published import overall
from reproduction import FOLDER, metric, raw, words

PAPER = json.loads((Path(accord_lab.paper.__file__).parent / "published.json").read_text())["overall"]
RELEASED = json.loads((Path(accord_lab.paper.__file__).parent / "measured.json").read_text())["figures"]
KS = {"ml-100k": (3, 20), "modcloth": (5, 20), "adressa": (5, 20)}
NAMES = {"ml-100k": "MovieLens-100k", "modcloth": "Modcloth", "adressa": "Adressa"}
MODELS = {"gmf": "GMF", "neumf": "NeuMF", "cdae": "CDAE", "lightgcn": "LightGCN"}
METHODS = {"normal": "Normal", "deca": "DeCA", "deca-p": "DeCA(p)"}


def near(ours: float, mean: float, sd: float) -> bool:
    return abs(ours - mean) <= max(0.05 * mean, 2 * sd)


@pytest.mark.parametrize("dataset", KS)
def test_how_many_values_agree_with_the_paper_and_with_the_paper_alone(dataset):
    ours = defaultdict(list)
    for line in raw("published/overall.jsonl", dataset=dataset):
        ours[line["model"], line["method"]].append(line["metrics"])
    either = alone = 0
    for model, shown in MODELS.items():
        for method, named in METHODS.items():
            for which in (f"{kind}@{k}" for kind in ("recall", "ndcg") for k in KS[dataset]):
                mean = float(np.mean([own[which] for own in ours[model, method]]))
                paper = PAPER[dataset][shown][named][which]
                released = RELEASED[dataset].get(shown, {}).get(named, {}).get("published", {}).get(which)
                by_paper = near(mean, paper["mean"], paper["std"])
                alone += by_paper
                either += by_paper or bool(
                    released and near(mean, np.mean(released), np.std(released, ddof=1) if len(released) > 1 else 0)
                )
    told = f"{either} of 48 values on {NAMES[dataset]} ({alone} of the paper's alone)"
    assert told in words("README.md")


def test_how_far_seeds_differ_and_the_best_rows():
    page = words("README.md")
    of_deca = {"dataset": "ml-100k", "model": "gmf", "method": "deca"}
    for name, seeds in (("published", 3), ("seeds-12/published", 12)):
        values = metric(f"{name}/overall.jsonl", **of_deca)
        assert len(values) == seeds
        assert f"{np.std(values, ddof=1):.4f}".lstrip("0") + f" between {seeds}" in page
    for dataset in ("ml-100k", "modcloth"):
        rows = defaultdict(list)
        for line in raw("published/overall.jsonl", dataset=dataset):
            if line["method"] != "none":
                rows[line["model"], line["method"]].append(line["metrics"]["recall@20"])
        best = max(float(np.mean(values)) for values in rows.values())
        assert f"against {best:.4f} at best".replace(" 0.", " .") in page


def test_other_raw_results_give_other_sentences(tmp_path):
    """A copy with one run of WBPR that lands: the count says so."""
    before = overall(FOLDER)
    for place in ("published", "seeds-12/published"):
        (tmp_path / place).mkdir(parents=True)
        lines = list(raw(f"{place}/overall.jsonl"))
        for line in lines:
            if (line["dataset"], line["model"], line["method"]) == ("modcloth", "gmf", "wbpr"):
                paper = PAPER["modcloth"]["GMF"]["WBPR"]
                line["metrics"] |= {which: figures["mean"] for which, figures in paper.items()}
        (tmp_path / place / "overall.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (tmp_path / "published" / "rules.jsonl").write_bytes((FOLDER / "published" / "rules.jsonl").read_bytes())
    after = overall(tmp_path)
    assert "38 of 48 values on Modcloth and" in before.replace("\n ", "")
    assert "41 of 48 values on Modcloth and" in after.replace("\n ", "")
