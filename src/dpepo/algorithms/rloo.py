"""RLOO: every episode against the mean of the others."""

from __future__ import annotations

from dpepo.algorithms.groups import centred_advantages
from dpepo.algorithms.grpo import Grpo
from dpepo.types import EpisodeGroup


class Rloo(Grpo):
    """Reward minus the mean of the other siblings (arXiv 2402.14740, section 2.3); a group of one gets 0."""

    def trajectory(self, group: EpisodeGroup) -> list[float | None]:
        """R_j - mean of R_i over i other than j, which is n / (n - 1) times R_j minus the mean of all."""
        outcomes = [sibling.outcome for sibling in group.siblings]
        num_kept = sum(outcome is not None for outcome in outcomes)
        factor = num_kept / (num_kept - 1) if num_kept > 1 else 0.0
        return [None if phi is None else factor * phi for phi in centred_advantages(outcomes)]
