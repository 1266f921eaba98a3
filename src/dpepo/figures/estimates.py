"""Numbers with an interval, from one run or from repeats with other seeds. Pure.

One run: the interval over its episodes (Wilson for rates, Student's for means). Two repeats: the two values themselves. Three
or more: Student's interval over repeats, which says how far runs with other seeds lie apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import fmean
from typing import NamedTuple

from dpepo.runs.stats import t_interval, wilson_interval


class Estimate(NamedTuple):
    """A number, its 95 % bounds (or the range of two repeats), and what is behind it."""

    value: float
    low: float | None  # None: a single value has no interval
    high: float | None
    n: int  # episodes (or tasks) of the smallest repeat
    each: tuple[float, ...]  # the value of every repeat

    @property
    def repeats(self) -> int:
        """Runs with different seeds."""
        return len(self.each)


def rate(repeats: Sequence[Sequence[bool]]) -> Estimate | None:
    """Share of true values; None where a repeat is empty or there is none.

    >>> rate([[True, False, True, True]]).value
    0.75
    """
    if not repeats or not all(repeats):
        return None
    each = tuple(fmean(map(float, one)) for one in repeats)
    n = min(len(one) for one in repeats)
    if len(each) == 1:
        bounds = wilson_interval(sum(repeats[0]), len(repeats[0]))
        return Estimate(each[0], bounds.low, bounds.high, n, each)
    low, high = _over_repeats(each)
    return Estimate(fmean(each), max(0.0, low), min(1.0, high), n, each)


def mean(repeats: Sequence[Sequence[float]], *, share: bool = False) -> Estimate | None:
    """Mean; None where a repeat is empty or there is none.

    Args:
        repeats: Values per repeat.
        share: Values are proportions, so bounds stay in [0, 1]; otherwise they stay at 0 or above.
    """
    if not repeats or not all(repeats):
        return None
    each = tuple(fmean(one) for one in repeats)
    n = min(len(one) for one in repeats)
    if len(each) == 1:
        over = t_interval(repeats[0])
        if over.half_width is None:
            return Estimate(each[0], None, None, n, each)
        low, high = over.mean - over.half_width, over.mean + over.half_width
    else:
        low, high = _over_repeats(each)
    return Estimate(fmean(each), max(0.0, low), min(1.0, high) if share else high, n, each)


def _over_repeats(each: Sequence[float]) -> tuple[float, float]:
    if len(each) == 2:
        return min(each), max(each)
    over = t_interval(each)
    assert over.half_width is not None  # there are at least three
    return over.mean - over.half_width, over.mean + over.half_width


def intervals_text(estimates: Iterable[Estimate | None], *, what: str = "Bars") -> str:
    """A sentence on what the drawn intervals are.

    >>> intervals_text([rate([[True, False]])])
    'Bars: 95 % intervals over the episodes of one run.'
    """
    repeats = {estimate.repeats for estimate in estimates if estimate is not None and estimate.low is not None}
    many = sorted(number for number in repeats if number > 2)
    parts = [f"95 % t-intervals over {many[0]} seeds" if len(many) == 1 else "95 % t-intervals over seeds"] if many else []
    parts += ["the values of two seeds"] if 2 in repeats else []
    parts += ["95 % intervals over the episodes of one run"] if 1 in repeats else []
    return f"{what}: {', or '.join(parts)}." if parts else ""


def n_text(estimates: Iterable[Estimate | None], *, unit: str = "episodes") -> str:
    """A sentence on how much is behind each number.

    >>> n_text([rate([[True, False]])])
    'n = 2 episodes per point.'
    """
    known = [estimate for estimate in estimates if estimate is not None]
    if not known:
        return ""
    sizes = sorted({estimate.n for estimate in known})
    many = f"{sizes[0]}" if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]}"
    per = "per point and seed" if any(estimate.repeats > 1 for estimate in known) else "per point"
    return f"n = {many} {unit} {per}."
