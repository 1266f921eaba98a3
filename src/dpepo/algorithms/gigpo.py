"""GiGPO: beside the episode's advantage, one for each turn, relative to all turns that began in the same state."""

from __future__ import annotations

from dpepo.algorithms.base import Algorithm
from dpepo.algorithms.groups import trajectory_advantages
from dpepo.types import Episode, EpisodeGroup, Observation, ScoredEpisode, TurnAdvantages

Anchor = tuple[str, ...]


class Gigpo(Algorithm):
    """A = Phi_traj + step_weight * A_step (arXiv 2505.10978, eq. 3 and 5-8, F_norm = std).

    A_step compares the discounted returns of turns of any sibling that share an anchor state. The paper has one environment and
    takes its observation for the state; here the anchor of a turn is what all K copies show, as a multiset: which copy is in
    which state does not matter. Worlds that give a fingerprint of their state are compared by it, others by their text.
    """

    def advantages(self, group: EpisodeGroup) -> TurnAdvantages:
        """Advantages of one group."""
        trajectory = self.trajectory(group)
        places: dict[Anchor, list[tuple[int, int]]] = {}
        for number, sibling in enumerate(group.siblings):
            if sibling.outcome is not None:
                for turn, anchor in enumerate(anchors(sibling.episode)):
                    places.setdefault(anchor, []).append((number, turn))
        steps: dict[tuple[int, int], float] = {}
        for alike in places.values():
            returns = [self._return(group.siblings[number], turn) for number, turn in alike]
            relative = trajectory_advantages(returns, ddof=self.config.ddof, eps=self.config.eps)
            steps.update(zip(alike, (value or 0.0 for value in relative), strict=True))
        turns = tuple(
            ()
            if phi is None
            else tuple(phi + self.config.step_weight * steps[number, turn] for turn in range(len(sibling.step_rewards)))
            for number, (phi, sibling) in enumerate(zip(trajectory, group.siblings, strict=True))
        )
        return TurnAdvantages(group=group, trajectory=tuple(trajectory), turns=turns)

    def turn_advantages(self, phi: float, sibling: ScoredEpisode) -> tuple[float, ...]:
        """Phi_traj, once per turn: the part that does not depend on siblings."""
        return (phi,) * len(sibling.step_rewards)

    def _return(self, sibling: ScoredEpisode, turn: int) -> float:
        """The outcome, discounted by the turns that follow: rewards come at the end only."""
        outcome = sibling.outcome or 0.0
        return float(outcome * self.config.discount ** (len(sibling.step_rewards) - 1 - turn))


def anchors(episode: Episode) -> list[Anchor]:
    """What all copies show before each turn, in an order that does not depend on their numbers."""
    shown = {env_id: episode.initial for env_id in range(1, episode.num_envs + 1)}
    found = []
    for turn in episode.turns:
        found.append(tuple(sorted(map(_state, shown.values()))))
        shown.update({step.env_id: step.observation for step in turn.steps})
    return found


def _state(seen: Observation) -> str:
    return f"{seen.ended}/{seen.state or seen.text}"
