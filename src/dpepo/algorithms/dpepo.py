"""DPEPO: the group-relative outcome, weighed turn by turn with the diversity of that turn."""

from __future__ import annotations

from dpepo.algorithms.base import Algorithm
from dpepo.types import ScoredEpisode


class Dpepo(Algorithm):
    """Eq. 8-9 of arXiv 2604.24320.

    A repetitive turn of a good episode is praised less, a repetitive turn of a bad one is blamed more.
    """

    def turn_advantages(self, phi: float, sibling: ScoredEpisode) -> tuple[float, ...]:
        """Phi = Phi_traj * (R_step if Phi_traj > 0 else 2 - R_step), per turn."""
        return tuple(phi * (reward.value if phi > 0 else 2.0 - reward.value) for reward in sibling.step_rewards)
