"""Intervals and pass@k against numbers from outside."""

from __future__ import annotations

import itertools
import math

import pytest

from dpepo.runs.stats import (
    bootstrap_mean_interval,
    mcnemar_exact,
    newcombe_paired_interval,
    pass_at_k,
    sign_flip_test,
    t_interval,
    t_quantile,
    wilson_interval,
)


@pytest.mark.parametrize(
    ("successes", "n", "low", "high"),
    [(0, 10, 0.0, 0.277533), (10, 10, 0.722467, 1.0), (81, 263, 0.255289, 0.366208), (15, 148, 0.062386, 0.160470)],
)
def test_wilson_intervals_agree_with_published_ones(successes: int, n: int, low: float, high: float) -> None:
    """The last two are the worked examples of Newcombe (1998), table I, method 3: (.2553, .3662) and (.0624, .1605)."""
    interval = wilson_interval(successes, n)
    assert interval.low == pytest.approx(low, abs=1e-4)
    assert interval.high == pytest.approx(high, abs=1e-4)


def test_intervals_are_mirror_images_and_hold_their_rate() -> None:
    for n in (1, 2, 7, 200):
        for successes in range(n + 1):
            interval, mirror = wilson_interval(successes, n), wilson_interval(n - successes, n)
            assert 0 <= interval.low <= successes / n <= interval.high <= 1
            assert math.isclose(interval.low, 1 - mirror.high, abs_tol=1e-12)


def test_nothing_played_says_nothing() -> None:
    assert wilson_interval(0, 0) == (0.0, 1.0)


@pytest.mark.parametrize("n", [1, 2, 5])
def test_pass_at_k_is_the_share_of_draws_with_a_success(n: int) -> None:
    for successes in range(n + 1):
        outcomes = [1] * successes + [0] * (n - successes)
        for k in range(1, n + 1):
            draws = list(itertools.combinations(outcomes, k))
            assert pass_at_k(n, successes, k) == pytest.approx(sum(map(max, draws)) / len(draws))


@pytest.mark.parametrize(("n", "successes", "k"), [(4, 5, 1), (4, -1, 1), (4, 1, 0), (4, 1, 5), (0, 0, 1)])
def test_impossible_counts_are_refused(n: int, successes: int, k: int) -> None:
    with pytest.raises(ValueError, match="must be"):
        pass_at_k(n, successes, k)
    if not 0 <= successes <= n:
        with pytest.raises(ValueError, match="must be"):
            wilson_interval(successes, n)


@pytest.mark.parametrize(
    ("freedom", "quantile"),
    [(1, 12.706), (2, 4.303), (3, 3.182), (4, 2.776), (9, 2.262), (10, 2.228), (30, 2.042), (120, 1.980)],
)
def test_t_quantiles_are_those_of_the_printed_tables(freedom: int, quantile: float) -> None:
    """Two-sided 95 %."""
    assert t_quantile(freedom) == pytest.approx(quantile, abs=5e-4)


def test_a_t_interval_says_mean_spread_and_number() -> None:
    """By hand: the standard deviation of 1, 2, 3, 6 is sqrt(14 / 3), t for 3 degrees of freedom 3.182."""
    mean, half_width, n = t_interval([1.0, 2.0, 3.0, 6.0])
    assert (mean, n) == (3.0, 4)
    assert half_width == pytest.approx(3.18245 * math.sqrt(14 / 3) / 2, abs=1e-4)
    assert t_interval([0.5]) == (0.5, None, 1)
    assert t_interval([0.5, 0.5]) == (0.5, 0.0, 2)
    with pytest.raises(ValueError, match="at least one"):
        t_interval([])


@pytest.mark.parametrize(
    ("only_a", "only_b", "p_value"),
    [(150, 86, 3.716e-05), (9, 1, 0.021484), (7, 1, 0.070312), (5, 5, 1.0), (0, 0, 1.0), (0, 1, 1.0), (0, 6, 0.03125)],
)
def test_mcnemars_exact_p_values_are_the_published_ones(only_a: int, only_b: int, p_value: float) -> None:
    """The first: the approval survey of Agresti's textbook, as R's exact2x2 prints it. The others: binomial tables."""
    assert mcnemar_exact(only_a, only_b) == pytest.approx(p_value, rel=1e-3)
    assert mcnemar_exact(only_b, only_a) == mcnemar_exact(only_a, only_b)


