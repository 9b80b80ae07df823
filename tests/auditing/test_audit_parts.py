"""The parts of an audit on data made by hand: percentiles, folds, labels, detection, health, verdict, clean log."""

from __future__ import annotations

import csv
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from accord.auditing import crossfit
from accord.auditing.clean_log import check_target, write_clean
from accord.auditing.crossfit import Opinion, cross_fit, cut
from accord.auditing.detection import detection, recalibrated
from accord.auditing.health import health, lorenz
from accord.auditing.interaction_log import open_log
from accord.auditing.judgement import interactions_table, judge, side_table
from accord.auditing.p_real import chance_of_real, percentiles
from accord.auditing.timestamps import gaps, said
from accord.auditing.verdict import say_it
from accord.errors import InputError
from accord.evaluation import noise
from accord.evaluation.significance import Comparison
from helpers import CPU, csr, dataset, small_data


def frame(rows, *names):
    return pa.table(dict(zip(names, map(list, zip(*rows, strict=True)), strict=True)))


def random_frame(users=30, items=20, size=300, seed=0, **more):
    """Different pairs under text ids."""
    rng = np.random.default_rng(seed)
    keys = rng.choice(users * items, size, replace=False)
    columns = {"user": [f"u{key // items}" for key in keys], "item": [f"i{key % items}" for key in keys]}
    return pa.table(columns | {name: make(rng, keys) for name, make in more.items()})


def opinion_of(log, p_real, known=None):
    """An opinion of two runs that differ by a tenth."""
    runs = [{"model": "gmf", "method": "normal", "seed": 1}, {"model": "ease", "method": None, "seed": None}]
    known = np.ones(len(log), dtype=bool) if known is None else known
    both = np.clip(np.stack([p_real - 0.05, p_real + 0.05]), 0, 1)
    both[:, ~known] = np.nan
    popularity = np.bincount(log.items, minlength=len(log.data.items))[log.items] - 1
    return Opinion(runs, both, known, popularity, folds=2)


# --- percentiles and probabilities


def test_percentiles_are_shares_of_untouched_items():
    rng = np.random.default_rng(0)
    scores = rng.integers(0, 4, size=(2, 5, 8)).astype(np.float32)  # many ties
    log = csr(5, 8, [(u, i) for u in range(4) for i in rng.choice(8, 4, replace=False)])
    held = csr(5, 8, [(u, log.items[log.ptr[u] + k]) for u in (0, 2, 3) for k in (0, 2)])
    found = percentiles(lambda users: torch.from_numpy(scores)[:, users].clone(), 2, held, log, CPU, user_block=2)
    assert found.shape == (2, 6)
    for run in range(2):
        for place, (user, item) in enumerate(zip(held.users, held.items, strict=True)):
            free = np.setdiff1d(np.arange(8), log.items[log.ptr[user] : log.ptr[user + 1]])
            own, others = scores[run, user, item], scores[run, user, free]
            assert found[run, place] == pytest.approx((np.mean(others < own) + np.mean(others <= own)) / 2)


def test_who_has_every_item_has_no_percentile():
    log = csr(2, 3, [(0, 0), (0, 1), (0, 2), (1, 0)])
    found = percentiles(lambda users: torch.rand(1, len(users), 3), 1, csr(2, 3, [(0, 1), (1, 0)]), log, CPU)
    assert np.isnan(found[0, 0])
    assert not np.isnan(found[0, 1])


def test_the_rate_of_noise_is_found_without_labels():
    rng = np.random.default_rng(1)
    real = rng.random(20_000) < 0.7
    place = np.where(real, rng.beta(6, 1, 20_000), rng.random(20_000))
    p_real = chance_of_real(place)
    assert 1 - p_real.mean() == pytest.approx(0.3, abs=0.03)
    assert noise.calibration(p_real, real)["ece"] < 0.03
    order = np.argsort(place)
    assert (np.diff(p_real[order]) >= 0).all()


def test_where_all_is_noise_nothing_is_believed():
    p_real = chance_of_real(np.random.default_rng(2).random(5000))
    assert p_real.mean() < 0.1


# --- folds


def test_every_interaction_is_held_out_once_and_users_evenly():
    log = open_log(random_frame())
    folds = cut(log, 4)
    assert (np.sum([fold.held for fold in folds], 0) == 1).all()
    for fold in folds:
        assert not (fold.held & fold.valid).any()
    sizes = np.stack([np.bincount(log.users[fold.held], minlength=len(log.data.users)) for fold in folds])
    assert (sizes.max(0) - sizes.min(0)).max() <= 1


