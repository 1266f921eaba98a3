"""Dr. GRPO: outcomes relative to their group's mean, without a division that favours easy and hard tasks."""

from __future__ import annotations

from typing import ClassVar

from dpepo.algorithms.groups import centred_advantages
from dpepo.algorithms.grpo import Grpo
from dpepo.config import LossAverage, LossTraits
from dpepo.types import EpisodeGroup


class DrGrpo(Grpo):
    """R - mean (arXiv 2503.20783, section 3.2), and a sum over tokens divided by a constant: long replies are not favoured."""

    loss: ClassVar[LossTraits] = LossTraits(loss_average=LossAverage.CONSTANT)

    def trajectory(self, group: EpisodeGroup) -> list[float | None]:
        """Outcome minus the mean of the group's episodes; ``group_stats``, ``ddof`` and ``eps`` are not used."""
        return centred_advantages([sibling.outcome for sibling in group.siblings])
