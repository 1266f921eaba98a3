"""REINFORCE++: outcomes normalised over the whole batch instead of over groups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from dpepo.algorithms.groups import trajectory_advantages
from dpepo.algorithms.grpo import Grpo
from dpepo.config import KlEstimator, KlPlace, LossTraits
from dpepo.types import EpisodeGroup, TurnAdvantages


class ReinforcePlusPlus(Grpo):
    """(R - mean) / (std + eps) over all episodes of the step, KL (k1) in the reward (arXiv 2501.03262v9, eq. 4-5).

    The paper takes KL off before it normalises, over tokens; here every episode counts once, and KL is taken off afterwards, so
    that ``actor.kl_coef`` is in units of a normalised advantage. Tasks of unlike difficulty are compared with each other: an
    episode of a hard task may be blamed for its task.
    """

    loss: ClassVar[LossTraits] = LossTraits(kl=KlEstimator.K1, kl_in=KlPlace.REWARD)
    compares_siblings: ClassVar[bool] = False

    def advantages_many(
        self, groups: Sequence[EpisodeGroup], *, values: Sequence[Sequence[Sequence[float]]] | None = None
    ) -> list[TurnAdvantages]:
        """Advantages of a step's groups, which depend on each other here."""
        outcomes = [sibling.outcome for group in groups for sibling in group.siblings]
        phis = iter(trajectory_advantages(outcomes, ddof=self.config.ddof, eps=self.config.eps))
        return [self.spread(group, [next(phis) for _ in group.siblings]) for group in groups]
