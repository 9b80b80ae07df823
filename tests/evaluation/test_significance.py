"""Paired tests against scipy's, intervals by simulation, corrections by hand."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from scipy import stats

from accord.errors import InputError
from accord.evaluation import significance
from accord.evaluation.significance import FLIPS, Comparison, compare_to, holm, interval_of_means


def simulated(rng, gain=0.0, seeds=10, users=200, of_user=0.1, of_seed=0.02, noise=0.1):
    """A baseline and a method that differs by `gain`, by its users, by its seeds, and by chance."""
    baseline = rng.random((seeds, users))
    shift = of_user * rng.normal(size=users) + of_seed * rng.normal(size=(seeds, 1))
    return baseline, baseline + gain + shift + noise * rng.normal(size=(seeds, users))


def only(baseline, other, seed=0) -> Comparison:
    return compare_to(baseline, {"other": other}, seed)["other"]


@pytest.mark.parametrize("case", range(6))
@pytest.mark.parametrize("levels", [None, 4])  # with few levels most sums are tied
def test_p_is_that_of_every_flip(case, levels):
    rng = np.random.default_rng(case)
    baseline, other = rng.random((2, 3, 12))
    if levels:
        baseline, other = (np.floor(values * levels) / levels for values in (baseline, other))
    other += 0.05 * case
    exact = stats.permutation_test(
        (other.mean(0), baseline.mean(0)),
        lambda x, y, axis: (x - y).mean(axis=axis),
        permutation_type="samples",
        n_resamples=np.inf,
        vectorized=True,
    ).pvalue
    assert only(baseline, other).p == pytest.approx(exact, abs=4 * np.sqrt(exact * (1 - exact) / FLIPS) + 1e-4)


@pytest.mark.parametrize("gain", [0.0, 0.01, 0.02])
def test_p_is_near_the_t_tests_on_normal_data(gain):
    baseline, other = simulated(np.random.default_rng(1), gain)
    expected = stats.ttest_rel(other.mean(0), baseline.mean(0)).pvalue
    assert only(baseline, other).p == pytest.approx(expected, rel=0.1, abs=0.015)


def test_small_p_goes_on_below_the_flips():
    baseline, other = simulated(np.random.default_rng(2), gain=0.05)
    found = only(baseline, other)
    expected = stats.ttest_rel(other.mean(0), baseline.mean(0)).pvalue
    assert 0 < found.p < 1e-10
    assert np.log10(found.p) == pytest.approx(np.log10(expected), rel=0.2)
    few = only(np.zeros((1, 18)), np.linspace(1, 2, 18)[None])
    assert few.p >= 2 / 2**18, "two of 2^18 flips come as far"


def test_p_is_uniform_where_nothing_differs():
    rng = np.random.default_rng(3)
    baseline = np.zeros((1, 50))
    found = compare_to(baseline, {str(n): rng.standard_t(3, size=(1, 50)) for n in range(400)})
    assert stats.kstest([result.p for result in found.values()], "uniform").pvalue > 0.01
    assert not any(result.p_holm < 0.05 for result in found.values())


# Users, seeds and chance each in turn make most of the difference between repetitions.
@pytest.mark.parametrize(("of_user", "of_seed", "noise"), [(0.1, 0.001, 0.05), (0.05, 0.03, 0.05), (0.01, 0.001, 0.3)])
def test_intervals_cover(monkeypatch, of_user, of_seed, noise):
    monkeypatch.setattr(significance, "FLIPS", 1)
    monkeypatch.setattr(significance, "DRAWS", 500)
    rng = np.random.default_rng(4)
    covered = 0
    for repetition in range(300):
        spread = {"of_user": of_user, "of_seed": of_seed, "noise": noise}
        found = only(*simulated(rng, gain=0.03, users=100, **spread), seed=repetition)
        covered += found.low <= 0.03 <= found.high
    assert covered / 300 >= 0.88


def test_interval_of_one_seed_is_the_users_bootstrap():
    rng = np.random.default_rng(5)
    baseline, other = rng.random((2, 1, 400))
    found = only(baseline, other)
    expected = stats.bootstrap(((other - baseline)[0],), np.mean, method="percentile", rng=6).confidence_interval
    assert (found.low, found.high) == pytest.approx(tuple(expected), abs=0.004)


def test_the_interval_of_a_mean_is_around_it_and_as_wide_as_its_error():
    values = np.random.default_rng(1).random((3, 2, 400))  # metrics, seeds, users
    lows, highs = interval_of_means(values)
    assert ((lows < values.mean((1, 2))) & (values.mean((1, 2)) < highs)).all()
    one_seed = values[:1, :1]
    low, high = interval_of_means(one_seed)
    assert (high - low) / 2 == pytest.approx(1.96 * one_seed.std() / np.sqrt(400), rel=0.1)


def test_difference_effect_and_share():
    found = only([[0.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0]], [[1.0, 0.3, 0.1, -1.0], [3.0, 0.3, -0.1, -1.0]])
    users = np.array([2.0, 0.3, 0.0, -1.0])
    assert found.difference == pytest.approx(users.mean())
    assert found.effect == pytest.approx(users.mean() / users.std(ddof=1))
    assert found.better == pytest.approx(0.25)
    assert found.low <= found.difference <= found.high


def test_equal_up_to_rounding_is_equal():
    cancels = np.array([[0.1] * 5, [0.2] * 5, [-0.3] * 5])  # adds up to 5e-17
    found = only(np.zeros((3, 5)), cancels)
    assert (found.p, found.effect, found.better) == (1, 0, 0)


def test_identical_arrays():
    same = np.random.default_rng(7).random((3, 40))
    assert only(same, same.copy()) == Comparison(0, 0, 0, 1, 1, 0, 0)


def test_the_same_gain_for_all_is_an_infinite_effect():
    assert only(np.zeros((2, 30)), np.full((2, 30), -0.1)).effect == -np.inf


def test_one_run_stands_for_every_seed():
    rng = np.random.default_rng(8)
    closed, learned = rng.random((1, 60)), rng.random((4, 60))
    repeated = np.repeat(closed, 4, axis=0)
    assert only(closed, learned) == only(repeated, learned)
    assert only(learned, closed) == only(learned, repeated)
    mixed = compare_to(closed, {"learned": learned, "closed": closed + 0.1})
    assert mixed["closed"].low == pytest.approx(0.1)


def test_the_seed_decides_and_the_company_does_not():
    rng = np.random.default_rng(9)
    baseline, first, second = rng.random((3, 3, 50))
    alone, again, other = only(baseline, first), only(baseline, first), only(baseline, first, seed=1)
    assert alone == again
    assert (alone.p, alone.low) != (other.p, other.low)
    together = compare_to(baseline, {"second": second, "other": first})["other"]
    for name in ("difference", "low", "high", "p", "effect", "better"):
        assert getattr(together, name) == pytest.approx(getattr(alone, name))


def test_holm_by_hand():
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.6, 0.9]) == [1, 1]
    assert holm([0.02, 0.02]) == [0.04, 0.04]
    assert holm([]) == []


def test_comparisons_are_corrected_together():
    rng = np.random.default_rng(10)
    baseline = rng.random((2, 100))
    found = compare_to(baseline, {f"{gain}": baseline + rng.normal(gain, 0.2, (2, 100)) for gain in (0.03, 0.04, 0)})
    assert [result.p_holm for result in found.values()] == holm([result.p for result in found.values()])
    assert compare_to(baseline, {}) == {}


@pytest.mark.parametrize(
    ("baseline", "other", "said"),
    [
        ([[0.0, np.nan]], [[0.0, 1.0]], "baseline"),
        ([[0.0, 1.0]], [[0.0, np.nan]], "'other'"),
        ([[0.0, 1.0]], [[0.0, np.inf]], "'other'"),
        ([[0.0, 1.0]], [[0.0, 1.0, 2.0]], "shape"),
        ([[0.0, 1.0]] * 2, [[0.0, 1.0]] * 3, "shape"),
        ([0.0, 1.0], [0.0, 1.0], "shape"),
        (0.0, 1.0, "shape"),
        ([[0.0]], [[1.0]], "two users"),
    ],
)
def test_what_cannot_be_paired_is_refused(baseline, other, said):
    with pytest.raises(InputError, match=said):
        only(baseline, other)


def test_large_data_is_small():
    rng = np.random.default_rng(11)
    baseline = rng.random((10, 20_000))
    others = {str(number): rng.random((10, 20_000)) for number in range(2)}
    tracemalloc.start()
    compare_to(baseline, others)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 300 * 2**20


def test_an_interval_over_few_seeds_draws_one_fewer_than_there_are():
    """By hand, with users who all agree: of four seeds one gains, so each draw of three gains k/3 by a binomial, whose
    97.5% point is 2/3. Drawing all four would give 3/4, and understate how much few seeds vary."""
    gains = np.repeat([[0.0], [0.0], [0.0], [1.0]], 50, axis=1)
    low, high = significance.interval_of_means(gains[None])
    assert (low[0], high[0]) == pytest.approx((0.0, 2 / 3))


@pytest.mark.parametrize(
    ("baseline", "other", "told"),
    [
        (
            [[0.0, np.nan]],
            [[1.0, 1.0]],
            "the baseline's values must be finite: leave out users without a value, for",
        ),
        (
            [[0.0, 0.0]],
            [[1.0, np.inf]],
            "the values of 'other' must be finite: leave out users without a value, for",
        ),
        (0.5, [[1.0, 1.0]], r"'the baseline' has values of shape \[\], not \[1, 0\]\.$"),
        (0.5, 0.5, r"'the baseline' has values of shape \[\], not \[0, 0\]\.$"),
        ([[0.0]], [[1.0]], r"a paired test needs at least two users and one seed\.$"),
    ],
)
def test_what_cannot_be_compared_is_said_in_one_sentence(baseline, other, told):
    with pytest.raises(InputError, match=f"^{told}"):
        only(baseline, other)


def test_the_interval_of_a_metric_that_is_not_finite_is_refused():
    with pytest.raises(InputError, match=r"^the metrics must be finite"):
        interval_of_means([[[np.nan, 1.0]]])


def test_two_users_can_be_compared():
    assert only([[0.0, 0.0]], [[1, 3]]).difference == 2  # whole numbers, too


def test_the_interval_has_the_same_ends_every_time_and_leaves_out_a_fortieth_at_each():
    values = np.random.default_rng(1).random((1, 1, 400))
    assert [*interval_of_means(values)] == [*interval_of_means(values, seed=0)]
    assert [*interval_of_means(values)] != [*interval_of_means(values, seed=1)]
    low, high = interval_of_means(values)
    error = values.std() / np.sqrt(400)
    assert (high - low)[0] / 2 == pytest.approx(stats.norm.ppf(0.975) * error, rel=0.04)


def test_flips_in_many_blocks_are_the_flips_in_one(monkeypatch):
    """9 users: a byte and a bit of each flip. Blocks of other sizes take other bytes, and say the same."""
    rng = np.random.default_rng(2)
    baseline, other = rng.random((2, 3, 9))
    whole = only(baseline, other)
    for block in (9 * 7, 9, 1):
        monkeypatch.setattr(significance, "BLOCK", block)
        monkeypatch.setattr(significance, "FLIPS", 10_000 if block > 9 else 2_000)
        parts = only(baseline, other)
        assert parts.p == pytest.approx(whole.p, abs=0.05)
        assert (parts.low, parts.high) == pytest.approx((whole.low, whole.high), abs=0.05)
    assert [list(significance._blocks(10, width)) for width in (1, 4)] == [[1] * 10, [1] * 10]
    monkeypatch.setattr(significance, "BLOCK", 12)
    assert list(significance._blocks(10, 4)) == [3, 3, 3, 1]


def test_p_below_the_flips_is_twice_the_normal_tail():
    many = np.full(200, 0.3) + np.linspace(-0.1, 0.1, 200)
    z = many.sum() / np.sqrt(np.square(many).sum())
    assert significance._p(0, many) == pytest.approx(2 * stats.norm.sf(z), rel=1e-9, abs=0)
    for few in range(1, 13):
        assert significance._p(0, np.full(few, 0.3)) == 1 / (FLIPS + 1), "never more than what the flips say"
    assert significance._p(0, np.full(25, 0.3)) > 2 / 2**25, "nor less than the share of the two most extreme flips"
    assert significance._p(4, many) == 5 / (FLIPS + 1)


def test_holm_of_one_and_of_none():
    assert holm([]) == []
    assert holm([0.0, 0.0]) == [0.0, 0.0]
    assert holm([0.04]) == [0.04]


def test_every_user_is_flipped_by_itself():
    """The last too: where two of 26 differ, half of the flips have them on the same side."""
    differences = np.zeros((1, 26))
    differences[0, -2:] = 1
    assert only(np.zeros((1, 26)), differences).p == pytest.approx(0.5, abs=0.02)


def test_hits_and_misses_can_be_compared():
    """As booleans, which numpy does not subtract."""
    base, other = np.array([[True, False, True, False]]), np.array([[True, True, True, False]])
    assert only(base, other) == only(base.astype(float), other.astype(float))


def test_a_small_p_is_two_tails():
    """So many users differ that no flip reaches their sum: then it is the normal distribution's."""
    users = np.random.default_rng(0).normal(0.2, 1, 4000)
    z = users.sum() / np.sqrt(np.square(users).sum())
    assert only(np.zeros((1, 4000)), users[None]).p == pytest.approx(2 * stats.norm.sf(z), rel=1e-9, abs=0)


