"""The hand-written examples of a world are true: played again they bring the same answers, and the goal."""

from __future__ import annotations

from collections import Counter

import pytest

from dpepo.envs import Bundle, World, load_world
from dpepo.protocol import format_reply, parse_reply
from dpepo.synthesis.examples import ExampleEpisode, load_examples, show_examples

ALFWORLD = load_examples("alfworld")


@pytest.fixture(scope="module")
def alfworld() -> World:
    return load_world("alfworld", {})


@pytest.mark.parametrize("example", ALFWORLD, ids=lambda example: example.task)
def test_an_example_of_alfworld_replays_to_its_goal(example: ExampleEpisode, alfworld: World) -> None:
    bundle = Bundle(alfworld, example.task, example.num_envs)
    start = bundle.reset()
    assert (start.goal, start.initial.text) == (example.goal, example.initial)
    offered = dict.fromkeys(range(1, example.num_envs + 1), start.initial.admissible_actions)
    won = False
    for turn in example.turns:
        reply = parse_reply(format_reply(turn.thought, turn.actions), num_envs=example.num_envs)
        assert (reply.thought, dict(reply.actions), reply.problems) == (turn.thought, dict(turn.actions), ())
        assert not won
        assert all(action in offered[env_id] for env_id, action in turn.actions.items())
        seen = bundle.step(turn.actions)
        assert {env_id: observation.text for env_id, observation in seen.items()} == dict(turn.answers)
        offered |= {env_id: observation.admissible_actions for env_id, observation in seen.items()}
        won = any(observation.success for observation in seen.values())
    assert won
    bundle.close()


def test_five_examples_of_alfworld_show_different_tasks_and_habits_in_four_environments() -> None:
    types = Counter(example.task.split("/")[2] for example in ALFWORLD)
    assert (len(ALFWORLD), max(types.values())) == (5, 1)
    assert all(example.task.startswith("alfworld/generated_train/") and example.num_envs == 4 for example in ALFWORLD)
    assert len({example.shows for example in ALFWORLD}) == 5
    assert all(len(example.turns[0].actions) > 1 and len(example.turns[-1].actions) == 1 for example in ALFWORLD)
    thoughts = [turn.thought for example in ALFWORLD for turn in example.turns]
    assert len(set(thoughts)) == len(thoughts)


def test_examples_are_shown_to_a_teacher_as_text() -> None:
    text = show_examples(ALFWORLD)
    assert text.count("Example ") == 5
    assert "Environment 2 answers: You pick up the spraybottle 1 from the cabinet 4." in text
