"""The numbers about a step's episodes."""

from __future__ import annotations

import math

import pytest

from dpepo.config import StepRewardConfig
from dpepo.policies import ScriptedPolicy
from dpepo.rewards import score_episode
from dpepo.rollout import play_episode
from dpepo.training.metrics import episode_metrics
from dpepo.types import Episode, EpisodeGroup, StopReason

TWICE = "<think>a</think><parallel><env_1>look</env_1><env_2>look</env_2></parallel>"
WRONG = "<think>a</think><parallel><env_1>dance</env_1></parallel> and more"


def group(*episodes: Episode) -> EpisodeGroup:
    siblings = tuple(score_episode(episode, StepRewardConfig()) for episode in episodes)
    return EpisodeGroup(task=episodes[0].task, siblings=siblings)


def play(*replies: str, task: str = "toy/room/0") -> Episode:
    return play_episode(task, policy=ScriptedPolicy(list(replies)), num_envs=2, max_turns=len(replies))


def test_counts_are_over_turns_and_episodes_as_named() -> None:
    metrics = episode_metrics([group(play(TWICE, TWICE), play(TWICE, WRONG))])
    assert metrics["episode/success_rate"] == 0.0
    assert metrics["episode/turns"] == 2.0
    assert metrics["episode/actions_per_turn"] == 7 / 4
    assert metrics["episode/distinct_actions"] == 1.5
    assert metrics["episode/invalid_actions"] == pytest.approx(1 / 7)
    assert metrics["reply_problem/stray_text"] == 0.25
    assert metrics["episode/lost"] == 0.0


def test_lost_episodes_count_as_lost_and_nowhere_else() -> None:
    """A09."""
    lost = play(WRONG, WRONG).model_copy(update={"stop": StopReason.ENV_FAILED})
    alone, beside = episode_metrics([group(play(TWICE))]), episode_metrics([group(play(TWICE), lost)])
    assert beside.pop("episode/lost") == 1.0
    alone.pop("episode/lost")
    assert beside == alone


def test_success_is_told_apart_by_task_type_where_there_are_several() -> None:
    metrics = episode_metrics([group(play(TWICE)), group(play(TWICE, task="toy/house/0"))])
    assert {"episode/success_rate/room", "episode/success_rate/house"} <= metrics.keys()
    assert not any(name.startswith("episode/success_rate/") for name in episode_metrics([group(play(TWICE))]))


def test_nothing_left_gives_numbers_that_are_finite() -> None:
    lost = play(WRONG).model_copy(update={"stop": StopReason.POLICY_FAILED})
    assert all(math.isfinite(value) for value in episode_metrics([group(lost)]).values())
