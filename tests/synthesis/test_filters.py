"""Why an episode is no demonstration, reason by reason."""

from __future__ import annotations

from typing import Any

import pytest

from dpepo.config import SynthConfig
from dpepo.envs.toy import ToyWorld
from dpepo.rollout import AgentPolicy, OracleAgent, play_episode
from dpepo.synthesis import drop_reason, parallel_share, sift
from dpepo.types import Episode, ReplyProblem, StopReason


@pytest.fixture(scope="module")
def good() -> Episode:
    world = ToyWorld()
    oracle = OracleAgent(lambda ids: [world.expert(task_id) for task_id in ids])
    return play_episode("toy/castle/0", policy=AgentPolicy(oracle), num_envs=2, max_turns=9, world=world)


def with_turn(episode: Episode, **changes: Any) -> Episode:
    return episode.model_copy(update={"turns": (episode.turns[0].model_copy(update=changes), *episode.turns[1:])})


def test_the_first_reason_that_holds_is_named(good: Episode) -> None:
    bad_reply = good.turns[0].reply.model_copy(update={"problems": (ReplyProblem.STRAY_TEXT,)})
    unfinished = good.model_copy(update={"turns": good.turns[:1], "stop": StopReason.MAX_TURNS})
    cases = {
        "": good,
        "malformed": with_turn(good, reply=bad_reply),
        "failed": unfinished,
        "lost": good.model_copy(update={"stop": StopReason.ENV_FAILED}),
        "empty": unfinished.model_copy(update={"turns": ()}),
    }
    for reason, episode in cases.items():
        assert drop_reason(episode, rules=SynthConfig()) == reason
    assert drop_reason(unfinished, rules=SynthConfig(keep="all")) == ""


def test_actions_that_the_world_did_not_understand_are_limited_only_where_asked(good: Episode) -> None:
    step = good.turns[0].steps[0]
    wrong = step.model_copy(update={"observation": step.observation.model_copy(update={"valid": False})})
    episode = with_turn(good, steps=(wrong, *good.turns[0].steps[1:]))
    assert drop_reason(episode, rules=SynthConfig()) == ""
    assert drop_reason(episode, rules=SynthConfig(max_invalid=1)) == ""
    assert drop_reason(episode, rules=SynthConfig(max_invalid=0)) == "invalid"


def test_long_demonstrations_are_limited_in_turns_and_in_tokens(good: Episode) -> None:
    assert drop_reason(good, rules=SynthConfig(max_episode_turns=len(good.turns))) == ""
    assert drop_reason(good, rules=SynthConfig(max_episode_turns=len(good.turns) - 1)) == "long"
    lengths = iter(range(10, 10 + len(good.turns)))
    assert drop_reason(good, rules=SynthConfig(max_length=10), count_tokens=lambda _: next(lengths)) == "long"
    assert drop_reason(good, rules=SynthConfig(max_length=10), count_tokens=lambda _: 10) == ""


def test_a_demonstration_that_hardly_acts_in_parallel_can_be_left_out(good: Episode) -> None:
    share = parallel_share([good])
    assert 0 < share < 1
    assert drop_reason(good, rules=SynthConfig(min_parallel=share)) == ""
    assert drop_reason(good, rules=SynthConfig(min_parallel=min(1.0, share + 0.01))) == "sequential"
    alone = good.model_copy(update={"num_envs": 1})
    assert drop_reason(alone, rules=SynthConfig(min_parallel=1.0)) == ""  # with one copy there is nothing to be parallel in


def test_of_two_that_teach_the_same_the_first_is_kept(good: Episode) -> None:
    other = good.model_copy(update={"task": good.task.model_copy(update={"id": "toy/castle/1"})})
    assert [reason for _, reason in sift([good, good, other], rules=SynthConfig())] == ["", "duplicate", ""]
    assert [reason for _, reason in sift([good, good], rules=SynthConfig(drop_duplicates=False))] == ["", ""]
