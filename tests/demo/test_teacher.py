"""The demo's teacher: goes where the goal says, then tries anything that is listed."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from dpepo.demo.teacher import SearchTeacher
from dpepo.protocol import parse_reply
from dpepo.types import EpisodeView, Observation, Step, WorldGuide

GOAL = (
    "Your task is to find the animal with the longest life span.  The animals are in the 'outside' location.  "
    "Focus on the animal with the longest life span."
)
THINGS = ("axe", "dove egg", "fountain", "parrot egg")
HALLWAY = Observation(text="at hallway : picture", objects=("picture",))
OUTSIDE = Observation(text=f"at outside : {' , '.join(THINGS)}", objects=THINGS)


def view(*turns: tuple[Step, ...], num_envs: int = 3, goal: str = GOAL) -> EpisodeView:
    return EpisodeView(goal=goal, guide=WorldGuide(role=""), initial=HALLWAY, turns=turns, num_envs=num_envs)


def actions(seen: EpisodeView, seed: int = 0) -> dict[int, str]:
    said = parse_reply(SearchTeacher().reply(seen, random.Random(seed)), num_envs=seen.num_envs)
    assert said.problems == ()
    return dict(said.actions)


def arrived(*envs: int) -> tuple[Step, ...]:
    return tuple(Step(env_id=env, action="teleport to outside", observation=OUTSIDE) for env in envs)


def test_it_goes_to_the_place_the_goal_names() -> None:
    assert actions(view()) == {1: "teleport to outside", 2: "teleport to outside", 3: "teleport to outside"}
    assert actions(view(arrived(2)))[1] == "teleport to outside"


def test_it_tries_listed_things_blindly_axes_and_fountains_included() -> None:
    """What the model knows about animals after the cold start is nothing: no thing is preferred."""
    tried = Counter(action for seed in range(1000) for action in actions(view(arrived(1, 2, 3)), seed).values())
    assert set(tried) == {f"focus on {thing}" for thing in THINGS}
    assert max(tried.values()) / min(tried.values()) < 1.25


def test_copies_that_ended_are_left_alone() -> None:
    dead = OUTSIDE.model_copy(update={"ended": True, "score": -100.0})
    seen = view(arrived(1, 2, 3), (Step(env_id=2, action="focus on axe", observation=dead),))
    assert set(actions(seen)) == {1, 3}


def test_a_goal_it_does_not_know_is_named() -> None:
    with pytest.raises(ValueError, match="boil water"):
        SearchTeacher().reply(view(goal="Your task is to boil water."), random.Random(0))


def test_nothing_listed_is_no_reason_to_stop() -> None:
    empty = Step(env_id=1, action="teleport to outside", observation=Observation(text="at outside : nothing"))
    assert actions(view((empty,), num_envs=1)) == {1: "teleport to outside"}
