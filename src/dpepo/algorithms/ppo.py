"""PPO: advantages from a learnt value of each turn's prompt, by generalised advantage estimation over turns."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean
from typing import ClassVar

from dpepo.algorithms.grpo import Grpo
from dpepo.types import EpisodeGroup, TurnAdvantages


class Ppo(Grpo):
    """GAE over the turns of an episode (arXiv 1506.02438, eq. 16; arXiv 1707.06347), normalised over the step's turns.

    A turn is one action of the method, and its reply's tokens share its advantage. The reward is the outcome, at the last turn.
    The value is a linear head on the model's last hidden state where the reply begins (`dpepo.learning.values`); it is trained
    with ``algorithm.value_coef`` times the clipped squared error to advantage plus value.
    """

    uses_values: ClassVar[bool] = True
    compares_siblings: ClassVar[bool] = False

    def advantages_many(
        self, groups: Sequence[EpisodeGroup], *, values: Sequence[Sequence[Sequence[float]]] | None = None
    ) -> list[TurnAdvantages]:
        """Advantages of a step's groups.

        Args:
            groups: Scored groups.
            values: V per group, sibling and turn; siblings that are left out may have none.
        """
        if values is None:
            raise ValueError("ppo needs the value of every turn")
        raw = [
            [
                () if sibling.outcome is None else self._gae(float(sibling.outcome), value)
                for sibling, value in zip(group.siblings, per_sibling, strict=True)
            ]
            for group, per_sibling in zip(groups, values, strict=True)
        ]
        every = [phi for siblings in raw for phis in siblings for phi in phis]
        mean = fmean(every) if every else 0.0
        std = math.sqrt(fmean((phi - mean) ** 2 for phi in every)) if every else 0.0
        credited = []
        for group, siblings, per_sibling in zip(groups, raw, values, strict=True):
            returns = tuple(
                tuple(phi + value for phi, value in zip(phis, row, strict=True)) if phis else ()
                for phis, row in zip(siblings, per_sibling, strict=True)
            )
            turns = tuple(tuple((phi - mean) / (std + self.config.eps) for phi in phis) for phis in siblings)
            trajectory = tuple(self.trajectory(group))
            credited.append(TurnAdvantages(group=group, trajectory=trajectory, turns=turns, returns=returns))
        return credited

    def _gae(self, outcome: float, values: Sequence[float]) -> tuple[float, ...]:
        """A_t = sum over k of (discount * lam)^k * delta_(t+k), delta_t = r_t + discount * V_(t+1) - V_t."""
        advantages: list[float] = []
        following, last = 0.0, 0.0
        for place in reversed(range(len(values))):
            reward = outcome if place == len(values) - 1 else 0.0
            delta = reward + self.config.discount * following - values[place]
            last = delta + self.config.discount * self.config.lam * last
            advantages.append(last)
            following = values[place]
        return tuple(reversed(advantages))
