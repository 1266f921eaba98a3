"""The toy world."""

from __future__ import annotations

from typing import Any

import pytest

from dpepo.envs import check_world, load_world, make
from dpepo.envs.toy import SIZES, VARIATIONS, ToyEnv, ToyWorld, layout_of
from dpepo.errors import ConfigError, TaskError
from dpepo.types import Task

ALL = [task for split in ToyWorld.splits for task in ToyWorld().tasks(split)]


def test_every_task_is_in_exactly_one_split() -> None:
    assert len(ALL) == len({task.id for task in ALL}) == len(SIZES) * VARIATIONS


def test_the_expert_solves_every_task() -> None:
    world = ToyWorld()
    for task in ALL:
        env = world.make(task.id)
        env.reset()
        seen = [env.step(action) for action in world.expert(task.id)]
        assert all(step.valid for step in seen), task.id
        assert (seen[-1].success, seen[-1].ended, seen[-1].score) == (True, True, 100.0), task.id


@pytest.mark.parametrize("observation", ["full", "compact"])
def test_the_toy_world_keeps_the_promises_of_a_world(observation: str) -> None:
    """E08."""
    world = ToyWorld(observation=observation)  # type: ignore[arg-type]
    assert check_world(world, ["toy/room/0", "toy/house/3", "toy/castle/39"]) == []


def test_a_layout_is_pinned() -> None:
    """F17: the same id means the same world in every process, Python version and release."""
    layout = layout_of(Task(id="toy/house/3", world="toy", name="house"))
    assert layout.containers == {"study": ("barrel", "basket"), "kitchen": ("pot", "box"), "hall": ("chest", "cabinet")}
    assert layout.contents == {"cabinet": "silver coin", "barrel": "mouse trap"}


def test_an_action_that_is_not_possible_here_changes_nothing() -> None:
    env = ToyEnv(layout_of(ALL[0]))
    before = env.reset()
    for action in ("", "open", "take everything", "go to moon", "open sesame", "\ud800", "take " + layout_of(ALL[0]).target):
        seen = env.step(action)
        assert (seen.text, seen.valid, seen.state) == ("Nothing happens.", False, before.state)


def test_case_and_white_space_of_an_action_do_not_matter() -> None:
    env = ToyEnv(layout_of(ALL[0]))
    assert env.step("  LOOK ") == env.step("look")


def test_stepping_past_the_end_raises() -> None:
    """E17: whoever does that has no guard."""
    with make("toy/room/0") as env:
        env.reset()
        for action in ToyWorld().expert("toy/room/0"):
            env.step(action)
        with pytest.raises(RuntimeError, match="has ended"):
            env.step("look")


def test_compact_observations_list_what_can_be_named() -> None:
    env = ToyWorld(observation="compact").make("toy/house/3")
    assert env.reset().text == "at study : barrel , basket"
    assert env.step("go to hall").text == "at hall : chest , cabinet"
    assert env.step("open cabinet").text == "at hall : chest , cabinet , silver coin"
    assert env.step("fly").text == "unknown action | at hall : chest , cabinet , silver coin"


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"observation": "short"}, "full or compact, got 'short'"),
        ({"fail_at": "a"}, "fail_at .* 0 or more, got 'a'"),
        ({"die_at": -1}, "die_at .* 0 or more, got -1"),
        ({"hang_at": True}, "hang_at .* 0 or more, got True"),
        ({"step_s": "slow"}, "step_s .* seconds, got 'slow'"),
        ({"step_s": float("inf")}, "step_s .* seconds, got inf"),
        ({"fault_action": 3}, "fault_action .* an action, got 3"),
    ],
)
def test_a_wrong_option_value_is_refused(options: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        load_world("toy", options)


@pytest.mark.parametrize(
    "task_id", ["toy/house/40", "toy/house/03", "toy/house/-1", "toy/house", "toy/hut/1", "house/1", "", "toy/room/3/1"]
)
def test_an_id_that_names_no_task_is_refused(task_id: str) -> None:
    with pytest.raises(TaskError):
        ToyWorld().task(task_id)
