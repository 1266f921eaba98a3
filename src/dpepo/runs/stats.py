"""Numbers about success rates, shared by evaluation, report and sweeps. Pure."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from operator import mul
from typing import NamedTuple

Z95 = 1.959963984540054  # two-sided 95 % quantile of the normal distribution


class Interval(NamedTuple):
    """A confidence interval of a rate."""

    low: float  # in [0, 1]
    high: float  # in [0, 1]


def wilson_interval(successes: int, n: int, *, z: float = Z95) -> Interval:
    """The Wilson score interval of a success rate (Wilson 1927); stays inside [0, 1] and is wide for small n.

    Args:
        successes: Number of successes, 0..n.
        n: Number of trials; 0 says nothing and gives (0, 1).
        z: Normal quantile; the default gives 95 %.

    Raises:
        ValueError: Successes are not between 0 and n.

    >>> [round(bound, 4) for bound in wilson_interval(8, 10)]
    [0.4902, 0.9433]
    """
    if not 0 <= successes <= n:
        raise ValueError(f"successes must be 0..{n}, got {successes}")
    if n == 0:
        return Interval(0.0, 1.0)
    rate = successes / n
    spread = z * math.sqrt(rate * (1 - rate) / n + z * z / (4 * n * n))
    centre = rate + z * z / (2 * n)
    scale = 1 + z * z / n
    # At the ends the exact bound is 0 or 1, which rounding would miss by 1e-17.
    low = 0.0 if successes == 0 else max(0.0, (centre - spread) / scale)
    high = 1.0 if successes == n else min(1.0, (centre + spread) / scale)
    return Interval(low, high)


def pass_at_k(n: int, successes: int, k: int) -> float:
    """Chance that at least one of k episodes succeeds, estimated without bias from n (Chen et al. 2021, eq. 1).

    Args:
        n: Episodes played.
        successes: How many of them succeeded, 0..n.
        k: Episodes drawn, 1..n.

    Raises:
        ValueError: A count is out of its range.

    >>> pass_at_k(4, 1, 2)
    0.5
    """
    if not 0 <= successes <= n:
        raise ValueError(f"successes must be 0..{n}, got {successes}")
    if not 1 <= k <= n:
        raise ValueError(f"k must be 1..{n}, got {k}")
    return 1.0 - math.comb(n - successes, k) / math.comb(n, k)


class MeanInterval(NamedTuple):
    """A mean over a few repeats, with Student's interval."""

    mean: float
    half_width: (
        float | None
    )  # of the 95 % interval mean +- half_width; None for a single repeat, which says nothing about spread
    n: int  # repeats


def t_interval(values: Sequence[float]) -> MeanInterval:
    """Mean and 95 % t-interval over independent repeats, e.g. a result per seed (Student 1908).

    It takes the repeats to be normal, and is wide for few of them: for 3 it is 2.5 sample standard deviations to each side. For
    rates it may reach beyond 0 and 1.

    Args:
        values: One number per repeat, at least one.

    >>> mean, half, n = t_interval([0.5, 0.6, 0.7])
    >>> round(mean, 3), round(half, 4), n
    (0.6, 0.2484, 3)
    """
    n = len(values)
    if n == 0:
        raise ValueError("a mean needs at least one value")
    mean = math.fsum(values) / n
    if n == 1:
        return MeanInterval(mean, None, 1)
    std = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (n - 1))
    return MeanInterval(mean, t_quantile(n - 1) * std / math.sqrt(n), n)


def t_quantile(freedom: int, *, coverage: float = 0.95) -> float:
    """The t for which |T| <= t has the given chance, for a whole number of degrees of freedom.

    By bisection of the closed form of the distribution (Abramowitz and Stegun, 26.7.3 and 26.7.4).

    >>> round(t_quantile(2), 3), round(t_quantile(9), 3)
    (4.303, 2.262)
    """
    if freedom < 1 or not 0 < coverage < 1:
        raise ValueError(f"needs freedom >= 1 and 0 < coverage < 1, got {freedom} and {coverage}")
    low, high = 0.0, 1.0
    while _t_chance(high, freedom) < coverage:
        high *= 2
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if _t_chance(middle, freedom) < coverage else (low, middle)
    return (low + high) / 2


def _t_chance(t: float, freedom: int) -> float:
    """The chance of |T| <= t."""
    angle = math.atan(t / math.sqrt(freedom))
    odd = freedom % 2
    term = math.cos(angle) if odd else 1.0
    total = 0.0 if freedom == 1 else term
    for k in range(3 if odd else 2, freedom - 1, 2):
        term *= math.cos(angle) ** 2 * (k - 1) / k
        total += term
    return 2 / math.pi * (angle + math.sin(angle) * total) if odd else math.sin(angle) * total


# Two policies on the same tasks


