"""What score, end and understanding mean, on the real simulator, and for scores no short test reaches."""

from __future__ import annotations

import pytest

from dpepo.envs.bundle import Bundle
from dpepo.envs.scienceworld.observe import Observer
from dpepo.envs.scienceworld.simulators import Machine, StepResult
from dpepo.envs.scienceworld.world import ScienceWorld

LONGEST = "scienceworld/lifespan-longest-lived/3"  # outside: axe, baby beaver, baby mouse, parrot egg (the right one)
PAINT = "scienceworld/chemistry-mix-paint-secondary-color/0"  # three wood cups in the art studio
CHOICES = "Ambiguous request: Please enter the number"


@pytest.mark.parametrize(
    ("score", "completed", "success", "ended"),
    [
        (100, True, True, True),
        (100, False, True, True),
        (67, True, False, True),  # done by some limit
        (67, False, False, False),
        (0, False, False, False),
        (-100, True, False, True),
        (-100, False, False, True),
    ],
)
def test_success_is_a_score_of_one_hundred_and_nothing_else(
    machine: Machine, score: int, completed: bool, success: bool, ended: bool
) -> None:
    """V01, V02"""
    observer = Observer(compact=False, valid_actions="none", simplifications="easy")
    result = StepResult(text="You wait.", score=score, completed=completed)
    observation = observer.observe(machine, machine.open(), result, "boil")
    assert (observation.success, observation.ended, observation.score) == (success, ended, float(score))


def test_many_actions_do_not_end_an_environment(full: ScienceWorld) -> None:
    """V01: the package calls an episode done after 100 moves; the turn limit of an episode is the rollout's."""
    env = full.make("scienceworld/boil/0")
    env.reset()
    last = [env.step("wait") for _ in range(11)][-1]  # eleven moves each
    assert not last.ended
    assert not last.success


def test_a_wrong_focus_ends_its_environment_as_failed_and_no_other(full: ScienceWorld) -> None:
    """E12"""
    bundle = Bundle(full, LONGEST, 4)
    bundle.reset()
    bundle.step(dict.fromkeys((1, 2, 3), "teleport to outside"))
    first = bundle.step({1: "focus on axe", 2: "look around"})
    assert (first[1].score, first[1].ended, first[1].success) == (-100.0, True, False)
    assert not first[2].ended
    second = bundle.step({1: "look around", 3: "focus on parrot egg", 4: "inventory"})
    assert 1 not in second
    assert (second[3].score, second[3].success) == (100.0, True)
    assert not second[4].ended


def test_an_environment_that_ended_refuses_to_go_on(full: ScienceWorld) -> None:
    """E12, E17"""
    env = full.make(LONGEST)
    env.reset()
    env.step("teleport to outside")
    env.step("focus on axe")
    with pytest.raises(RuntimeError, match="ended"):
        env.step("look around")
    assert not env.reset().ended


@pytest.mark.parametrize("mode", ["full", "compact"])
def test_an_ambiguous_request_is_shown_as_it_is_and_a_number_resolves_it(mode: str, request: pytest.FixtureRequest) -> None:
    """E11"""
    world: ScienceWorld = request.getfixturevalue(mode)
    bundle = Bundle(world, PAINT, 2)
    bundle.reset()
    bundle.step(dict.fromkeys((1, 2), "teleport to art studio"))
    asked = bundle.step({1: "look around", 2: "pick up wood cup"})
    assert asked[2].text.startswith(CHOICES)
    assert asked[2].text.count("pick up wood cup (in art studio)") == 3
    assert asked[2].admissible_actions == ("0", "1", "2")
    assert asked[2].objects == ()
    assert CHOICES not in asked[1].text
    resolved = bundle.step({1: "inventory", 2: "0"})
    assert resolved[2].valid
    assert CHOICES not in resolved[2].text
    carried = [bundle.step({2: "inventory"})[2], resolved[1]]
    if mode == "full":
        assert ["wood cup" in observation.text for observation in carried] == [True, False]


def test_anything_but_a_number_cancels_an_ambiguous_request_and_is_lost(full: ScienceWorld) -> None:
    """E11"""
    env = full.make(PAINT)
    env.reset()
    env.step("teleport to art studio")
    env.step("pick up wood cup")
    cancelled = env.step("teleport to kitchen")
    assert not cancelled.valid
    assert cancelled.text.startswith("Unknown action")
    assert "called the art studio" in env.step("look around").text


def test_a_number_without_a_question_is_not_understood(full: ScienceWorld) -> None:
    """E11"""
    env = full.make(PAINT)
    env.reset()
    assert not env.step("0").valid


def test_compact_observations_say_when_an_action_was_not_understood(compact: ScienceWorld) -> None:
    env = compact.make(LONGEST)
    env.reset()
    here = env.step("teleport to outside")
    assert here.text == "at outside : axe , baby beaver , fire pit , fountain , baby mouse , parrot egg"
    assert here.objects == ("axe", "baby beaver", "fire pit", "fountain", "baby mouse", "parrot egg")
    lost = env.step("dance")
    assert lost.text == f"unknown action | {here.text}"
    assert not lost.valid
    assert env.step("inventory").text == here.text
    assert env.step("focus on baby mouse").score == -100.0


def test_full_observations_are_the_words_of_the_simulator_with_templates_and_objects(full: ScienceWorld) -> None:
    env = full.make(LONGEST)
    start = env.reset()
    assert start.text.startswith("This ")
    assert "focus on OBJ" in start.admissible_actions
    assert "agent" in start.objects
    assert "longest life span" in env.goal


@pytest.mark.parametrize(("mode", "actions", "objects"), [("list", True, False), ("none", False, False)])
def test_offered_actions_follow_the_option(machine: Machine, mode: str, actions: bool, objects: bool) -> None:
    simulator = machine.open()
    result = machine.load(simulator, "lifespan-longest-lived", 3, "easy")
    observer = Observer(compact=False, valid_actions=mode, simplifications="easy")
    start = observer.observe(machine, simulator, result, "lifespan-longest-lived")
    assert bool(start.admissible_actions) is actions
    assert bool(start.objects) is objects
    assert not any("OBJ" in action.split() for action in start.admissible_actions)
