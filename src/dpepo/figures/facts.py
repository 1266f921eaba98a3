"""What pictures need to know of an episode, so that thousands of episodes fit into memory. Pure."""

from __future__ import annotations

from typing import NamedTuple

from dpepo.actions import action_key
from dpepo.config import StepRewardConfig
from dpepo.rewards import score_episode
from dpepo.types import Episode

COUNTING = StepRewardConfig()
"""How repeats are counted: the same for all methods, whatever their own reward was."""


class EpisodeFacts(NamedTuple):
    """An episode in numbers."""

    task: str
    success: bool
    actions: tuple[int, ...]  # executed per turn
    distinct: int  # different actions, all environments together
    repeats_width: int  # C_width, summed over turns: the action of another environment at the same turn
    repeats_depth: int  # actions that their environment had done before (C_depth > 0)
    transitions_width: int  # actions whose transition other addressed environments share (M_width > 0)
    transitions_depth: int  # actions whose transition their environment had met before (M_depth > 0)
    prompt_tokens: int
    reply_tokens: int
    seconds: float

    @property
    def turns(self) -> int:
        """Turns played."""
        return len(self.actions)

    @property
    def num_actions(self) -> int:
        """Actions executed in all environments together."""
        return sum(self.actions)


def episode_facts(episode: Episode) -> EpisodeFacts:
    """Count one episode; repeats are those of `dpepo.rewards.diversity`."""
    rewards = score_episode(episode, COUNTING).step_rewards
    return EpisodeFacts(
        task=episode.task.id,
        success=episode.success,
        actions=tuple(len(turn.steps) for turn in episode.turns),
        distinct=len({action_key(step.action) for turn in episode.turns for step in turn.steps}),
        repeats_width=sum(reward.c_width for reward in rewards),
        repeats_depth=sum(count > 0 for reward in rewards for count in reward.c_depth.values()),
        transitions_width=sum(count > 0 for reward in rewards for count in reward.m_width.values()),
        transitions_depth=sum(count > 0 for reward in rewards for count in reward.m_depth.values()),
        prompt_tokens=sum(turn.completion.prompt_length for turn in episode.turns),
        reply_tokens=sum(turn.completion.reply_length for turn in episode.turns),
        seconds=sum(turn.seconds for turn in episode.turns),
    )
