"""The adapter for Gymnasium, on a small registered environment."""

from __future__ import annotations

from typing import Any

import pytest

from dpepo.envs import load_world, make
from dpepo.envs.check import check_world
from dpepo.envs.gymnasium import GymnasiumWorld
from dpepo.errors import ConfigError, TaskError
from dpepo.rollout import AgentPolicy, RandomAgent, play_episode

OPTIONS: dict[str, Any] = {"env_id": "NumberGame-v0", "module": "tests.support.number_game"}


def test_a_gymnasium_environment_passes_the_conformance_kit() -> None:
    with GymnasiumWorld(**OPTIONS) as world:
        assert check_world(world, ["gymnasium/NumberGame-v0/0", "gymnasium/NumberGame-v0/2001"]) == []


def test_its_tasks_are_seeds_and_its_copies_hold_the_same_number() -> None:
    with GymnasiumWorld(**OPTIONS) as world:
        env = world.make("gymnasium/NumberGame-v0/7")
        first = env.reset()
        assert (first.text, env.goal, len(first.admissible_actions)) == ("Guess.", "Find the number.", 4)
        right = [[action for action in first.admissible_actions if _right(world, action)] for _ in range(2)]
        assert right[0] == right[1] and len(right[0]) == 1


def _right(world: GymnasiumWorld, action: str) -> bool:
    env = world.make("gymnasium/NumberGame-v0/7")
    env.reset()
    seen = env.step(action)
    assert seen.ended == seen.success == (seen.text == "Right.")
    return seen.success


def test_an_agent_plays_copies_of_it_to_success() -> None:
    with load_world("gymnasium", OPTIONS) as world:
        task = world.task("gymnasium/NumberGame-v0/3")
        episode = play_episode(task, policy=AgentPolicy(RandomAgent()), num_envs=4, max_turns=9, world=world)
    assert episode.success and episode.goal == "Find the number."


def test_options_reach_the_environment_and_rewards_can_decide() -> None:
    env = make("gymnasium/NumberGame-v0/0", **OPTIONS, kwargs={"highest": 1}, success_reward=2.0, goal="Guess well.")
    assert env.reset().admissible_actions == ("say 1",) and env.goal == "Guess well."
    assert not env.step("say 2").valid
    seen = env.step("say 1")
    assert (seen.ended, seen.success, seen.score) == (True, False, 1.0)
    env.close()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({}, "env_id"),
        ({"env_id": "NoSuchGame-v0"}, "NoSuchGame"),
        ({**OPTIONS, "env_id": "ButtonGame-v0"}, "Text only"),
        ({"env_id": "X-v0", "module": "no_such_module"}, "no_such_module"),
        ({**OPTIONS, "colour": "red"}, "colour"),
    ],
)
def test_what_cannot_be_made_is_a_wrong_request(options: dict[str, str], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        make(f"gymnasium/{options.get('env_id', 'X')}/0", **options)


@pytest.mark.parametrize("task", ["NumberGame-v0/1500", "NumberGame-v0/-1", "NumberGame-v0/01", "Other-v0/1", ""])
def test_a_seed_outside_the_lists_is_no_task(task: str) -> None:
    with GymnasiumWorld(**OPTIONS) as world, pytest.raises(TaskError):
        world.task(f"gymnasium/{task}")
