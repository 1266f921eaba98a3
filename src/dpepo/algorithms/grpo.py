"""GRPO over episodes: every turn of a sibling carries the sibling's advantage."""

from __future__ import annotations

from dpepo.algorithms.base import Algorithm
from dpepo.types import ScoredEpisode


class Grpo(Algorithm):
    """Group-relative outcome, the same for all turns (arXiv 2402.03300, by episode)."""

    def turn_advantages(self, phi: float, sibling: ScoredEpisode) -> tuple[float, ...]:
        """Phi_traj, once per turn."""
        return (phi,) * len(sibling.step_rewards)
