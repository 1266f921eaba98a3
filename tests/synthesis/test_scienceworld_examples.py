"""The hand-written examples of ScienceWorld are true: played again they bring the same answers, and the goal."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dpepo.envs import Bundle, World, load_world
from dpepo.protocol import format_reply, parse_reply
from dpepo.synthesis.examples import ExampleEpisode, load_examples

EXAMPLES = load_examples("scienceworld")


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with load_world("scienceworld", {}) as opened:
        yield opened


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.task)
def test_an_example_replays_to_its_goal(example: ExampleEpisode, world: World) -> None:
    bundle = Bundle(world, example.task, example.num_envs)
    start = bundle.reset()
    assert (start.goal, start.initial.text) == (example.goal, example.initial)
    won = False
    for turn in example.turns:
        reply = parse_reply(format_reply(turn.thought, turn.actions), num_envs=example.num_envs)
        assert (reply.thought, dict(reply.actions), reply.problems) == (turn.thought, dict(turn.actions), ())
        assert not won
        seen = bundle.step(turn.actions)
        assert {env_id: observation.text for env_id, observation in seen.items()} == dict(turn.answers)
        assert all(observation.valid for observation in seen.values())
        won = any(observation.success for observation in seen.values())
    assert won
    bundle.close()


def test_five_examples_show_different_training_tasks_and_habits_in_four_environments(world: World) -> None:
    tasks = [world.task(example.task) for example in EXAMPLES]
    assert len(EXAMPLES) == len({task.name for task in tasks}) == len({example.shows for example in EXAMPLES}) == 5
    assert {task.split for task in tasks} == {"train"}
    assert all(example.num_envs == 4 for example in EXAMPLES)
    assert all(any(len(turn.actions) > 1 for turn in example.turns) for example in EXAMPLES)
    assert all(len(example.turns[-1].actions) == 1 for example in EXAMPLES)
    thoughts = [turn.thought for example in EXAMPLES for turn in example.turns]
    assert len(set(thoughts)) == len(thoughts)