def test_no_model_judges_what_it_was_trained_on(monkeypatch):
    log = open_log(small_data())
    judged = []

    def spy(data, run, device, watch=None):
        held, trained, valid = (set(data.csr(part).keys.tolist()) for part in (data.test, data.train, data.valid))
        assert not held & trained
        assert not held & valid
        judged.append((run.config.model, run.config.method, frozenset(held)))
        return original(data, run, device, watch=watch)

    original = crossfit.train_stack
    monkeypatch.setattr(crossfit, "train_stack", spy)
    monkeypatch.setattr(crossfit, "EPOCHS", 1)
    opinion = cross_fit(log, seeds=2, folds=2, device=CPU)
    everything = set(log.csr().keys.tolist())
    for kind in {(model, method) for model, method, _ in judged}:
        parts = [held for model, method, held in judged if (model, method) == kind]
        assert set().union(*parts) == everything
    assert len({(run["model"], run["method"]) for run in opinion.runs}) >= 3
    assert opinion.p_real.shape == (len(opinion.runs), len(log))
    assert np.isfinite(opinion.p_real[:, opinion.known]).all()


def test_finished_parts_are_kept(monkeypatch, tmp_path):
    log = open_log(small_data())
    monkeypatch.setattr(crossfit, "EPOCHS", 1)
    first = cross_fit(log, seeds=1, folds=2, device=CPU, work=tmp_path)
    monkeypatch.setattr(crossfit, "train_stack", lambda *_args, **_more: pytest.fail("trained again"))
    again = cross_fit(log, seeds=1, folds=2, device=CPU, work=tmp_path)
    assert np.array_equal(first.p_real, again.p_real, equal_nan=True)


def test_somebody_must_have_two_interactions():
    data = dataset(4, 4, [(0, 0), (1, 1)], [(2, 2)], [(3, 3)])
    with pytest.raises(InputError, match="no user has two interactions"):
        cross_fit(open_log(data), device=CPU)


# --- the judgement


def test_where_no_model_can_judge_popularity_does():
    log = open_log(random_frame())
    known = np.ones(len(log), dtype=bool)
    known[:7] = False
    popularity = np.bincount(log.items, minlength=len(log.data.items))[log.items]
    found = judge(log, opinion_of(log, popularity / 40, known))
    assert (found.basis[:7] == "popularity").all()
    assert (found.basis[7:] == "models").all()
    for values in (found.p_real, found.low, found.high):
        assert np.isfinite(values).all()
        assert ((values >= 0) & (values <= 1)).all()
    assert ((found.low <= found.p_real) & (found.p_real <= found.high)).all()
    alike = known & (np.floor(np.log2(popularity)) == np.floor(np.log2(popularity[0])))
    assert found.p_real[0] == pytest.approx(found.p_real[alike].mean())


def test_rates_of_users_are_means_over_their_interactions():
    log = open_log(random_frame())
    found = judge(log, opinion_of(log, np.random.default_rng(0).random(len(log))))
    table = side_table(found, "user").to_pylist()
    assert sum(row["interactions"] for row in table) == len(log)
    for row in table[:5]:
        own = found.p_real[np.asarray(log.rows.users) == row["user"]]
        assert row["noise_rate"] == pytest.approx(1 - own.mean())
        assert row["suspects"] == np.sum(own < 0.5)
        assert row["low"] <= row["p_real"] <= row["high"]


# --- what the values say


def test_labels_of_ratings_and_of_zero_and_one():
    log = open_log(random_frame(rating=lambda rng, keys: rng.integers(1, 6, len(keys))))
    values = log.rows.column("value")
    assert (log.labels.real_rule, log.labels.noise_rule, log.clean) == ("value>=4", "value<=2", "value>=4")
    assert np.array_equal(log.labels.known, values != 3)
    assert np.array_equal(log.labels.real[log.labels.known], values[log.labels.known] >= 4)
    assert (log.data.test.column("value") >= 4).all()

    log = open_log(random_frame(label=lambda rng, keys: rng.integers(0, 2, len(keys))))
    assert log.labels.known.all()
    assert np.array_equal(log.labels.real, log.rows.column("value") == 1)


def test_a_clean_rule_is_the_label():
    log = open_log(random_frame(dwell=lambda rng, keys: rng.exponential(10, len(keys))), clean="dwell>10")
    assert np.array_equal(log.labels.real, log.rows.column("value") > 10)
    assert open_log(random_frame(dwell=lambda rng, keys: rng.exponential(10, len(keys)))).labels is None
    assert open_log(random_frame()).labels is None


