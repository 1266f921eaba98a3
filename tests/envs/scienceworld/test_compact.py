from __future__ import annotations

import pytest

from dpepo.envs.scienceworld.compact import compact_look, room_name, visible_things
from dpepo.envs.scienceworld.simulators import Machine

ROOMS = (
    "kitchen",
    "bathroom",
    "living room",
    "bedroom",
    "workshop",
    "art studio",
    "greenhouse",
    "outside",
    "foundry",
    "hallway",
)


def room(*lines: str, doors: tuple[str, ...] = ("A door to the kitchen (that is open)",)) -> str:
    things = "".join(f"\n\t{line}" for line in lines)
    return f"This room is called the art studio. In it, you see: {things}\nYou also see:" + "".join(f"\n\t{d}" for d in doors)


def test_a_room_becomes_one_line_without_agent_ground_substances_and_doors() -> None:
    look = room("the agent", "a substance called air", "an axe", "a dove egg", "the ground")
    assert compact_look(look) == "at art studio : axe , dove egg"


def test_an_empty_room_keeps_its_name() -> None:
    assert compact_look(room("the agent")) == "at art studio :"


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("a fountain (containing a substance called water)", "fountain"),
        ("a blast furnace, which is turned off. The blast furnace door is closed. ", "blast furnace"),
        ("a bed. On the bed is: a mattress. On the mattress is: a white pillow..", "bed"),
        ("A recipe titled instructions to make blue paper", "recipe"),
        ("a self watering flower pot 1 (containing a dead pear tree, soil)", "self watering flower pot 1"),
        ("an inclined plane with a unknown material H surface", "inclined plane with a unknown material H surface"),
        ("a thermometer, currently reading a temperature of 10 degrees celsius", "thermometer"),
        ("A blank paper", "paper"),
        ("a baby brown bear", "baby brown bear"),
    ],
)
def test_a_thing_is_called_by_its_name_alone(line: str, name: str) -> None:
    assert visible_things(room(line)) == (name,)


def test_things_of_one_name_are_listed_once() -> None:
    cups = [f"a wood cup (containing {colour} paint)" for colour in ("red", "blue")]
    assert visible_things(room(*cups)) == ("wood cup",)


@pytest.mark.parametrize(
    "text", ["", "You focus on the dove egg.", "Ambiguous request: ...\n0:\tlook at cup\n", "This room is"]
)
def test_a_text_that_is_no_room_is_left_as_it_is(text: str) -> None:
    assert compact_look(text) == text
    assert room_name(text) == ""


@pytest.mark.parametrize(
    "task", ["lifespan-longest-lived", "inclined-plane-friction-unnamed-surfaces", "chemistry-mix-paint-secondary-color"]
)
def test_every_listed_name_works_in_an_action(machine: Machine, task: str) -> None:
    simulator = machine.open()
    machine.load(simulator, task, 7, "easy")
    for place in ROOMS:
        machine.step(simulator, f"teleport to {place}")
        for name in visible_things(machine.look(simulator)):
            answer = machine.step(simulator, f"look at {name}").text
            assert not answer.startswith("No known action"), (place, name)
            if answer.startswith("Ambiguous"):
                machine.step(simulator, "0")
