"""What a search tries follows from the log's size and the budget alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from accord.consensus.families import (
    FAMILIES,
    JUDGE_SECONDS,
    MOST_TRIALS,
    ORDER_SECONDS,
    SEEDS,
    WHOLE,
    Family,
    Range,
    Switch,
    halton,
    plan_search,
)
from accord.methods import METHODS
from accord.models import MODELS
from accord.models.base import Shape

SMALL = Shape(943, 1_611, 80_000, 20_000_000, 15_000_000)
MILLIONS = Shape(1_000_000, 100_000, 10_000_000, 500_000_000, 5_000_000_000)


def test_a_range_is_filled_evenly_however_far_it_goes():
    shares = [halton(number, 2) for number in range(1, 8)]
    assert sorted(shares) == [number / 8 for number in range(1, 8)]
    assert halton(1, 3) == pytest.approx(1 / 3)
    assert Range(10, 1000, by_logarithm=True).at(0.5) == 100
    assert Range(0, 0.6).at(0.5) == 0.3
    assert Range(16, 128, by_logarithm=True, whole=True).at(0.5) == 45


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_every_trial_is_one_that_the_model_takes(family):
    members = family.trials(family.most_trials)
    assert len(members) == (MOST_TRIALS + family.plain if family.ranges else 1)
    around = family.refined(members[-1])
    assert len({str(member.options) for member in around}) == len(around) == (MOST_TRIALS - 1 if family.ranges else 0)
    assert len(family.refined(members[0])) == len(around), "its usual options may lead"
    assert {(one.method, one.seeds) for one in [*members, *around]} == {(family.method, family.seeds)}
    for member in [*members, *around]:
        for room, kind in ("model", MODELS[family.model]), ("method", METHODS[family.method or "normal"]):
            options = {name.partition(".")[2]: value for name, value in member.options.items() if room + "." in name}
            kind.Config(**options)
    assert len({str(member.options) for member in members}) == len(members)
    assert members[:3] == family.trials(3), "more trials are the same ones and others"
    closer = family.refined(members[-1], closer=1)
    for name, span in family.ranges.items():
        middle = span.share(members[-1].options[name])
        assert all(abs(span.share(one.options[name]) - middle) < 0.2 for one in around), "near the best"
        assert all(abs(span.share(one.options[name]) - middle) < 0.1 for one in closer), "and nearer"
    assert len(closer) == len(around)
    assert len({str(member.options) for member in [*around, *closer]}) == len(around) + len(closer)
    shares = [[span.share(one.options[name]) for name, span in family.ranges.items()] for one in members[-7:]]
    apart = np.corrcoef(np.array(shares).T) if len(family.ranges) > 1 else np.eye(1)
    assert (np.abs(apart) < 0.9).sum() == apart.size - len(apart), "each option varies whatever the others are"


def test_a_switch_is_off_and_on():
    assert [Switch(0, 1).at(share) for share in (0.0, 0.4, 0.6, 1.0)] == [False, False, True, True]
    assert [Switch(0, 1).share(value) for value in (False, True)] == [0, 1]


def test_the_best_of_a_learned_family_is_averaged_over_seeds_once():
    by_name = {family.name: family for family in FAMILIES}
    best = by_name["mf + softmax"].trials(2)[-1].model_copy(update={"epochs": 7})
    (averaged,) = by_name["mf + softmax"].averaged(best)
    assert (averaged.options, averaged.seeds, averaged.epochs) == (best.options, SEEDS, None)
    assert by_name["mf + softmax"].averaged(averaged) == []
    assert by_name["ease"].averaged(by_name["ease"].member()) == []


def test_ease_is_tried_with_plain_penalties_first():
    (family,) = (family for family in FAMILIES if family.name == "ease")
    first, *others = (member.options for member in family.trials(13))
    assert first == {}
    assert [set(options) for options in others[:5]] == [{"model.l2"}] * 5
    penalties = sorted(options["model.l2"] for options in others[:5])
    assert penalties[0] < 30
    assert penalties[-1] > 500
    assert all(len(options) == 3 for options in others[5:])


def test_ease_has_its_penalties_wherever_the_budget_holds_them():
    large = Shape(17_000, 4_400, 180_000, 12_000_000, 30_000_000, 12_000)
    plan = plan_search(large, 120)
    (count,) = (n for family, n in zip(plan.families, plan.counts, strict=True) if family.name == "ease")
    assert count == 6
    assert plan.seconds <= 120


def test_a_softmax_starts_from_factors_where_its_epochs_are_dear():
    large = Shape(17_000, 16_000, 58_000, 4_700_000, 1_700_000, 4_300)
    for shape, start in (SMALL, None), (large, "factors"):
        families = [family for family in plan_search(shape, 120).families if family.method == "softmax"]
        assert {family.options.get("model.start") for family in families} == {start}


def test_a_softmax_sums_over_fewer_items_where_all_would_take_too_long():
    for shape, items in (SMALL, None), (Shape(200_000, 6_600, 420_000, 2_000_000, 10**9), 512):
        (family,) = (family for family in plan_search(shape, 120).families if family.name == "cdae + softmax")
        assert family.options.get("method.items") == items


def test_a_budget_decides_what_is_tried():
    plenty = plan_search(SMALL, 400, in_order=True)
    assert plenty.families == FAMILIES
    assert all(1 <= count <= family.most_trials for family, count in zip(FAMILIES, plenty.counts, strict=True))
    assert plenty.counts[:3] == (MOST_TRIALS, MOST_TRIALS + 5, MOST_TRIALS + 5)
    assert plenty.left_out == ()
    for has_times in False, True:
        plan = plan_search(SMALL, 400, has_times=has_times, in_order=True)
        parts = zip(plan.families, plan.counts, strict=True)
        assert plan.seconds == pytest.approx(sum(family.seconds(SMALL, count, has_times) for family, count in parts))
        assert plan.seconds <= 400
    without = [family for family in FAMILIES if family.model not in ("next-knn", "slist", "sparse-slist", "sasrec")]
    assert [*plan_search(SMALL, 400).families] == without, "as nothing says what came last"
    little = plan_search(SMALL, 10)
    assert little.seconds <= 10
    assert sum(little.counts) < sum(plenty.counts)
    assert {"popularity", "ease"} <= {family.model for family in little.families}
    assert all("of a budget of 10 s" in sentence for sentence in little.left_out)
    assert plan_search(SMALL, 10) == little


def test_attention_is_tried_where_a_log_is_small_or_a_gpu_trains():
    large = Shape(6_040, 3_700, 988_000, 400_000_000, 2_000_000_000, 6_040)
    for shape, dim in (SMALL, 32), (large, None), (replace(large, gpu=True), 128):
        tried = {family.model: family for family in plan_search(shape, 120, has_times=True, in_order=True).families}
        assert ("sasrec" in tried) == (dim is not None)
        assert dim is None or tried["sasrec"].options["model.dim"] == dim


def test_a_search_says_what_it_tries_and_how_long_that_takes():
    found = plan_search(SMALL, 10)
    named, _, rest = found.sentence(10).removeprefix("auto tries ").partition(": ")
    assert named.split(", ") == [family.name for family in found.families]
    total = sum(len(trials) for trials in found.trials())
    assert rest == f"{total} configurations, estimated {found.seconds:.0f} s of 10 s, then more of the best"
    sentence = "auto tries popularity: 1 configuration, estimated 1 s of 0.5 s, then more of the best"
    assert plan_search(SMALL, 1e-9).sentence(0.5) == sentence


def test_what_labels_add_is_part_of_the_budget():
    without, found = plan_search(SMALL, 30), plan_search(SMALL, 30, labels=2_000)
    assert without.labels == 0
    assert found.labels > 2, "they are learned from twice"
    parts = zip(found.families, found.counts, strict=True)
    assert found.seconds == pytest.approx(found.labels + sum(family.seconds(SMALL, count) for family, count in parts))
    assert found.seconds <= 30
    assert sum(found.counts) < sum(without.counts), "what they take is not left for others"
    assert f"estimated {found.seconds:.0f} s ({found.labels:.0f} s of it for the labels) of 30 s" in found.sentence(30)
    assert plan_search(SMALL, 30, has_times=True, labels=2_000).labels > found.labels, "and three times where times ask"
    little = plan_search(SMALL, 3, labels=100_000)
    assert little.seconds > 3, "which is said"
    assert len(little.families) > 2, "half of the budget is for the search"
    assert "s of a budget of 3 s, of which the labels take 2 s." in little.left_out[-1]
    ials = next(family for family in FAMILIES if family.name == "ials")
    needs = ials.seconds(SMALL, 1) + 2 * ials.trial_seconds(SMALL, ials.member())
    assert f"ials is not tried: it would take about {needs:.0f} s of" in " ".join(little.left_out)


def test_something_is_tried_whatever_the_budget():
    least = plan_search(SMALL, 1e-9)
    assert [family.model for family in least.families] == ["popularity"]
    assert least.counts == (1,)


def test_what_does_not_fit_is_left_out_with_its_reason():
    found = plan_search(MILLIONS, 120)
    sentences = " ".join(found.left_out)
    assert "ease is not tried: 100,000 items are too many for it." in sentences
    assert "graph-filter is not tried: 100,000 items are too many for it." in sentences
    assert found.seconds <= 120
    enough = plan_search(MILLIONS, 100_000)
    assert "sparse-ease" in {family.model for family in enough.families}, "whatever the number of items"


def test_a_family_that_takes_more_memory_than_an_ordinary_machine_has_is_left_out():
    large = Family("ease").too_large(Shape(10, 24_000, 100, 1000, 1000))
    assert large is not None
    assert large == "it would take 6.4 GiB of memory, and at most 6 are allowed"
    for memory, fits in (0, False), (18 * 2**30, False), (24 * 2**30, True):  # of which a third may be taken
        planned = plan_search(Shape(10, 24_000, 100, 1000, 1000), 10**6, memory=memory)
        assert ("ease" in {family.name for family in planned.families}) == fits
    assert Family("ease").too_large(Shape(10, 24_000, 100, 1000, 1000), 8 * 2**30) is None
    assert Family("ease").too_large(Shape(10, 15_000, 100, 1000, 1000)) is None


def test_training_by_pairs_takes_longer_than_the_budget_from_a_million_interactions_on():
    found = plan_search(Shape(6_040, 3_500, 1_000_000, 250_000_000, 2_000_000_000), 120)
    sentences = " ".join(found.left_out)
    assert "mf + normal is not tried: it would take about" in sentences
    assert "gmf + deca-p is not tried: it would take about" in sentences
    assert "mf + softmax" in {family.name for family in found.families}, "which is trained by users"


@pytest.mark.parametrize("gpu", [False, True])
@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_whatever_grows_in_a_log_takes_longer(family, gpu):
    small = Shape(5_000, 3_000, 100_000, 3_000_000, 5_000_000, 1_000, gpu)

    def seconds(**grown):
        return family.seconds(replace(small, **grown), 2, has_times=True)

    for name in ("num_items", "num_judged"):
        grown = [seconds(**{name: int(times * getattr(small, name))}) for times in (1, 1.5, 2)]
        assert 0 < grown[0] < grown[1] < grown[2], name
    pairs = [
        seconds(num_interactions=100_000 * n, by_user=3_000_000 * n**2, by_item=5_000_000 * n**2) for n in (1, 2, 3)
    ]
    assert pairs[0] < pairs[1] < pairs[2]
    without = family.seconds(small, 2)
    assert without < seconds(), "histories that fade take time"
    judging = JUDGE_SECONDS * small.num_judged * small.num_items
    for member in family.trials(2):
        assert family.trial_seconds(small, member) > member.seeds * judging


@pytest.mark.parametrize("gpu", [False, True])
def test_what_a_softmax_takes_follows_from_its_options(gpu):
    shape = Shape(200_000, 2_000, 1_000_000, 10**8, 10**9, 20_000, gpu)
    (family,) = (family for family in FAMILIES if family.name == "mf + softmax")

    def seconds(shape=shape, **given):
        options = {name.replace("_", ".", 1): value for name, value in ({"model_dim": 64} | given).items()}
        return family.learning(shape, options)

    for name in ("num_users", "num_items", "num_interactions"):
        assert seconds(replace(shape, **{name: 2 * getattr(shape, name)})) > 1.05 * seconds(), name
    assert seconds(train_epochs=12) < seconds(train_epochs=24) < 2 * seconds(train_epochs=12)
    assert seconds(train_epochs=1_000) > seconds() > seconds(train_epochs=1), "as many as it is known to take"
    assert seconds(model_dim=32) < seconds() == seconds(model_user_vectors=True)
    assert (seconds(model_user_vectors=False) > seconds()) == gpu, "histories are summed, or a table of users changed"
    if not gpu:
        layers = [seconds(model_num_layers=layers) for layers in range(3)]
        assert seconds() == layers[0] < layers[1] < layers[2]
        items = [seconds(method_items=items) for items in (512, 1_024, 2_000)]
        assert items[0] < items[1] < items[2] == seconds()
        most = replace(shape, num_items=WHOLE)
        assert seconds(replace(shape, num_items=WHOLE + 1)) < seconds(most), "of more items some are summed"
        longer = replace(shape, num_interactions=2 * shape.num_interactions)
        begun, more = (seconds(one, train_epochs=0) for one in (shape, longer))
        assert 1.5 * begun < more < 2 * begun, "what it starts from is factors of the interactions"


def test_attention_takes_products_of_its_width_with_itself():
    shape = Shape(1_000, 2_000, 1_000_000, 10**8, 10**9, 1_000)
    (family,) = (family for family in FAMILIES if family.model == "sasrec")
    narrow, wider, wide = (family.learning(shape, {**family.options, "model.dim": dim}) for dim in (32, 64, 128))
    assert wide - wider > 2.2 * (wider - narrow)


def test_trials_of_three_options_fill_a_cube_evenly():
    names = ("model.a", "model.b", "model.c")
    members = Family("ease", dict.fromkeys(names, Range(0, 1))).trials(31)[1:]
    boxes = {
        tuple(int(one.options[name] * n + 0.01) for name, n in zip(names, (2, 3, 5), strict=True)) for one in members
    }
    assert len(boxes) == 30, "every half with every third and every fifth"


def test_learning_from_labels_takes_longer_on_a_larger_log():
    def seconds(labels=2_000, **grown):
        return plan_search(replace(SMALL, **grown), 120, FAMILIES[:1], labels=labels).labels

    assert seconds() < plan_search(SMALL, 120, FAMILIES[:2], labels=2_000).labels, "where they add a member"
    alone = plan_search(SMALL, 120, FAMILIES[:1], labels=2_000)
    assert alone.labels == 2 * alone.learning, "for the search and for the last fit"
    assert seconds(labels=1_000) < seconds() < seconds(labels=4_000)
    assert seconds(labels=100_000) == seconds(labels=200_000), "as the penalties are chosen by some"
    assert seconds() < seconds(num_interactions=2 * SMALL.num_interactions)
    items = [seconds(num_items=number) for number in (2_000, 4_000, 8_000)]
    assert items[0] < items[1] < items[2]


def test_on_a_gpu_softmax_starts_from_factors_and_trains_wide_where_items_are_many():
    for gpu, items in (True, 20_000), (True, 2_000), (False, 20_000):
        shape = Shape(5_000, items, 100_000, 3_000_000, 5_000_000, 1_000, gpu)
        for family in plan_search(shape, 10**6).families:
            wide = family.method == "softmax" and gpu and items > 10_000
            assert family.options.get("model.start") == ("factors" if wide else None), family.name
            if wide:
                assert family.options["model.dim"] == 128


def test_times_let_the_best_of_a_family_fade_and_cost_something():
    for family in FAMILIES:
        assert family.seconds(SMALL, 2, has_times=True) > family.seconds(SMALL, 2)
        best = family.trials(2)[-1]
        faded = family.faded(best)
        if family.model in {"ease", "sparse-ease", "item-knn", "user-knn", "graph-filter"}:
            assert [member.options for member in faded] == [{**best.options, "model.recency": h} for h in (30, 10, 3)]
            MODELS[family.model].Config(recency=3)
        else:
            assert faded == []
    assert plan_search(SMALL, 10, has_times=True).seconds <= 10
    (ease,) = (family for family in FAMILIES if family.name == "ease")
    long = replace(SMALL, num_interactions=10_000_000)
    fit = ease.cost(long, ease.member()).fit
    ranking, sorting = ease.trial_seconds(long, ease.member()) - fit, ORDER_SECONDS * long.num_interactions
    assert sorting > 1
    more = ease.seconds(long, 1, has_times=True) - ease.seconds(long, 1)
    assert more == pytest.approx(fit + 3 * (ranking + sorting)), "ranked thrice, and fitted with the validation"
