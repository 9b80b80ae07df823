"""Figures in prose that are not generated, against the code or the raw files that they come from."""

from __future__ import annotations

import json
import re
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import numpy as np

from accord.comparing.compare import Request
from accord.consensus import families, labels, search, votes
from accord.evaluation import evaluate
from accord.evaluation.significance import compare_to
from accord.models.consensus import Consensus
from accord.models.slist import SparseSLIST
from accord_lab.paper.reproduce import EXPERIMENTS
from helpers import small_data

DOCS = Path(__file__).parents[2] / "docs"
NUMBERS = {1: "one", 3: "three", 4: "four", 5: "five", 6: "six", 8: "eight"}


def words(name: str) -> str:
    return " ".join((DOCS / name).read_text(encoding="utf-8").split())


def test_how_many_runs_an_experiment_has() -> None:
    text = (DOCS / "reproduction" / "README.md").read_text(encoding="utf-8")
    told = dict(re.findall(r"^\| `(\w+)` \|.*\| ([\d,]+)(?: \(not Adressa\))? \|$", text, re.M))
    assert set(told) == set(EXPERIMENTS)
    for name, experiment in EXPERIMENTS.items():
        request = experiment.prepare(Request(small_data(), "published", 3))
        cells = experiment.cells(request, experiment.models, experiment.methods)
        runs = sum(3 if cell.method else 1 for cell in cells)
        datasets = [one for one in experiment.datasets if one not in (*experiment.lacking, "electronics")]
        assert int(told[name].replace(",", "")) == runs * len(datasets), name
        assert ("adressa" in experiment.lacking) == (
            f"`{name}` " in text and _line(text, name).endswith("(not Adressa) |")
        )


def _line(text: str, name: str) -> str:
    return next(line for line in text.splitlines() if line.startswith(f"| `{name}` |"))


def test_seeds_and_trials_of_the_leaderboard() -> None:
    folder = DOCS / "reproduction" / "corrected"
    told = words("reproduction/corrected/README.md")
    lines = [json.loads(line) for line in (folder / "leaderboard.jsonl").read_text().splitlines()]
    seeds: dict[tuple[str, ...], set[int]] = {}
    for line in lines:
        if line["method"] != "none":  # solved models have no seeds
            seeds.setdefault((line["dataset"], line["model"], line["method"]), set()).add(line["seed"])
    assert {len(own) for own in seeds.values()} == {10}
    assert "tuned equally, 10 seeds;" in told


def test_what_is_said_of_the_search() -> None:
    text = words("auto.md")
    assert f"in seconds of two ordinary cores, {Consensus.Config().budget:g} if not given" in text
    assert f"up to {NUMBERS[families.MOST_TRIALS]}" in text
    assert f"Then the {NUMBERS[families.REFINED]} families that lead are tried further" in text
    megabytes, voters = families.LARGE >> 20, NUMBERS[families.VOTERS]
    assert f"Up to {voters} trials of a family may vote, one where each takes more than {megabytes} MB" in text
    assert f"others within {1 - families.NEAR:.0%} of the best of all families" in text
    assert {family.plain for family in families.FAMILIES if "ease" in family.name} == {5}
    assert "`ease` and `sparse-ease` then with five plain penalties" in text
    (fewer,) = (each["method.items"] for each in families.FROM_HISTORY.values() if "method.items" in each)
    assert f"sums over {fewer} drawn items" in text
    assert all(
        0.2 in family.cheaper for family in families.FAMILIES if family.method == "softmax" and family.model != "sasrec"
    )
    assert families.COARSE == 0.25
    assert "an equal share of a quarter of the budget" in text
    (least,) = (family.least for family in families.FAMILIES if family.least > 1)
    assert f"(`ease`: {NUMBERS[least]} wherever the budget holds them)" in text
    assert f"with {NUMBERS[families.SEEDS]} seeds of a learned one" in text
    assert f"and nearer {NUMBERS[families.ROUNDS - 1]} times" in text
    assert f"on at most {evaluate.MOST_SAMPLED:,} users" in text
    assert f"{NUMBERS[votes.STEPS]} times, the member is added" in text
    assert f"on {NUMBERS[votes.DRAWS]} draws" in text
    assert f"Members below {votes.LEAST:.0%} are dropped" in text
    first, second, third = families.RECENCIES
    assert f"every {first}, {second} or {third} later ones" in text
    assert f"would pass its budget by more than {search.FAR_OVER - 1:.0%}, and {search.LEAST:.0f} s" in text
    assert f"better on the validation by more than {families.PAYS - 1:.0%}" in text
    assert (
        "The best of `" + "`, `".join(labels.CLEANED[:-1]) + f"` and `{labels.CLEANED[-1]}` are fitted once more"
        in text
    )


def test_what_order_is_worth_is_that_of_the_raw_results() -> None:
    lines = map(json.loads, (DOCS.parent / "benchmarks" / "order.jsonl").read_text(encoding="utf-8").splitlines())
    for one in lines:
        without = f"{one['without_ndcg@20']:.4f} | {one['p']:.2g}" if "p" in one else "– | –"
        figures = " | ".join(f"{one[name]:.4f}" for name in ("ndcg@10", "recall@10", "ndcg@20"))
        row = f"| {one['log']} | {one['device']} | {one['budget']} | {figures} | {without} |"
        assert row in (DOCS / "lab.md").read_text(encoding="utf-8")


