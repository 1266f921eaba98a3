"""Numbers about the episodes of a step, by the field's names. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from statistics import fmean

from dpepo.types import EpisodeGroup, ScoredEpisode, Turn


def episode_metrics(groups: Sequence[EpisodeGroup]) -> dict[str, float]:
    """Success, length, diversity and faults of the episodes of one step; lost episodes count under faults only."""
    siblings = [sibling for group in groups for sibling in group.siblings]
    kept = [sibling for sibling in siblings if sibling.episode.outcome is not None]
    turns = [turn for sibling in kept for turn in sibling.episode.turns]
    rewards = [reward for sibling in kept for reward in sibling.step_rewards]
    num_actions = sum(len(turn.steps) for turn in turns)
    problems = Counter(problem.value for turn in turns for problem in turn.reply.problems)
    return {
        "episode/success_rate": _mean([float(sibling.episode.success) for sibling in kept]),
        **_success_by_type(kept),
        "episode/turns": _mean([len(sibling.episode.turns) for sibling in kept]),
        "episode/actions_per_turn": num_actions / len(turns) if turns else 0.0,
        "episode/distinct_actions": _mean([_distinct(sibling) for sibling in kept]),
        "episode/invalid_actions": _share([not step.observation.valid for turn in turns for step in turn.steps]),
        "episode/env_failures": float(
            sum(bool(step.observation.failure) for s in siblings for t in s.episode.turns for step in t.steps)
        ),
        "episode/lost": float(len(siblings) - len(kept)),
        "step_reward/mean": _mean([reward.value for reward in rewards]),
        "step_reward/c_width": _mean([reward.c_width for reward in rewards]),
        "step_reward/c_depth": _mean([sum(reward.c_depth.values()) for reward in rewards]),
        "step_reward/m_width": _mean([sum(reward.m_width.values()) for reward in rewards]),
        "step_reward/m_depth": _mean([sum(reward.m_depth.values()) for reward in rewards]),
        "response_length/mean": _mean([_length(turn) for turn in turns]),
        "response_length/max": float(max(map(_length, turns), default=0)),
        **{f"reply_problem/{kind}": count / len(turns) for kind, count in sorted(problems.items())},
    }


def _success_by_type(kept: Sequence[ScoredEpisode]) -> dict[str, float]:
    names = sorted({sibling.episode.task.name for sibling in kept})
    if len(names) < 2:
        return {}
    return {
        f"episode/success_rate/{name}": _share([s.episode.success for s in kept if s.episode.task.name == name])
        for name in names
    }


def _distinct(sibling: ScoredEpisode) -> int:
    return len({step.action for turn in sibling.episode.turns for step in turn.steps})


def _length(turn: Turn) -> int:
    return len(turn.completion.token_ids)


def _share(values: Sequence[bool]) -> float:
    return sum(values) / len(values) if values else 0.0


def _mean(values: Sequence[float]) -> float:
    return fmean(values) if values else 0.0
