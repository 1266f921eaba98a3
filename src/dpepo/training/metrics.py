"""Numbers about the episodes of a step, by the field's names. docs/metrics.md lists them. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from dpepo.runs.episode_numbers import (
    actions_over_turns,
    finished,
    length_numbers,
    mean,
    play_numbers,
    problem_numbers,
    stop_numbers,
    success_numbers,
)
from dpepo.types import Episode, EpisodeGroup, StepReward, Turn

_TINY_S = 1e-9


def episode_metrics(groups: Sequence[EpisodeGroup]) -> dict[str, float]:
    """Success, length, diversity and faults of the episodes of one step; lost episodes count under faults only."""
    siblings = [sibling for group in groups for sibling in group.siblings]
    episodes = [sibling.episode for sibling in siblings]
    kept = finished(episodes)
    turns = [turn for episode in kept for turn in episode.turns]
    rewards = [reward for sibling in siblings if sibling.episode.outcome is not None for reward in sibling.step_rewards]
    return {
        "episode/success_rate": 0.0,  # where all were lost
        **success_numbers("episode", episodes),
        **play_numbers("episode", episodes),
        "episode/distinct_actions": mean([len(_actions(episode)) for episode in kept]),
        "episode/distinct_share": mean([len(_actions(e)) / e.num_actions for e in kept if e.num_actions]),
        "episode/invalid_actions": mean([float(not step.observation.valid) for turn in turns for step in turn.steps]),
        "episode/env_failures": float(sum(_num_failures(episode) for episode in episodes)),
        **{f"episode/{name}": value for name, value in stop_numbers(kept).items()},
        **{f"episode/{name}": value for name, value in actions_over_turns(kept).items()},
        **_diversity(rewards),
        **length_numbers(turns),
        **problem_numbers(turns),
    }


def step_timing(
    groups: Sequence[EpisodeGroup], *, sample_s: float, env_s: float, rollout_s: float, update_s: float
) -> dict[str, float]:
    """``timing_s/*`` in seconds, and what that means in tokens.

    Args:
        groups: The episodes of the step, lost ones included: they had to be computed, too.
        sample_s: Spent in the policy.
        env_s: Spent in the environments.
        rollout_s: From the start of the step to the samples, the two above included.
        update_s: Of the policy update.
    """
    turns: list[Turn] = [turn for group in groups for sibling in group.siblings for turn in sibling.episode.turns]
    num_prompt = sum(turn.completion.prompt_length for turn in turns)
    num_reply = sum(turn.completion.reply_length for turn in turns)
    return {
        "timing_s/sample": sample_s,
        "timing_s/env": env_s,
        "timing_s/rollout": rollout_s,
        "timing_s/update": update_s,
        "timing_s/step": rollout_s + update_s,
        "perf/sampled_tokens_per_s": num_reply / max(sample_s, _TINY_S),
        "perf/tokens_per_s": (num_prompt + num_reply) / max(rollout_s + update_s, _TINY_S),
    }


def _diversity(rewards: Sequence[StepReward]) -> dict[str, float]:
    """The step reward and the counts behind it, means over turns (words of docs/algorithms.md)."""
    return {
        "step_reward/mean": mean([reward.value for reward in rewards]),
        "step_reward/c_width": mean([reward.c_width for reward in rewards]),
        "step_reward/c_depth": mean([sum(reward.c_depth.values()) for reward in rewards]),
        "step_reward/m_width": mean([sum(reward.m_width.values()) for reward in rewards]),
        "step_reward/m_depth": mean([sum(reward.m_depth.values()) for reward in rewards]),
    }


def _actions(episode: Episode) -> set[str]:
    return {step.action for turn in episode.turns for step in turn.steps}


def _num_failures(episode: Episode) -> int:
    return sum(bool(step.observation.failure) for turn in episode.turns for step in turn.steps)
