"""Rewards: how well an episode went, and how diverse each of its turns was. Pure python."""

from dpepo.rewards.diversity import step_reward
from dpepo.rewards.process import ordered_match, process_reward
from dpepo.rewards.scoring import score_episode

__all__ = ["ordered_match", "process_reward", "score_episode", "step_reward"]
