"""What an algorithm is, and how one is found by name.

To add one: a file here with a subclass of `Algorithm`, and a line in `_ALGORITHMS`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from importlib import import_module

from dpepo.algorithms.groups import trajectory_advantages, turn_weighted_advantages
from dpepo.config import AlgorithmConfig, GroupStats
from dpepo.errors import ConfigError, did_you_mean
from dpepo.types import EpisodeGroup, ScoredEpisode, TurnAdvantages

_ALGORITHMS = {
    "dpepo": "dpepo.algorithms.dpepo:Dpepo",
    "grpo": "dpepo.algorithms.grpo:Grpo",
}


class Algorithm(ABC):
    """From a group of scored episodes to an advantage for every turn."""

    def __init__(self, config: AlgorithmConfig) -> None:
        self.config = config

    def advantages(self, group: EpisodeGroup) -> TurnAdvantages:
        """Advantages of one group; siblings never depend on other groups or on text.

        Args:
            group: N siblings of one task; those with outcome None are left out of the statistics and get no turns.
        """
        trajectory = self.trajectory(group)
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
    if config.name not in _ALGORITHMS:
        raise ConfigError(f"algorithm.name {config.name!r} does not exist. {did_you_mean(config.name, _ALGORITHMS)}")
    module, _, name = _ALGORITHMS[config.name].partition(":")
    algorithm: Algorithm = getattr(import_module(module), name)(config)
    return algorithm
