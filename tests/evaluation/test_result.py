"""What an evaluation says about its episodes."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from dpepo.evaluation import summarise
from dpepo.policies import ScriptedPolicy
from dpepo.rollout import play_episode
from dpepo.runs import wilson_interval
from dpepo.types import Episode, StopReason

WIN = ["<think>a</think><parallel><env_1>open case</env_1></parallel>"]


def episode(task: str, *, success: bool, sibling: int = 0, stop: StopReason = StopReason.MAX_TURNS) -> Episode:
    """One real turn of play, made a win or not by its last observation."""
    played = play_episode(task, policy=ScriptedPolicy(WIN), num_envs=2, max_turns=1, sibling=sibling)
    [turn] = played.turns
    [step] = turn.steps
    seen = step.observation.model_copy(update={"success": success, "ended": success})
    changed = turn.model_copy(update={"steps": (step.model_copy(update={"observation": seen}),)})
    return played.model_copy(update={"turns": (changed,), "stop": StopReason.SUCCESS if success else stop})


def test_both_denominators_are_there_and_lost_episodes_are_counted_apart() -> None:
    """V10: four episodes, two won, one not, one lost to a crash: 2 of 4 = 0.50 and 2 of 3 stand beside each other."""
    result = summarise(
        [
            episode("toy/room/0", success=True),
            episode("toy/room/1", success=True),
            episode("toy/room/2", success=False),
            episode("toy/room/3", success=False, stop=StopReason.ENV_FAILED),
        ]
    )
    assert (result.successes, result.played, result.n, result.lost) == (2, 4, 3, 1)
    assert result.success_rate == pytest.approx(2 / 3)
    assert result.success_rate_played == 0.5
    assert result.interval[0] < 2 / 3 < result.interval[1]


def test_turn_limit_full_context_and_dead_ends_are_failures_not_losses() -> None:
    stops = [StopReason.MAX_TURNS, StopReason.CONTEXT_FULL, StopReason.ALL_ENDED, StopReason.OVER_LIMIT]
    result = summarise([episode("toy/room/0", success=False, stop=stop) for stop in stops])
    assert (result.n, result.lost, result.success_rate) == (4, 0, 0.0)
    assert summarise([episode("toy/room/0", success=False, stop=StopReason.POLICY_FAILED)]).lost == 1


def test_types_are_counted_by_task_name() -> None:
    result = summarise([episode(task, success=task == "toy/house/1") for task in ("toy/room/0", "toy/house/0", "toy/house/1")])
    assert {name: (row.successes, row.n) for name, row in result.by_type.items()} == {"house": (1, 2), "room": (0, 1)}


@pytest.mark.parametrize(
    ("outcomes", "expected"),
    [
        ([[True, False]], {1: 0.5, 2: 1.0}),
        ([[True, False], [False, False]], {1: 0.25, 2: 0.5}),
        ([[True], [False]], {1: 0.5}),
        ([[True, True], [False]], {1: 0.5, 2: 1.0}),
    ],
)
def test_pass_at_k_is_a_mean_over_tasks_with_enough_episodes(
    outcomes: Sequence[Sequence[bool]], expected: dict[int, float]
) -> None:
    episodes = [
        episode(f"toy/room/{task}", success=won, sibling=n) for task, row in enumerate(outcomes) for n, won in enumerate(row)
    ]
    assert summarise(episodes).pass_at == pytest.approx(expected)


def test_types_have_their_intervals_and_losses() -> None:
    result = summarise(
        [
            episode("toy/room/0", success=True),
            episode("toy/room/1", success=False),
            episode("toy/house/0", success=False, stop=StopReason.ENV_FAILED),
        ]
    )
    assert result.by_type["room"].interval == wilson_interval(1, 2)
    assert (result.by_type["room"].success_rate, result.by_type["room"].lost) == (0.5, 0)
    assert (result.by_type["house"].success_rate, result.by_type["house"].lost) == (None, 1)
    assert "house: all 1 lost" in str(result)
    assert "success 0.333 if every lost episode had failed" in str(result)
    assert result.tasks == 3


def with_score(task: str, score: float) -> Episode:
    """An episode of one copy that ends with a score; 100 is success, as in ScienceWorld."""
    played = episode(task, success=score == 100)
    [turn] = played.turns
    [step] = turn.steps
    seen = step.observation.model_copy(update={"score": score})
    return played.model_copy(
        update={"turns": (turn.model_copy(update={"steps": (step.model_copy(update={"observation": seen}),)}),)}
    )


def test_the_mean_score_is_said_raw_and_with_negative_ones_cut() -> None:
    """V02: 100, 67 and -100 are one success; their mean is 22.33 raw and 55.67 if negative scores count as 0."""
    result = summarise([with_score("toy/room/0", 100.0), with_score("toy/room/1", 67.0), with_score("toy/room/2", -100.0)])
    assert (result.successes, result.n) == (1, 3)
    assert (result.score, result.score_cut) == pytest.approx((67 / 3, 167 / 3))
    assert "score 22.33, with negative ones as 0: 55.67" in str(result)


def test_done_at_the_turn_limit_is_no_success() -> None:
    """V01: an episode that ends because its turns are used up, or because its copies have ended, has not reached the goal."""
    ended = episode("toy/room/0", success=False, stop=StopReason.ALL_ENDED)
    assert summarise([ended, episode("toy/room/1", success=False)]).successes == 0


def test_nothing_played_says_nothing() -> None:
    result = summarise([])
    assert (result.n, result.success_rate, result.interval, result.pass_at) == (0, 0.0, (0.0, 1.0), {})


def test_means_are_over_the_episodes_that_finished() -> None:
    result = summarise([episode("toy/room/0", success=True), episode("toy/room/1", success=False, stop=StopReason.ENV_FAILED)])
    assert (result.turns, result.actions_per_turn, result.actions, result.reply_tokens) == (1.0, 1.0, 1.0, 0.0)
    assert result.stops == {"success": 1}
    assert 0.0 <= result.env_seconds_per_episode <= result.seconds_per_episode
