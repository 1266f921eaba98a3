"""Intervals and pass@k against numbers from outside."""

from __future__ import annotations

import itertools
import math

import pytest

from dpepo.runs.stats import pass_at_k, t_interval, t_quantile, wilson_interval


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