def mcnemar_exact(only_a: int, only_b: int) -> float:
    """Two-sided p-value of McNemar's exact test: do two policies succeed equally often, each with one try at every task?

    Tasks that both solve or neither solves say nothing; of the others, under equal chances, each is as likely to be A's as
    B's. So the smaller count is compared with the binomial distribution of one half (McNemar 1947; the exact form: Fay 2010).

    Args:
        only_a: Tasks that A alone solved.
        only_b: Tasks that B alone solved.

    >>> round(mcnemar_exact(1, 9), 4), mcnemar_exact(0, 0)
    (0.0215, 1.0)
    """
    if min(only_a, only_b) < 0:
        raise ValueError(f"counts must be 0 or more, got {only_a} and {only_b}")
    n = only_a + only_b
    tail = sum(math.comb(n, k) for k in range(min(only_a, only_b) + 1))
    return min(1.0, 2 * tail / (1 << n))


def newcombe_paired_interval(both: int, only_a: int, only_b: int, neither: int, *, z: float = Z95) -> Interval:
    """Interval of the difference B - A of two success rates on the same tasks (Newcombe 1998, "paired data", method 10).

    It joins the Wilson intervals of the two rates and takes their correlation into account; it stays inside [-1, 1] and has a
    width where no task tells the two apart.

    Args:
        both: Tasks that both solved.
        only_a: Tasks that A alone solved.
        only_b: Tasks that B alone solved.
        neither: Tasks that none solved.
        z: Normal quantile; the default gives 95 %.

    >>> [round(bound, 4) for bound in newcombe_paired_interval(36, 2, 12, 0)]
    [0.0569, 0.3404]
    """
    n = both + only_a + only_b + neither
    if n == 0:
        return Interval(-1.0, 1.0)
    a, b = (both + only_a) / n, (both + only_b) / n
    (low_a, high_a), (low_b, high_b) = wilson_interval(both + only_a, n, z=z), wilson_interval(both + only_b, n, z=z)
    phi = _phi(both, only_a, only_b, neither)

    def reach(one: float, other: float) -> float:
        return math.sqrt(max(0.0, one * one - 2 * phi * one * other + other * other))

    low = (b - a) - reach(b - low_b, high_a - a)
    high = (b - a) + reach(high_b - b, a - low_a)
    return Interval(max(-1.0, low), min(1.0, high))


def _phi(both: int, only_a: int, only_b: int, neither: int) -> float:
    """The correlation of the two outcomes, with Newcombe's correction for continuity; 0 where a margin is empty."""
    margins = (both + only_a) * (only_b + neither) * (both + only_b) * (only_a + neither)
    if margins == 0:
        return 0.0
    product = both * neither - only_a * only_b
    n = both + only_a + only_b + neither
    return (max(product - n / 2, 0.0) if product > 0 else float(product)) / math.sqrt(margins)


EXACT_UP_TO = 16  # tasks that differ; beyond, sign flips are drawn at random
DRAWS = 10_000


def sign_flip_test(differences: Sequence[float], *, seed: int = 0, draws: int = DRAWS) -> float:
    """Two-sided p-value of the paired permutation test on a mean difference (Fisher 1935, section 21).

    If the two policies were alike, each task's difference could as well have had the other sign. All 2^m signs of the m
    differences that are not 0 are tried where m is at most `EXACT_UP_TO`; else `draws` of them, drawn by seed, and the
    p-value is (1 + those as far from 0) / (1 + draws) (Phipson and Smyth 2010), never 0.

    Args:
        differences: B minus A, one per task.
        seed: Of the random signs.
        draws: How many random sign vectors.

    >>> sign_flip_test([1.0, 1.0, 1.0, 1.0, 0.0])
    0.125
    """
    sizes = [abs(difference) for difference in differences if difference]
    seen = abs(math.fsum(differences)) - 1e-9  # sums that differ in rounding only count as equal
    if len(sizes) <= EXACT_UP_TO:
        sums = [0.0]
        for size in sizes:
            sums = [total + sign * size for total in sums for sign in (1, -1)]
        return sum(abs(total) >= seen for total in sums) / len(sums)
    rng = random.Random(f"signs/{seed}")
    far: int = sum(abs(sum(map(mul, sizes, rng.choices((1.0, -1.0), k=len(sizes))))) >= seen for _ in range(draws))
    return (1 + far) / (1 + draws)


def bootstrap_mean_interval(values: Sequence[float], *, seed: int = 0, draws: int = DRAWS) -> Interval:
    """95 % percentile interval of a mean over tasks, by drawing tasks again with replacement (Efron 1979).

    Args:
        values: One number per task, e.g. the difference of two success rates; at least one.
        seed: Of the draws.
        draws: How many times as many tasks are drawn.
    """
    if not values:
        raise ValueError("an interval needs at least one value")
    rng = random.Random(f"bootstrap/{seed}")
    means = sorted(math.fsum(rng.choices(values, k=len(values))) / len(values) for _ in range(draws))
    edge = 0.025 * (draws - 1)
    return Interval(means[math.floor(edge)], means[math.ceil(draws - 1 - edge)])
