"""What labels are worth by their share: drawn alike everywhere, kept as they come."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import accord
from accord.comparing.results import keep_lines
from accord.errors import InputError
from accord.evaluation.evaluate import Relevant
from accord.evaluation.noise import auc
from accord.posteriors.estimate import estimate
from accord.protocol import CORRECTED
from accord_lab.labels import shares
from accord_lab.labels.draws import drawn_labels, with_train_labels, without_labels
from accord_lab.leaderboards.oracle import evaluate_weighted_ease
from helpers import small_data, timed_data


@pytest.fixture(autouse=True)
def _two_penalties(monkeypatch):
    monkeypatch.setattr(shares, "PENALTIES", (20, 300))


def test_one_line_per_draw_and_none_twice(data, tmp_path):
    said = []
    truth = shares.Truth.of(data, "value>=1")
    lines = shares.run(data, [0.5], ["random"], 1, tmp_path, "cpu", 0.01, said.append, truth)
    (line,) = lines
    assert line["truth_auc"] == line["auc"]
    assert line["used"]
    assert line["auc"] > line["label_free_auc"] - 0.05
    assert line["auc"] > line["popularity_auc"]
    assert 0 < line["ndcg@20"] <= 1
    assert line["p_ease"] < 1, "of a test between different lists"
    again = shares.run(data, [0.5], ["random"], 1, tmp_path, "cpu", 0.01, lambda text: pytest.fail(text))
    assert again == lines
    made, _ = shares.tables(lines)
    assert made.rows[0][:3] == (f"{data.name}, auto in 0.01 s", "50%", f"{line['auc']:.4f}")
    assert made.rows[0][6] == f"{line['ndcg@20']:.4f}"
    assert line["ece"] < 0.2
    bare = without_labels(data)
    tried = [accord.fit(bare, "ease", options={"model.l2": l2}, device="cpu", refit=False) for l2 in shares.PENALTIES]
    best = max(tried, key=lambda one: one.metrics["runs"][0]["valid_ndcg@20"])
    assert line["ease"] == best.metrics["mean"]["ndcg@20"]
    assert line["penalties"][0] == best.run.config.model_options["l2"]
    popular = accord.fit(bare, "popularity", device="cpu", refit=False)
    assert shares._p(popular.evaluation, best.evaluation) < 0.05 < shares._p(best.evaluation, best.evaluation) == 1


def test_a_log_without_a_validation_is_measured_too(data, tmp_path):
    data = replace(data, valid=data.valid.filter(np.zeros(len(data.valid), dtype=bool)), valid_clean=None)
    (line,) = shares.run(data, [0.1], ["users"], 1, tmp_path, "cpu", 0.01, lambda _: None)
    assert line["labels"] == np.isfinite(drawn_labels(data, 0.1, "users", 0)).sum()
    assert 0 < line["ndcg@20"] <= 1


def test_a_log_with_times_is_judged_as_auto_is_there_with_the_validation_in_the_histories(tmp_path):
    data = timed_data(accord.simulate(users=60, items=50, interactions=600, seed=2).dataset.train)
    (line,) = shares.run(data, [0.5], ["random"], 1, tmp_path, "cpu", 0.01, lambda _: None)
    assert line["used"]
    bare = without_labels(data)
    alone = accord.fit(bare, options={"model.budget": 0.01}, device="cpu", refit=False)
    assert (
        line["consensus"] == alone.metrics["mean"]["ndcg@20"] != alone.metrics["before_validation"]["mean"]["ndcg@20"]
    )
    truth = shares.Truth.of(data)
    both, test = data.before_test(data.valid), Relevant.of_test(data, CORRECTED)
    counts = np.concatenate([truth.label, truth.valid])
    told = [evaluate_weighted_ease(both, counts, l2, test, CORRECTED, [20]) for l2 in shares.PENALTIES]
    assert line["ease_told"] in [shares.ndcg_of(one) for one in told]

    drawn = drawn_labels(data, 0.5, "random", 0)
    whole = with_train_labels(bare, drawn).before_test(data.valid.without("label")).training_csr()
    found = estimate(whole, whole.columns["label"])
    p_real = dict(zip(zip(whole.users.tolist(), whole.items.tolist(), strict=True), found.p_real, strict=True))
    pairs = zip(*(part.tolist() for part in data.rows(data.train)), strict=True)
    scores, rest = np.array([p_real[pair] for pair in pairs]), np.isnan(drawn)
    assert line["auc"] == auc(scores[rest], truth.label[rest] > 0.5), "of training interactions alone"


def line_of(by="random", **more):
    line = dict.fromkeys(("auc", "label_free_auc", "popularity_auc", "ece", "consensus", "ease", "ease_told"), 0.5)
    line |= {
        "dataset": "d",
        "by": by,
        "share": 0.05,
        "used": True,
        "budget": shares.BUDGET,
        "p_ease": 0.001,
        "p_consensus": 0.001,
    }
    return line | more


def test_mean_and_sd_over_draws():
    (made,) = shares.tables([line_of(**{"ndcg@20": 0.6}), line_of(**{"ndcg@20": 0.8})])
    assert made.rows[0][1] == "5%"
    assert made.rows[0][6] == "0.7000 ± 0.1414"
    assert made.rows[0][-1] == "2 of 2"


def test_hard_draws_say_whether_they_harm():
    lines = [
        line_of("wrong", **{"ndcg@20": 0.4, "auc": 0.45}),
        line_of("wrong", **{"ndcg@20": 0.4, "p_consensus": 0.2}),
        line_of("few", **{"ndcg@20": 0.5, "used": False}),
    ]
    (made,) = shares.tables(lines)
    assert made.rows[0][1:3] == ("5%, one of ten of them wrong", "2 of 2")
    assert made.rows[0][-1] == "1 of 2"
    assert made.rows[1][1:3] == ("20 in all", "0 of 1")


def test_ease_on_real_ones_recommends_nobody_what_they_have(data):
    dropped = replace(data, train=data.train.filter(data.train.column("label") > 0.5))
    told, other = (shares.ndcg_of(shares._ease_on_real(one, shares.Truth.of(one))[0]) for one in (data, dropped))
    assert told > other, "noise takes no places of lists"


def test_another_rule_judges_besides():
    lines = [
        line_of(truth="v>=4; v<=2", truth_auc=auc, truth_label_free_auc=0.6, truth_popularity_auc=0.55)
        for auc in (0.7, 0.8)
    ]
    lines = [line | {"ndcg@20": 0.5} for line in lines]
    _, made = shares.tables(lines)
    assert made.title == "Noise AUC of v>=4 against v<=2"
    assert made.rows == (("d", "5%", "2", "0.7500 ± 0.0707", "0.6000 ± 0.0000", "0.5500 ± 0.0000"),)


def test_the_share_of_what_ease_told_everything_gains():
    lines = [line_of(ease=0.1, ease_told=0.3, **{"ndcg@20": reached}) for reached in (0.2, 0.3)]
    (made,) = shares.tables(lines)
    assert made.rows[0][made.columns.index("share of its gain")] == "75%"
    (made,) = shares.tables([line | {"ease_told": 0.05} for line in lines])
    assert made.rows[0][made.columns.index("share of its gain")] == "", "where it gains nothing there is no share"


def test_curves_are_of_several_shares_at_the_usual_budget():
    two = [line_of(share=share, **{"ndcg@20": value}) for share, value in ((0.01, 0.3), (0.05, 0.5))]
    (figure,) = shares.figures([*two, line_of(share=0.1, budget=20.0)])
    assert figure.file == f"labels-{two[0]['dataset']}.svg"
    for said in ("labelled, %", "noise AUC", "NDCG@20", "without labels", "EASE on real ones", ">1<", ">5<"):
        assert said in figure.svg
    assert ">10<" not in figure.svg, "another budget is another curve"
    assert "all labels of some users" not in figure.svg, "nothing was drawn so"
    (both,) = shares.figures([*two, two[0] | {"by": "users", "share": 0.05}])
    for share in (">1<", ">5<"):
        assert share in both.svg, "shares of all curves are named, not of the last alone"
    assert shares.figures(two[:1]) == []


def test_data_without_labels_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"has no labels to draw from; give --labels, as 'rating>=4'"):
        shares.run(small_data(), [0.1], ["random"], 1, tmp_path)


def test_the_committed_page_is_what_its_raw_lines_say(tmp_path):
    folder = Path(__file__).parents[3] / "docs" / "reproduction" / "labels"
    keep_lines(tmp_path / "labels.jsonl", shares.read_lines(folder / "labels.jsonl"))
    shares.render(tmp_path)
    assert (tmp_path / "labels.md").read_text() == (folder / "labels.md").read_text()


def test_what_is_said_of_the_clean_members_is_what_their_raw_lines_say():
    docs = Path(__file__).parents[3] / "docs"
    raw = (docs / "reproduction" / "labels" / "clean-members.jsonl").read_text().splitlines()
    lines = [json.loads(line) for line in raw]
    without_test = [line for line in lines if line["part"] != "test"]
    better = sum(line["now"] > line["before"] for line in without_test)
    gain = np.mean([line["now"] / line["before"] - 1 for line in without_test])
    said = " ".join((docs / "records" / "labels.md").read_text().split())
    assert f"better in {better} of these {len(without_test)} cases, by {100 * gain:.1f}% of NDCG@20 on average" in said
    tests = {line["dataset"]: line for line in lines if line["part"] == "test" and line["share"] == 0.05}
    ml, modcloth, demo = (
        [f"{tests[name][when]:.4f}"[1:] for when in ("now", "before")] for name in ("ml-100k", "modcloth", "demo")
    )
    assert f"it had {ml[0]} on ml-100k where it had {ml[1]} before" in said
    assert f"{modcloth[0]} and {modcloth[1]} on modcloth, {demo[0]} and {demo[1]} on demo" in said


def test_what_is_said_of_the_scale_of_factors_is_what_its_raw_lines_say():
    docs = Path(__file__).parents[3] / "docs"
    raw = (docs / "reproduction" / "labels" / "p-real.jsonl").read_text().splitlines()
    lines = [line for line in map(json.loads, raw) if line["used_before"] or line["used_now"]]
    gains = np.array([line["auc_now"] - line["auc_before"] for line in lines])
    few = gains[[line["share"] == 0.01 for line in lines]].mean()
    said = " ".join((docs / "records" / "labels.md").read_text().split())
    assert f"of {len(lines)} cases in which labels are used before or after, {(gains > 0).sum()} have a higher" in said
    mean, few = (f"{one:.4f}"[1:] for one in (gains.mean(), few))
    assert f"and {(gains < 0).sum()} a lower one, by {mean} on average and by {few} with 1% of the labels" in said


def test_what_is_said_of_the_target_of_mf_is_what_its_raw_lines_say():
    docs = Path(__file__).parents[3] / "docs"
    raw = (docs / "reproduction" / "labels" / "mf-target.jsonl").read_text().splitlines()
    gains = np.array([100 * (line["target"] / line["counted"] - 1) for line in map(json.loads, raw)])
    said = " ".join((docs / "records" / "labels.md").read_text().split())
    better, worse = (gains > 0).sum(), (gains < 0).sum()
    assert f"of {len(gains)} cases {better} recommend better and {worse} worse, by {gains.mean():.1f}% of" in said
    assert f"on average, from {gains.min():.1f}% to {gains.max():+.1f}%" in said


def test_what_is_said_of_what_was_tried_is_what_its_raw_lines_say():
    docs = Path(__file__).parents[3] / "docs"
    raw = (docs / "reproduction" / "labels" / "tried.jsonl").read_text().splitlines()
    tried = {}
    for line in map(json.loads, raw):
        tried.setdefault(line["tried"], []).append(line)
    chosen, without_noise, as_it_is, places, runs, sixth, *families = list(tried.values())[:12]
    stars, twice, power, unseen, own, softened = list(tried.values())[12:]
    said = " ".join((docs / "records" / "labels.md").read_text().split())

    def gains(lines, name="chosen"):
        return 100 * np.array([line[name] / line["usual"] - 1 for line in lines])

    mean, worse = gains(chosen).mean(), (gains(chosen) < 0).sum()
    assert f"by {abs(mean):.1f}% on average over {len(chosen)} cases and makes it worse in {worse}" in said
    assert abs(mean) < 0.05, "its sign is not said"
    known, best = (gains(chosen, name).mean() for name in ("chosen_by_all_labels", "best_on_test"))
    assert f"would gain {known:.1f}%, and the best that there is to choose {best:.1f}%" in said
    found = gains(without_noise)
    few = gains([line for line in without_noise if line["share"] == 0.05]).mean()
    assert f"by {found.mean():+.1f}% on average over {len(found)} cases, from {found.min():.1f}%" in said
    assert f"to {found.max():+.1f}%, and by {few:.1f}% with 5% of the labels" in said
    mean, worse = gains(as_it_is).mean(), (gains(as_it_is) < 0).sum()
    assert abs(mean) < 0.05
    assert (
        f"of the vote by {abs(mean):.1f}% on average over {len(as_it_is)} cases and makes it worse in {worse}" in said
    )
    for lines, between in ((places, " and makes it"), (runs, ","), (sixth, ",")):
        mean, worse = gains(lines).mean(), (gains(lines) < 0).sum()
        assert f"by {mean:+.1f}% on average over {len(lines)} cases{between} worse in {worse}" in said
    assert {len(lines) for lines in families} == {8}
    assert "over 8 cases each" in said
    *ones, five = (f"{gains(lines).mean():+.1f}%" for lines in families)
    for name, gain in zip(("NeuMF", "CDAE by", "LightGCN", "MF with T-CE", "and GMF"), ones, strict=True):
        assert f"{name} {gain}" in said
    assert f"all five of them {five}" in said

    risen, of_truth = (
        f"{np.mean([line[f'{kind}_stars'] - line[kind] for line in stars]):.4f}"[1:] for kind in ("auc", "truth_auc")
    )
    assert (
        f"In {len(stars)} cases AUC is higher by {risen} on average by the rule of the labels, and by {of_truth}"
        in said
    )
    found = gains(stars)
    assert f"NDCG@20 changes by {found.mean():+.1f}% and is worse in {(found < 0).sum()}" in said

    def by_part(lines):
        parts = [[line for line in lines if kind in line["part"]] for kind in ("at random", "by time")]
        return [f"by {gains(part).mean():+.1f}%" for part in parts], [len(part) for part in parts]

    (first, second), (random, timed) = by_part(twice)
    assert f"{first} on average over {random} cases split at random and {second} over {timed} split by time" in said
    (first, second), (random, timed) = by_part(power)
    assert f"to the power of 1.5 {first} over {random} and {second} over {timed}" in said
    (first, second), (random, timed) = by_part(unseen)
    assert f"{first} on average over {random} cases split at random and {second} over {timed} split by time" in said
    assert len({line["split"].split(",")[0] for line in unseen if "by time" in line["part"]}) == 5, "five parts"
    mean, worse = gains(own).mean(), (gains(own) < 0).sum()
    assert f"by {mean:+.1f}% on average over {len(own)} cases, worse in {worse}" in said
    assert len(softened) == len(own)
    assert f"not its label: by {gains(softened).mean():+.1f}%, worse in {(gains(softened) < 0).sum()}" in said


def test_how_far_a_share_of_few_labels_is_off_is_as_the_page_says():
    docs = Path(__file__).parents[3] / "docs"
    data = accord.load("demo", labels="value>=1")
    known, off, sizes = data.train.column("label"), [], []
    for draw in range(10):
        drawn = drawn_labels(data, 0.01, "random", draw)
        given = ~np.isnan(drawn)
        off.append(abs(drawn[given].mean() - known[~given].mean()))
        sizes.append(given.sum())
    lines = shares.read_lines(docs / "reproduction" / "labels" / "labels.jsonl")
    errors = [one["ece"] for one in lines if (one["dataset"], one["by"], one["share"]) == ("demo", "random", 0.01)]
    said = " ".join((docs / "records" / "labels.md").read_text().split())
    share, error = (f"{np.mean(one):.3f}"[1:] for one in (off, errors))
    assert f"{np.mean(sizes):.0f} each on average, the share of real ones alone is off by {share}" in said
    assert f"of a calibration error of {error}." in said
