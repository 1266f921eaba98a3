"""What an algorithm is, and how one is found by name.

To add one: a file here with a subclass of `Algorithm`, and a line in `_ALGORITHMS` (docs/algorithms.md shows a whole one). A
class of one's own is named ``module:Class``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from importlib import import_module
from typing import ClassVar

from dpepo.algorithms.groups import trajectory_advantages, turn_weighted_advantages
from dpepo.config import AlgorithmConfig, GroupStats, LossTraits
from dpepo.errors import ConfigError, did_you_mean
from dpepo.types import EpisodeGroup, ScoredEpisode, TurnAdvantages

_ALGORITHMS = {
    "dpepo": "dpepo.algorithms.dpepo:Dpepo",
    "dr_grpo": "dpepo.algorithms.dr_grpo:DrGrpo",
    "gigpo": "dpepo.algorithms.gigpo:Gigpo",
    "grpo": "dpepo.algorithms.grpo:Grpo",
    "gspo": "dpepo.algorithms.gspo:Gspo",
    "ppo": "dpepo.algorithms.ppo:Ppo",
    "reinforce_pp": "dpepo.algorithms.reinforce_pp:ReinforcePlusPlus",
    "rloo": "dpepo.algorithms.rloo:Rloo",
}


class Algorithm(ABC):
    """From a group of scored episodes to an advantage for every turn."""

    loss: ClassVar[LossTraits] = LossTraits()  # what is minimised where section ``actor`` says nothing
    uses_values: ClassVar[bool] = False  # needs the value of every turn, as PPO does
    compares_siblings: ClassVar[bool] = True  # learns from nothing but differences within groups

    def __init__(self, config: AlgorithmConfig) -> None:
        self.config = config

    def advantages(self, group: EpisodeGroup) -> TurnAdvantages:
        """Advantages of one group; siblings never depend on other groups or on text.

        Args:
            group: N siblings of one task; those with outcome None are left out of the statistics and get no turns.
        """
        return self.spread(group, self.trajectory(group))

    def advantages_many(
        self, groups: Sequence[EpisodeGroup], *, values: Sequence[Sequence[Sequence[float]]] | None = None
    ) -> list[TurnAdvantages]:
        """Advantages of all groups of a step; most algorithms look at one at a time.

        Args:
            groups: Scored groups.
            values: V per group, sibling and turn, for algorithms with `uses_values`.
        """
        return [self.advantages(group) for group in groups]

    def spread(self, group: EpisodeGroup, trajectory: Sequence[float | None]) -> TurnAdvantages:
        """Advantages of the turns, from those of the episodes."""
        turns = tuple(
            () if phi is None else self.turn_advantages(phi, sibling)
            for phi, sibling in zip(trajectory, group.siblings, strict=True)
        )
        return TurnAdvantages(group=group, trajectory=tuple(trajectory), turns=turns)

    def trajectory(self, group: EpisodeGroup) -> list[float | None]:
        """Phi_traj of every sibling, by the configured statistics."""
        outcomes = [sibling.outcome for sibling in group.siblings]
        ddof, eps = self.config.ddof, self.config.eps
        if self.config.group_stats is GroupStats.EPISODES:
            return trajectory_advantages(outcomes, ddof=ddof, eps=eps)
        num_turns = [len(sibling.step_rewards) for sibling in group.siblings]
        return turn_weighted_advantages(outcomes, num_turns=num_turns, ddof=ddof, eps=eps)

    @abstractmethod
    def turn_advantages(self, phi: float, sibling: ScoredEpisode) -> tuple[float, ...]:
        """Phi of each turn of a sibling whose Phi_traj is `phi`."""


def algorithm_names() -> list[str]:
    """Names that `algorithm.name` may have, sorted."""
    return sorted(_ALGORITHMS)


def load_algorithm(config: AlgorithmConfig) -> Algorithm:
    """The algorithm a configuration names.

    Raises:
        ConfigError: The name is unknown; the nearest one is suggested.
    """
    path = _ALGORITHMS.get(config.name, config.name if ":" in config.name else "")
    if not path:
        raise ConfigError(f"algorithm.name {config.name!r} does not exist. {did_you_mean(config.name, _ALGORITHMS)}")
    module, _, name = path.partition(":")
    try:
        kind = getattr(import_module(module), name)
    except Exception as error:  # a foreign module may fail in any way
        raise ConfigError(f"algorithm.name {config.name!r} cannot be loaded: {type(error).__name__}: {error}") from error
    if not (isinstance(kind, type) and issubclass(kind, Algorithm)):
        raise ConfigError(f"algorithm.name {config.name!r} is no subclass of dpepo.algorithms.Algorithm")
    return kind(config)