def test_detection_is_that_of_noise_with_an_interval():
    log = open_log(random_frame(50, 40, 1200, rating=lambda rng, keys: rng.integers(1, 6, len(keys))))
    values, known = log.rows.column("value"), log.labels.known
    p_real = np.clip(np.round(values / 6 + np.random.default_rng(0).normal(0, 0.2, len(values)), 1), 0, 1)  # with ties
    found = judge(log, opinion_of(log, p_real))
    said_of, calibrated = detection(found, log.labels)
    scores = {row["name"]: row for row in said_of["scores"]}
    assert list(scores)[:2] == ["audit", "popularity"]
    expected = noise.detection(found.p_real[known], log.labels.real[known])
    assert scores["audit"]["auc"] == pytest.approx(expected["auc"])
    assert scores["audit"]["average_precision"] == pytest.approx(expected["average_precision"])
    assert scores["audit"]["auc_low"] < scores["audit"]["auc"] < scores["audit"]["auc_high"]
    popular = noise.auc(found.opinion.popularity[known], log.labels.real[known])
    assert said_of["gain"]["difference"] == pytest.approx(expected["auc"] - popular)
    assert said_of["gain"]["low"] > 0
    assert said_of["reliability"]["after"]["ece"] < said_of["reliability"]["before"]["ece"]
    assert len(calibrated) == len(log)


def test_a_users_own_values_do_not_calibrate_them():
    log = open_log(random_frame(50, 40, 1200, label=lambda rng, keys: rng.integers(0, 2, len(keys))))
    p_real = np.random.default_rng(0).random(len(log))
    before = recalibrated(p_real, log, log.labels)
    own = log.users == log.users[0]
    log.labels.real[own] = ~log.labels.real[own]
    after = recalibrated(p_real, log, log.labels)
    assert np.array_equal(before[own], after[own])
    assert not np.array_equal(before[~own], after[~own])


# --- health


def found_in(log):
    return {finding["name"]: finding for finding in health(log)["findings"]}


def test_duplicates_are_counted_with_examples():
    table = random_frame()
    twice = pa.concat_tables([table, table.slice(0, 3), table.slice(0, 1)])
    finding = found_in(open_log(twice))["duplicates"]
    assert (finding["level"], finding["count"], finding["of"]) == ("notice", 4, 304)
    user, item = table.slice(0, 1).to_pylist()[0].values()
    assert finding["examples"][0] == f"{user} · {item}: 3 times"
    assert found_in(open_log(table))["duplicates"]["level"] == "fine"


def test_pairs_in_train_and_test_are_serious():
    data = dataset(4, 4, [(0, 0), (0, 1), (1, 1), (2, 2)], [(3, 3)], [(0, 0), (1, 2)])
    finding = found_in(open_log(data))["shared"]
    assert (finding["level"], finding["count"], finding["examples"]) == ("serious", 1, ("0 · 0",))


def test_bots_and_people_with_everything():
    rng = np.random.default_rng(0)
    rows = [(f"u{u}", f"i{i}") for u in range(60) for i in rng.choice(400, 6, replace=False)]
    rows += [("robot", f"i{i}") for i in range(390)]
    found = found_in(open_log(frame(rows, "user", "item")))
    assert found["bots"]["count"] == 1
    assert found["bots"]["examples"][0].startswith("robot: 390 interactions (65 times")
    assert found["nearly_all"]["level"] == "serious"
    assert found["nearly_all"]["examples"][0].startswith("robot: 390 of ")
    ordinary = found_in(open_log(random_frame()))
    assert ordinary["bots"]["level"] == ordinary["nearly_all"]["level"] == "fine"


def test_columns_that_tell_nothing():
    log = open_log(random_frame(rating=lambda _rng, keys: np.full(len(keys), 3.0)))
    assert found_in(log)["constant_value"]["examples"] == ("3",)
    assert "no_columns" in found_in(open_log(random_frame()))
    rows = [(f"u{n}", f"i{n % 20}") for n in range(100)]
    assert found_in(open_log(frame(rows, "user", "item"), split="random"))["unique_user"]["level"] == "serious"


def test_gaps_and_odd_times():
    day = 86_400
    start = 1_600_000_000

    def with_gap(_rng, keys):
        return start + np.sort(keys) * 10 + np.where(np.arange(len(keys)) > 150, 90 * day, 0)

    found = found_in(open_log(random_frame(time=with_gap), split="random"))
    assert found["gaps"]["count"] == 1
    assert found["gaps"]["examples"][0].startswith("2020-09-")
    assert "odd_times" not in found

    def in_milliseconds(rng, keys):
        return 1000 * (start + rng.integers(0, day, len(keys)))

    found = found_in(open_log(random_frame(time=in_milliseconds), split="random"))
    assert found["odd_times"]["count"] == 300
    assert gaps(np.arange(1000.0)) == []
    assert said(5.0, np.arange(10.0)) == "5"


def test_a_small_log_is_called_small():
    assert found_in(open_log(random_frame()))["small"]["count"] == 300
    assert "small" not in found_in(open_log(random_frame(50, 40, 1200)))


