"""Playing: one episode, groups of siblings, many episodes together; and agents that are not language models."""

from dpepo.rollout.agents import Agent, AgentPolicy, RandomAgent, latest_observations
from dpepo.rollout.casting import USAGE_FILE, OracleAgent, cast, cast_policy
from dpepo.rollout.episode import (
    EpisodeRequest,
    EpisodeState,
    PlaySettings,
    broken_environments,
    play_episode,
    reply_seed,
)
from dpepo.rollout.group import group_requests, lost_reason, play_groups
from dpepo.rollout.scheduler import PlayClock, play_many
from dpepo.rollout.session import Session
from dpepo.rollout.setup import hf_policy, load_policy, play_settings, sampling_note

__all__ = [
    "USAGE_FILE",
    "Agent",
    "AgentPolicy",
    "EpisodeRequest",
    "EpisodeState",
    "OracleAgent",
    "PlayClock",
    "PlaySettings",
    "RandomAgent",
    "Session",
    "broken_environments",
    "cast",
    "cast_policy",
    "group_requests",
    "hf_policy",
    "latest_observations",
    "load_policy",
    "lost_reason",
    "play_episode",
    "play_groups",
    "play_many",
    "play_settings",
    "reply_seed",
    "sampling_note",
]
