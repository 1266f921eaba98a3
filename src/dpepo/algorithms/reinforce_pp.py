"""REINFORCE++: outcomes normalised over the whole batch instead of over groups."""

from __future__ import annotations

from collections.abc import Sequence

from dpepo.algorithms.groups import trajectory_advantages
from dpepo.algorithms.grpo import Grpo
from dpepo.types import EpisodeGroup, TurnAdvantages


class ReinforcePlusPlus(Grpo):
    """(R - mean) / (std + eps) over all episodes of the step (arXiv 2501.03262, eq. 9).

    The paper's KL penalty belongs to the reward: ``actor.kl_in: reward`` with ``actor.kl: k1``. Tasks of unlike difficulty are
    compared with each other, so that an episode of a hard task may be blamed for its task.
    """

    def advantages_many(
        self, groups: Sequence[EpisodeGroup], *, values: Sequence[Sequence[Sequence[float]]] | None = None
    ) -> list[TurnAdvantages]:
        """Advantages of a step's groups, which depend on each other here."""
        outcomes = [sibling.outcome for group in groups for sibling in group.siblings]
        phis = iter(trajectory_advantages(outcomes, ddof=self.config.ddof, eps=self.config.eps))
        return [self.spread(group, [next(phis) for _ in group.siblings]) for group in groups]