def test_an_interval_is_of_nineteen_in_twenty():
    values = np.random.default_rng(1).normal(0, 1, (1, 4000))
    low, high = interval_of_means(values[None])
    assert (high - low)[0] == pytest.approx(2 * 1.96 * values.std() / np.sqrt(values.size), rel=0.06)


def test_an_interval_of_two_seeds_draws_one_of_them():
    """So half of the draws are either; of two drawn, half would be their mean."""
    values = np.stack([np.zeros(50), np.ones(50)])[None]
    drawn = significance._counts(400, 2, np.random.default_rng(0))
    assert set(drawn.ravel()) == {0.0, 1.0}
    low, high = interval_of_means(values)
    assert (low[0], high[0]) == pytest.approx((0, 1))


def test_rounding_is_no_difference_at_any_scale():
    """The differences of three users are tied but for rounding, which grows with them; every flip comes as far."""
    for scale in (1.0, 1e9):
        assert only(np.zeros((1, 3)), scale * np.array([[0.1, 0.2, -0.3]])).p == 1


def test_p_of_a_row_is_its_own():
    """A row of large numbers beside it leaves the rounding that a row is allowed as it was."""
    baseline, other = simulated(np.random.default_rng(2), gain=0.02)
    alone = only(baseline, other)
    beside = compare_to(baseline, {"other": other, "large": other * 1e14})["other"]
    assert beside.p == alone.p < 0.05
