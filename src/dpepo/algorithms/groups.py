"""Outcomes of siblings made relative to their group. Shared by all algorithms."""

from __future__ import annotations

import math
from collections.abc import Sequence

from dpepo.types import TurnAdvantages


def trajectory_advantages(outcomes: Sequence[float | None], *, ddof: int = 1, eps: float = 1e-6) -> list[float | None]:
    """Phi_traj = (R - mean) / (std + eps) over the episodes of one group (eq. 8 of arXiv 2604.24320).

    Args:
        outcomes: R_traj per sibling; None for an episode left out, which takes no part in mean and deviation.
        ddof: 1 for the sample standard deviation, 0 for the population's.
        eps: Added to the standard deviation; above 0.

    Returns:
        One number per sibling in the same order, None where the outcome is None. A group without differences, and so a
        group of one, gets exactly 0: never NaN.

    Raises:
        ValueError: An outcome is NaN or infinite.

    >>> [phi and round(phi, 4) for phi in trajectory_advantages([1.0, None, 0.0, 0.0, 0.0])]
    [1.5, None, -0.5, -0.5, -0.5]
    """
    return _standardised(outcomes, weights=[1] * len(outcomes), ddof=ddof, eps=eps)


def centred_advantages(outcomes: Sequence[float | None]) -> list[float | None]:
    """R - mean over the episodes of one group, without a division by the deviation.

    Returns:
        One number per sibling, None where the outcome is None; exactly 0 for a group without differences.

    >>> centred_advantages([1.0, None, 0.0, 0.0, 0.0])
    [0.75, None, -0.25, -0.25, -0.25]
    """
    kept = _finite(outcomes)
    if len(set(kept)) <= 1:
        return [None if outcome is None else 0.0 for outcome in outcomes]
    mean = math.fsum(kept) / len(kept)
    return [None if outcome is None else outcome - mean for outcome in outcomes]


def turn_weighted_advantages(
    outcomes: Sequence[float | None], *, num_turns: Sequence[int], ddof: int = 1, eps: float = 1e-6
) -> list[float | None]:
    """As `trajectory_advantages`, with mean and deviation over turns: long episodes weigh more (the authors' code).

    As there, a group whose only entry is one single turn keeps its raw reward.

    Args:
        outcomes: R_traj per sibling, None for one left out.
        num_turns: Turns of each sibling, at least 0.
        ddof: Degrees of freedom taken off, over turns.
        eps: Added to the standard deviation.
    """
    kept = [turns for outcome, turns in zip(outcomes, num_turns, strict=True) if outcome is not None]
    if sum(kept) == 1:
        return list(outcomes)
    return _standardised(outcomes, weights=num_turns, ddof=ddof, eps=eps)


def _standardised(outcomes: Sequence[float | None], *, weights: Sequence[int], ddof: int, eps: float) -> list[float | None]:
    _finite(outcomes)
    pairs = [(outcome, weight) for outcome, weight in zip(outcomes, weights, strict=True) if outcome is not None]
    total = sum(weight for _, weight in pairs)
    # exact, where a mean that is off by one bit divided by eps would not be
    if len({outcome for outcome, weight in pairs if weight}) <= 1 or total <= ddof:
        return [None if outcome is None else 0.0 for outcome in outcomes]
    mean = math.fsum(outcome * weight for outcome, weight in pairs) / total
    std = math.sqrt(math.fsum(weight * (outcome - mean) ** 2 for outcome, weight in pairs) / (total - ddof))
    return [None if outcome is None else (outcome - mean) / (std + eps) for outcome in outcomes]


def _finite(outcomes: Sequence[float | None]) -> list[float]:
    """The outcomes that there are.

    Raises:
        ValueError: One of them is NaN or infinite.
    """
    kept = [outcome for outcome in outcomes if outcome is not None]
    for outcome in kept:
        if not math.isfinite(outcome):
            raise ValueError(f"an outcome must be finite, got {outcome}")
    return kept


def group_metrics(groups: Sequence[TurnAdvantages]) -> dict[str, float]:
    """How much the groups of a step can teach.

    Returns:
        ``group/frac_zero_std``: share of groups whose outcomes do not differ, in [0, 1], over groups with an episode left;
        ``group/frac_zero_advantage``: share of those that teach this algorithm nothing: no turn has an advantage;
        ``group/frac_lost``: share of episodes left out, in [0, 1].
    """
    outcomes = [[sibling.outcome for sibling in group.group.siblings] for group in groups]
    alive = [
        (set(of_group) - {None}, group)
        for of_group, group in zip(outcomes, groups, strict=True)
        if any(outcome is not None for outcome in of_group)
    ]
    siblings = [outcome for of_group in outcomes for outcome in of_group]
    silent = [not any(phi for phis in group.turns for phi in phis) for _, group in alive]
    return {
        "group/frac_zero_std": sum(len(distinct) == 1 for distinct, _ in alive) / len(alive) if alive else 0.0,
        "group/frac_zero_advantage": sum(silent) / len(silent) if silent else 0.0,
        "group/frac_lost": siblings.count(None) / len(siblings) if siblings else 0.0,
    }
