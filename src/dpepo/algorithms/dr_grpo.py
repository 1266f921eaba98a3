"""Dr. GRPO: outcomes relative to their group's mean, without a division that favours easy and hard tasks."""

from __future__ import annotations

from dpepo.algorithms.groups import centred_advantages
from dpepo.algorithms.grpo import Grpo
from dpepo.types import EpisodeGroup


class DrGrpo(Grpo):
    """R - mean (arXiv 2503.20783, eq. 2). Its loss has a constant normaliser: ``actor.loss_average: constant``."""

    def trajectory(self, group: EpisodeGroup) -> list[float | None]:
        """Outcome minus the mean of the group's episodes; ``group_stats``, ``ddof`` and ``eps`` are not used."""
        return centred_advantages([sibling.outcome for sibling in group.siblings])