def test_what_attention_alone_reaches_is_that_of_the_raw_results() -> None:
    lines = (DOCS.parent / "benchmarks" / "sasrec-gpu.jsonl").read_text(encoding="utf-8").splitlines()
    settings: dict[str, list[Any]] = {}
    for one in map(json.loads, lines):
        if one["who"] == "alone":
            settings.setdefault(json.dumps(one["options"]), []).append(one)
    first, *_ = settings.values()
    best = max((one for runs in settings.values() for one in runs), key=lambda one: one["valid_ndcg@20"])
    figures = [one["ndcg@10"] for one in first]
    text = " ".join((DOCS / "lab.md").read_text(encoding="utf-8").split())
    said = (
        f"NDCG@10 {best['ndcg@10']:.4f} and recall@10 {best['recall@10']:.4f} with the best of {len(settings)} settings"
    )
    said += f" by the validation, one run, and {fmean(figures):.4f} ± {stdev(figures):.4f} with those"
    assert said.replace(" 0.", " .") in text


def test_what_few_neighbours_cost_slist_is_that_of_the_raw_results() -> None:
    lines = (DOCS.parent / "benchmarks" / "slist.jsonl").read_text(encoding="utf-8").splitlines()
    default = SparseSLIST.Config().neighbours
    for one in map(json.loads, lines):
        near = "all" if one["model"] == "slist" else one.get("model.neighbours", default)
        row = f"| {one['log']} | {one['items']:,} | `{one['model']}` | {near} | {one['valid_ndcg@20']:.4f} | "
        assert f"{row}{one['cpu_seconds']:.1f} |" in (DOCS / "lab.md").read_text(encoding="utf-8")


def test_what_attributes_are_worth_is_that_of_the_raw_results() -> None:
    text, raw = (DOCS / "lab.md").read_text(encoding="utf-8"), DOCS.parent / "benchmarks" / "items.jsonl"
    groups: dict[tuple[str, str], list[Any]] = {}
    for line in map(json.loads, raw.read_text(encoding="utf-8").splitlines()):
        groups.setdefault((line["log"], line["model"]), []).append(line)
    for (log, model), draws in groups.items():
        assert [line["draw"] for line in draws] == list(range(5))
        recall = {rule: [line["recall@20"][rule] for line in draws] for rule in draws[0]["recall@20"]}
        ours, *rules = recall
        cells = [f"{fmean(recall[ours]):.4f} ± {stdev(recall[ours]):.4f}"]
        for number, rule in enumerate(rules):
            cells.append(f"{fmean(recall[rule]):.4f} ± {stdev(recall[rule]):.4f}")
            sure = [line for line in draws if line["p"][number] < 0.05]
            higher = sum(line["recall@20"][ours] > line["recall@20"][rule] for line in sure)
            cells.append(f"{higher}, {len(sure) - higher}")
        cells.append(", ".join(f"{fmean(line['others'][name] for line in draws):.4f}" for name in draws[0]["others"]))
        assert f"| {log} | `{model}` | {' | '.join(cells)} |" in text


def test_what_attributes_tell_of_noise_is_that_of_the_raw_results() -> None:
    groups: dict[tuple[str, str, float], list[Any]] = {}
    raw = (DOCS.parent / "benchmarks" / "content.jsonl").read_text(encoding="utf-8")
    for line in map(json.loads, raw.splitlines()):
        groups.setdefault((line["log"], line["rule"], line["share"]), []).append(line)
    for (log, rule, share), draws in groups.items():
        assert [line["draw"] for line in draws] == list(range(10))
        without, given = (np.array([line[kind]["auc"] for line in draws]) for kind in ("without", "with"))
        cells = [f"{one.mean():.4f} ± {one.std(ddof=1):.4f}" for one in (without, given)]
        cells += [f"{(given > without).sum()}, {(given < without).sum()}"]
        cells += [f"{compare_to(without[None], {'with': given[None]})['with'].p:.2g}"]
        row = f"| {log} | {rule} | {share:.0%} | {' | '.join(cells)} |"
        assert row in (DOCS / "lab.md").read_text(encoding="utf-8")


def test_what_a_prior_of_attributes_is_worth_is_that_of_the_raw_results() -> None:
    raw, groups = (DOCS.parent / "benchmarks" / "prior.jsonl").read_text(encoding="utf-8"), dict[Any, list[Any]]()
    for line in map(json.loads, raw.splitlines()):
        groups.setdefault((line["log"], line["of"]), []).append(line)
    for (log, of), draws in groups.items():
        assert [line["draw"] for line in draws] == list(range(5))
        what = {"recall": "recall@20 of new items", "ndcg": "NDCG@20 of others"}[of]
        values = ([line[kind] for line in draws] for kind in ("without", "prior"))
        cells = [f"{fmean(one):.4f} ± {stdev(one):.4f}" for one in values]
        sure = [line for line in draws if line["p"] < 0.05]
        higher = sum(line["prior"] > line["without"] for line in sure)
        row = f"| {log} | {what} | {' | '.join(cells)} | {higher}, {len(sure) - higher} |"
        assert row in (DOCS / "lab.md").read_text(encoding="utf-8")
