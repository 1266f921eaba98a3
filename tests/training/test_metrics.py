"""The numbers about a step's episodes."""

from __future__ import annotations

import math

import pytest

from dpepo.config import StepRewardConfig
from dpepo.policies import ScriptedPolicy
from dpepo.rewards import score_episode
from dpepo.rollout import play_episode
from dpepo.training.metrics import episode_metrics, step_timing
from dpepo.types import Episode, EpisodeGroup, FinishReason, StopReason, Turn

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
    assert metrics["episode/actions_per_turn_std"] == pytest.approx(math.sqrt(3) / 4)  # of 2, 2, 2 and 1
    assert metrics["episode/distinct_actions"] == 1.5
    assert metrics["episode/invalid_actions"] == pytest.approx(1 / 7)
    assert metrics["reply_problem/stray_text"] == 0.25
    assert metrics["reply_problem/no_action"] == 0.0  # a kind that did not occur is a 0 on its curve, not a gap
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


def test_actions_are_followed_over_the_turns_of_an_episode() -> None:
    """Whether an agent that begins in many copies goes on in many; short episodes count where they have a turn."""
    metrics = episode_metrics([group(play(TWICE, TWICE, WRONG), play(WRONG))])
    curve = {name: value for name, value in metrics.items() if "actions_at_turn" in name}
    assert curve == {
        "episode/actions_at_turn/1": 1.5,
        "episode/actions_at_turn/2": 2.0,
        "episode/actions_at_turn/3": 1.0,
    }
    assert metrics["episode/distinct_share"] == pytest.approx((2 / 5 + 1) / 2)


def test_reasons_to_stop_are_shares_of_the_episodes() -> None:
    metrics = episode_metrics([group(play(TWICE), play(TWICE, WRONG))])
    shares = {name: value for name, value in metrics.items() if name.startswith("episode/stop/")}
    assert shares["episode/stop/max_turns"] == 1.0
    assert sum(shares.values()) == 1.0


def test_lengths_are_over_turns_and_say_how_many_were_cut() -> None:
    def sized(turn: Turn, *, prompt: int, reply: int, finish: FinishReason) -> Turn:
        completion = turn.completion.model_copy(
            update={"prompt_token_ids": (0,) * prompt, "token_ids": (0,) * reply, "logprobs": (0.0,) * reply, "finish": finish}
        )
        return turn.model_copy(update={"completion": completion})

    episode = play(TWICE, WRONG)
    sizes = ((10, 4, FinishReason.STOP), (30, 8, FinishReason.LENGTH))
    turns = tuple(
        sized(turn, prompt=prompt, reply=reply, finish=finish)
        for turn, (prompt, reply, finish) in zip(episode.turns, sizes, strict=True)
    )
    episode = episode.model_copy(update={"turns": turns})
    metrics = episode_metrics([group(episode)])
    assert [metrics[f"response_length/{what}"] for what in ("mean", "max", "min", "clip_ratio")] == [6.0, 8.0, 4.0, 0.5]
    assert [metrics[f"prompt_length/{what}"] for what in ("mean", "max", "min", "clip_ratio")] == [20.0, 30.0, 10.0, 0.0]
    timing = step_timing([group(episode)], sample_s=2.0, env_s=1.0, rollout_s=4.0, update_s=1.0)
    assert (timing["timing_s/step"], timing["perf/sampled_tokens_per_s"], timing["perf/tokens_per_s"]) == (5.0, 6.0, 10.4)