def test_mcnemars_test_takes_thousands_of_tasks() -> None:
    assert 0.0 < mcnemar_exact(1500, 1700) < 0.001
    with pytest.raises(ValueError, match="0 or more"):
        mcnemar_exact(-1, 3)


@pytest.mark.parametrize(
    ("counts", "low", "high"),
    [((36, 2, 12, 0), 0.0569, 0.3404), ((1, 1, 7, 12), 0.0256, 0.5069)],
)
def test_paired_intervals_agree_with_published_ones(counts: tuple[int, int, int, int], low: float, high: float) -> None:
    """Method 10. The first: an example of Newcombe (1998). The second: airways, Fagerland et al. (2014), 0.026 to 0.507."""
    interval = newcombe_paired_interval(*counts)
    assert interval == pytest.approx((low, high), abs=1e-4)
    both, only_a, only_b, neither = counts
    mirrored = newcombe_paired_interval(both, only_b, only_a, neither)
    assert mirrored == pytest.approx((-interval.high, -interval.low))


@pytest.mark.parametrize(
    "counts", [(0, 0, 0, 10), (10, 0, 0, 0), (0, 10, 0, 0), (0, 0, 10, 0), (5, 0, 0, 5), (1, 0, 0, 0), (0, 0, 0, 0)]
)
def test_paired_intervals_hold_the_difference_and_stay_in_range(counts: tuple[int, int, int, int]) -> None:
    _, only_a, only_b, _ = counts
    low, high = newcombe_paired_interval(*counts)
    difference = (only_b - only_a) / max(1, sum(counts))
    assert -1.0 <= low <= difference + 1e-12 and difference - 1e-12 <= high <= 1.0 and low < high


def test_a_sign_flip_test_of_ones_is_mcnemars_test() -> None:
    for only_a, only_b in ((0, 4), (1, 5), (3, 9), (6, 6)):
        differences = [-1.0] * only_a + [1.0] * only_b + [0.0] * 7
        assert sign_flip_test(differences) == pytest.approx(mcnemar_exact(only_a, only_b))


def test_a_sign_flip_test_counts_every_sign_by_hand() -> None:
    """Of the 8 signs of 0.5, 0.25 and 0.25 two reach 1.0 in size, and four 0.5."""
    assert sign_flip_test([0.5, 0.25, 0.25]) == 0.25
    assert sign_flip_test([0.5, 0.25, -0.25]) == 0.75
    assert sign_flip_test([]) == sign_flip_test([0.0, 0.0]) == 1.0


def test_drawn_signs_come_close_to_all_signs_and_depend_on_the_seed_alone() -> None:
    differences = [1.0] * 20 + [-1.0] * 8
    drawn = sign_flip_test(differences, seed=1)
    assert drawn == sign_flip_test(differences, seed=1) != sign_flip_test(differences, seed=2)
    assert drawn == pytest.approx(mcnemar_exact(8, 20), abs=0.01)  # four standard errors are 0.007
    assert sign_flip_test([1.0] * 40, draws=99) == 0.01


def test_a_bootstrap_interval_is_near_the_normal_one_for_many_tasks_and_seeded() -> None:
    values = [0.0] * 300 + [1.0] * 100
    low, high = bootstrap_mean_interval(values, draws=2000)
    half = 1.96 * math.sqrt(0.25 * 0.75 / 400)
    assert (low, high) == pytest.approx((0.25 - half, 0.25 + half), abs=0.006)
    assert (low, high) == bootstrap_mean_interval(values, draws=2000) != bootstrap_mean_interval(values, draws=2000, seed=1)
    assert bootstrap_mean_interval([0.5, 0.5], draws=50) == (0.5, 0.5)
    with pytest.raises(ValueError, match="at least one"):
        bootstrap_mean_interval([])
