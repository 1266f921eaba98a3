"""Numbers about success rates, shared by evaluation and report. Pure."""

from __future__ import annotations

import math
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