def test_the_lorenz_curve():
    curve = lorenz(np.array([1, 1, 2, 4]))
    assert curve["items"] == [0, 0.25, 0.5, 0.75, 1]
    assert curve["interactions"] == [0, 0.125, 0.25, 0.5, 1]


# --- the verdict


@pytest.mark.parametrize(
    ("low", "high", "p", "helps", "words"),
    [
        (0.01, 0.03, 0.001, True, "Denoising helps here: DeCA(p)"),
        (-0.01, 0.03, 0.2, False, "does not help here, as far as"),
        (-0.03, -0.01, 0.001, False, "it harms"),
        (0.01, 0.03, 0.2, False, "does not help here, as far as"),
    ],
)
def test_the_verdict_in_words(low, high, p, helps, words):
    middle = (low + high) / 2
    means = {"popularity": 0.05, "ease": 0.15, "gmf + normal": 0.2, "gmf + deca": 0.1, "gmf + deca-p": 0.2 + middle}
    tests = {name: Comparison(middle, low, high, p, p, 0.1, 0.1) for name in ("gmf + deca", "gmf + deca-p")}
    found, sentence = say_it(means, tests)
    assert found is helps
    assert words in sentence
    assert "EASE" not in sentence
    assert "Simple EASE" in say_it(means | {"ease": 0.3}, tests)[1]


# --- the clean log


@pytest.fixture
def judged():
    """A log with a repeated pair, an id that looks like a number and a column that is not ours; and its judgement."""
    table = random_frame(note=lambda _rng, keys: [f"so, it's {key}" for key in keys])
    table = table.set_column(0, "user", pa.array([f"00{name[1:]}" for name in table.column("user").to_pylist()]))
    log = open_log(pa.concat_tables([table, table.slice(0, 1)]))
    p_real = np.linspace(0, 1, len(log))
    return log, interactions_table(judge(log, opinion_of(log, p_real)), None)


def believed(table):
    """p_real by pair."""
    return {(row["user"], row["item"]): row["p_real"] for row in table.to_pylist()}


@pytest.mark.parametrize("name", ["clean.csv", "clean.tsv", "clean.parquet"])
def test_a_clean_log_keeps_the_columns(judged, tmp_path, name):
    log, table = judged
    path = tmp_path / name
    done = write_clean(path, log, table, drop_below=0.25)
    p_real = believed(table)
    kept = [row for row in log.columns.to_pylist() if p_real[row["user"], row["item"]] >= 0.25]
    if name.endswith("parquet"):
        assert pq.read_table(path).to_pylist() == kept
    else:
        with path.open(newline="") as file:
            assert list(csv.DictReader(file, delimiter="\t" if name.endswith("tsv") else ",")) == kept
    assert (done.rows, done.dropped) == (len(kept), 301 - len(kept))


def test_weights_keep_every_row(judged, tmp_path):
    log, table = judged
    done = write_clean(tmp_path / "weighted.parquet", log, table, weights=True)
    written = pq.read_table(tmp_path / "weighted.parquet")
    assert done.rows == written.num_rows == 301
    assert written.column_names == ["user", "item", "note", "weight"]
    weight = believed(table)
    for row in written.to_pylist():
        assert row["weight"] == weight[row["user"], row["item"]]


def test_a_judgement_of_another_log_is_refused(judged, tmp_path):
    log, table = judged
    with pytest.raises(InputError, match="another log"):
        write_clean(tmp_path / "clean.csv", log, table.slice(0, 100))


@pytest.mark.parametrize(
    ("path", "below", "weights", "said_of"),
    [("c.xlsx", None, False, "must end in"), ("c.csv", 0.5, True, "not both"), ("c.csv", 1.5, False, "probability")],
)
def test_what_cannot_be_written(tmp_path, path, below, weights, said_of):
    with pytest.raises(InputError, match=said_of):
        check_target(tmp_path / path, below, weights)


def test_a_split_that_came_with_the_data_is_kept(tmp_path):
    log = open_log(small_data())
    assert log.was_split
    assert len(log) == 700
    assert np.bincount(log.part).tolist() == [560, 70, 70]
    assert set(log.columns.column("part").to_pylist()) == {"train", "valid", "test"}
    json.dumps(health(log))


def test_a_validation_left_inside_the_test_is_there_once():
    data = dataset(3, 4, [(0, 0), (1, 1), (2, 2)], [(0, 1)], [(0, 1), (1, 2)], test_noisy=[(0, 1), (1, 2), (2, 3)])
    log = open_log(data)
    assert len(log) == len(log.raw) == 6
    assert np.bincount(log.part).tolist() == [3, 1, 2]
