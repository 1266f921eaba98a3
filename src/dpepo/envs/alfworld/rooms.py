"""The 120 rooms of ALFWorld and what is known about games in them: the data that generated games are drawn from.

``rooms.json`` is written by ``benchmarks/alfworld_rooms.py``, which says what is measured and how. 108 rooms are those of the
real training games; the other twelve (`UNSEEN_ROOMS`) are the floor plans that upstream keeps for its unseen splits.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

UNSEEN_ROOMS = (9, 10, 29, 215, 219, 226, 308, 315, 325, 404, 424, 425)
"""Floor plans in which no real training game plays; ``generated_test`` plays in these, and only there."""


@dataclass(frozen=True)
class Receptacle:
    """A place for objects, e.g. a shelf."""

    name: str  # the simulator's, e.g. "Cabinet|-00.48|+02.05|+00.39"
    kind: str  # e.g. "Cabinet"
    place: str  # where the agent stands at it: "x|z|rotation|horizon", in quarter metres, quarter turns and degrees
    openable: bool  # some cabinets and drawers are not
    weight: float  # how much lies in it, relative to others of the room
    room_for: int  # how many objects it holds at most


@dataclass(frozen=True)
class Fixture:
    """An immovable thing that texts can show, e.g. a desk lamp."""

    name: str
    kind: str
    place: str  # as of a receptacle; empty when it has none
    inside: tuple[int, ...]  # numbers of the receptacles it stands in or on


@dataclass(frozen=True)
class Overlap:
    """Objects that lie in several receptacles at once, e.g. a mug in the coffee machine, hence on the counter under it."""

    kind: str  # of the object
    receptacle: int  # where it was put
    also: tuple[int, ...]  # where it then lies as well
    share: float  # how often, in [0, 1]


@dataclass(frozen=True)
class Room:
    """One floor plan."""

    number: int
    kind: str  # "kitchen", "living_room", "bedroom" or "bathroom"
    games: int  # how many real games it was measured in; 0 for `UNSEEN_ROOMS`
    receptacles: tuple[Receptacle, ...]
    fixtures: tuple[Fixture, ...]
    counts: dict[str, tuple[int, ...]]  # movable kind to: in how many games there were 0, 1, 2, ... of it
    overlaps: tuple[Overlap, ...]
    receptacle_kinds: frozenset[str]
    pull: dict[str, float]  # task type to how much more often games of it play here than the goals alone would have it


@dataclass(frozen=True)
class Goal:
    """What a game may ask for."""

    target: str  # kind of object
    place: str  # kind of receptacle; of lamp for "look_at_obj_in_light"
    weight: float  # how often games of the task type ask for it, relative to others


@dataclass(frozen=True)
class Statistics:
    """What holds in all rooms."""

    movable: tuple[str, ...]  # kinds of objects that can be carried
    containers: frozenset[str]  # those of them that can hold others (bowls, ...)
    can_hold: dict[str, frozenset[str]]  # kind of receptacle to kinds of objects
    properties: dict[str, frozenset[str]]  # "cleanable", ... to kinds of objects
    goals: dict[str, dict[str, tuple[Goal, ...]]]  # task type to kind of room to goals
    targets: dict[str, dict[str, tuple[int, ...]]]  # task type to target to: in how many games there were 0, 1, 2, ... of it
    cleared: dict[str, dict[str, float]]  # "goal" or "tool" to kind of receptacle to the share of games in which that is empty
    reach: dict[
        str, tuple[float, float, float]
    ]  # kind of receptacle to where objects lie, from its middle in metres: aside, from, up to
    floor: dict[str, float]  # kind of object to the share that lies in no receptacle
    affinity: dict[str, dict[str, float]]  # kind of object to kind of receptacle to how well it goes there


@cache
def all_rooms() -> dict[int, Room]:
    """Every room by its floor plan's number."""
    return {int(number): _room(int(number), entry) for number, entry in _data()["rooms"].items()}


@cache
def statistics() -> Statistics:
    """What holds in all rooms."""
    data = _data()
    return Statistics(
        movable=tuple(data["movable"]),
        containers=frozenset(data["containers"]),
        can_hold={kind: frozenset(kinds) for kind, kinds in data["can_hold"].items()},
        properties={name: frozenset(kinds) for name, kinds in data["properties"].items()},
        goals={
            task_type: {kind: tuple(Goal(*row) for row in rows) for kind, rows in kinds.items()}
            for task_type, kinds in data["goals"].items()
        },
        targets={name: {kind: tuple(row) for kind, row in rows.items()} for name, rows in data["targets"].items()},
        cleared=data["cleared"],
        reach={kind: (aside, down, up) for kind, (aside, down, up) in data["reach"].items()},
        floor={kind: percent / 100 for kind, percent in data["floor"].items()},
        affinity=data["affinity"],
    )


def seen_rooms() -> tuple[int, ...]:
    """Numbers of the rooms that real training games play in."""
    return tuple(number for number in all_rooms() if number not in UNSEEN_ROOMS)


def kind_of(name: str) -> str:
    """Kind of a thing by the simulator's name.

    >>> kind_of("Mug|-00.84|+01.65|-02.68"), kind_of("Sink|-01.11|+00.93|+00.34|SinkBasin")
    ('Mug', 'SinkBasin')
    """
    parts = name.split("|")
    return parts[-1] if parts[-1].endswith("Basin") else parts[0]


@cache
def _data() -> Any:
    return json.loads(files("dpepo.envs.alfworld").joinpath("rooms.json").read_text(encoding="utf-8"))


def _room(number: int, entry: dict[str, Any]) -> Room:
    return Room(
        number=number,
        kind=entry["kind"],
        games=entry["games"],
        receptacles=tuple(
            Receptacle(name, kind_of(name), place, bool(openable), weight, room_for)
            for name, place, openable, weight, room_for in entry["receptacles"]
        ),
        fixtures=tuple(Fixture(name, kind_of(name), place, tuple(inside)) for name, place, inside in entry["fixtures"]),
        counts={kind: tuple(row) for kind, row in entry["counts"].items()},
        overlaps=tuple(Overlap(kind, here, tuple(also), percent / 100) for kind, here, also, percent in entry["overlaps"]),
        pull=entry["pull"],
        receptacle_kinds=frozenset(kind_of(name) for name, *_ in entry["receptacles"]),
    )
