"""Numbers about success rates, shared by evaluation, report and sweeps. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
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
