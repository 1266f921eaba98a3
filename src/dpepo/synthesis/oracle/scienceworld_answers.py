"""Tasks that end in a choice: which answers there are, and how two inclined planes are compared. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from dpepo.synthesis.oracle.scienceworld_plan import verb
from dpepo.synthesis.oracle.scienceworld_seen import ROOMS
from dpepo.types import EpisodeView

_BOX = re.compile(r"\b([a-z]+ box)\b")
_DOWN = re.compile(r"approximately (\d+)% down the plane")
_BOTTOM = re.compile(r"at the bottom|100% down")
_NO_ANIMALS = frozenset(
    [
        "agent",
        "air",
        "axe",
        "box",
        "door",
        "fire",
        "pit",
        "fountain",
        "ground",
        "soil",
        "wood",
        "water",
        "substance",
        "flower",
        "pot",
        "jug",
        "shovel",
        "sink",
        "bee",
        "hive",
        "seed",
        "jar",
        "picture",
        "chair",
        "table",
        "bed",
        "counter",
        "cupboard",
    ]
)
CROSSING_ROOM = "greenhouse"  # where plants are crossed, and the boxes for the answer are
PLANES_ROOM = "workshop"  # where the package puts all inclined planes
_FASTER = ("steepest", "least friction")
_MIN_GAP = 3  # percent of the plane by which two positions must differ to be told apart


def boxes(goal: str) -> tuple[str, ...]:
    """The boxes that a goal offers as answers; empty unless there are two.

    >>> boxes("If it conducts, place it in the red box. If not, place it in the green box.")
    ('red box', 'green box')
    """
    named = tuple(dict.fromkeys(_BOX.findall(goal)))
    return named if len(named) == 2 else ()


def other_box(action: str, goal: str) -> str:
    """The same action with the goal's other box; empty where there is none.

    >>> other_box("focus on red box", "If dominant, focus on the red box, else focus on the green box.")
    'focus on green box'
    """
    offered = boxes(goal)
    if not offered or not action.endswith(offered):
        return ""
    mine = next(box for box in offered if action.endswith(box))
    return action.removesuffix(mine) + next(box for box in offered if box != mine)


def asks_life_span(goal: str) -> bool:
    """Whether a goal asks to choose an animal by its life span."""
    return "life span" in goal


def animals(objects: Sequence[str], *, but: str) -> list[str]:
    """Listed things that may be animals, without one of them.

    Args:
        objects: An observation's list.
        but: Name that is left out.
    """
    left_out = set(but.lower().split())
    return [
        name
        for name in objects
        if not _NO_ANIMALS & set(name.lower().split())
        and name not in ROOMS
        and not left_out <= set(name.split())
        and not set(name.split()) <= left_out
    ]


class Planes(NamedTuple):
    """Two inclined planes to compare."""

    place: tuple[str, str]  # actions that put the block on each
    names: tuple[str, str]
    room: str
    faster: bool  # whether the plane is asked for on which things slide faster


def find_planes(gold: Sequence[str], goal: str) -> Planes | None:
    """The comparison that a goal asks for; None where it is about something else."""
    place = tuple(dict.fromkeys(action for action in gold if re.match(r"move .+ to inclined plane ", action)))
    if "inclined planes" not in goal or len(place) != 2:
        return None
    first, second = (action.partition(" to ")[2] for action in place)
    faster = any(word in goal for word in _FASTER)
    return Planes(place=(place[0], place[1]), names=(first, second), room=PLANES_ROOM, faster=faster)


def position(text: str) -> int | None:
    """How far down its plane a block is, in percent; None where a text does not say.

    >>> position("an inclined plane B, with: a brick approximately 47% down the plane")
    47
    """
    found = _DOWN.search(text)
    if found:
        return int(found[1])
    return 100 if _BOTTOM.search(text) else None


def plane_readings(view: EpisodeView, planes: Planes) -> dict[str, int]:
    """The latest position read on each plane."""
    latest: dict[str, int] = {}
    for turn in view.turns:
        for step in turn:
            name = step.action.removeprefix("look at ")
            where = position(step.observation.text)
            if verb(step.action) == "look at" and name in planes.names and where is not None:
                latest[name] = where
    return latest


def verdict(planes: Planes, readings: dict[str, int]) -> str | None:
    """The plane asked for, by the positions read; None while they cannot be told apart."""
    if len(readings) < 2:
        return None
    first, second = (readings[name] for name in planes.names)
    if abs(first - second) < _MIN_GAP:
        return None
    return planes.names[0] if (first > second) == planes.faster else planes.names[1]
