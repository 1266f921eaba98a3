"""Writes a room with its objects and a goal as a PDDL problem, in the names and facts of the real games."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from dpepo.envs.alfworld.rooms import Fixture, Goal, Room, kind_of, statistics

_PLACE_GOAL = "(and (exists (?r - receptacle) (exists (?o - object) (and {facts}))))"
_IN_PLACE = "(objectType ?o {target}Type) (receptacleType ?r {place}Type) (inReceptacle ?o ?r)"
_TWO_GOAL = (
    "(and (exists (?r - receptacle) (exists (?o1 - object) (and (objectType ?o1 {target}Type) (receptacleType ?r {place}Type) "
    "(inReceptacle ?o1 ?r) (exists (?o2 - object) (and (not (= ?o1 ?o2)) (objectType ?o2 {target}Type) "
    "(receptacleType ?r {place}Type) (inReceptacle ?o2 ?r)))))))"
)
_LIGHT_GOAL = (
    "(and (exists (?ot - object ?r - receptacle ?a - agent ?l - location) (and (objectType ?ot {place}Type) (toggleable ?ot) "
    "(isToggled ?ot) (receptacleAtLocation ?r ?l) (atLocation ?a ?l) (inReceptacle ?ot ?r))) "
    "(exists (?o - object ?a - agent) (and (objectType ?o {target}Type) (holds ?a ?o))))"
)
_GOALS = {
    "pick_and_place_simple": _PLACE_GOAL.format(facts=_IN_PLACE),
    "pick_clean_then_place_in_recep": _PLACE_GOAL.format(facts="(cleanable ?o) (isClean ?o) " + _IN_PLACE),
    "pick_heat_then_place_in_recep": _PLACE_GOAL.format(facts="(heatable ?o) (isHot ?o) " + _IN_PLACE),
    "pick_cool_then_place_in_recep": _PLACE_GOAL.format(facts="(coolable ?o) (isCool ?o) " + _IN_PLACE),
    "pick_two_obj_and_place": _TWO_GOAL,
    "look_at_obj_in_light": _LIGHT_GOAL,
}
SENTENCES = {
    "pick_and_place_simple": ("put a {target} in {place}.", "put some {target} on {place}."),
    "pick_clean_then_place_in_recep": ("put a clean {target} in {place}.", "clean some {target} and put it in {place}."),
    "pick_heat_then_place_in_recep": ("put a hot {target} in {place}.", "heat some {target} and put it in {place}."),
    "pick_cool_then_place_in_recep": ("put a cool {target} in {place}.", "cool some {target} and put it in {place}."),
    "pick_two_obj_and_place": ("put two {target} in {place}.", "find two {target} and put them in {place}."),
    "look_at_obj_in_light": ("look at {target} under the {place}.", "examine the {target} with the {place}."),
}
"""The templates of the real games; both are equally frequent."""


@dataclass
class Placed:
    """A movable object and where it lies."""

    name: str  # e.g. "Mug|-00.84|+01.65|-02.68"
    place: str  # as of a receptacle
    inside: tuple[int, ...] = ()  # numbers of the receptacles it lies in; none for the floor
    container: str = ""  # name of the object it lies in, if any


@dataclass
class Layout:
    """A room with its objects, before it is written down."""

    room: Room
    task_type: str
    goal: Goal
    objects: list[Placed] = field(default_factory=list)
    start: str = ""  # where the agent stands
    sentence: str = ""  # the task in words


def pddl_name(name: str) -> str:
    """A name of the simulator as PDDL writes it.

    >>> pddl_name("Mug|-00.84|+01.65|-02.68")
    'Mug_bar__minus_00_dot_84_bar__plus_01_dot_65_bar__minus_02_dot_68'
    """
    return name.replace("|", "_bar_").replace("-", "_minus_").replace("+", "_plus_").replace(".", "_dot_")


def problem_text(layout: Layout, *, name: str) -> str:
    """The problem as PDDL.

    Args:
        layout: What is where.
        name: The problem's own name; texts never show it.
    """
    things: list[Fixture | Placed] = [*layout.room.fixtures, *layout.objects]
    kinds = sorted({kind_of(thing.name) for thing in things} | {"Knife", "ButterKnife"} | {layout.goal.target})
    receptacle_kinds = sorted({*layout.room.receptacle_kinds, "Microwave", "Fridge", "SinkBasin", layout.goal.place})
    if layout.task_type == "look_at_obj_in_light":
        receptacle_kinds.remove(layout.goal.place)
        kinds = sorted({*kinds, layout.goal.place})
    places = {thing.place for thing in things if thing.place} | {r.place for r in layout.room.receptacles} | {layout.start}
    declared = [
        "agent1 - agent",
        *(f"{kind}Type - otype" for kind in kinds),
        *(f"{kind}Type - rtype" for kind in receptacle_kinds),
        *(f"{pddl_name(thing.name)} - object" for thing in things),
        *(f"{pddl_name(receptacle.name)} - receptacle" for receptacle in layout.room.receptacles),
        *(f"{_location(place)} - location" for place in sorted(places)),
    ]
    goal = _GOALS[layout.task_type].format(target=layout.goal.target, place=layout.goal.place)
    return (
        f"(define (problem {name})\n(:domain alfred)\n(:objects\n{_lines(declared)})\n"
        f"(:init\n{_lines(_facts(layout))})\n(:goal\n    {goal}\n)\n)\n"
    )


def _lines(items: Iterable[str]) -> str:
    return "".join(f"    {item}\n" for item in items)


def _location(place: str) -> str:
    return pddl_name(f"loc|{place}")


def _facts(layout: Layout) -> list[str]:
    """Everything that holds at the beginning; openable receptacles are closed."""
    numbers = statistics()
    receptacles = [(pddl_name(receptacle.name), receptacle) for receptacle in layout.room.receptacles]
    everything: list[Fixture | Placed] = [*layout.room.fixtures, *layout.objects]
    things = [(pddl_name(thing.name), kind_of(thing.name), thing) for thing in everything]
    kinds = {kind for _, kind, _ in things}
    facts = [f"receptacleType {name} {receptacle.kind}Type" for name, receptacle in receptacles]
    facts += [f"objectType {name} {kind}Type" for name, kind, _ in things]
    facts += [
        f"canContain {receptacle}Type {kind}Type"
        for receptacle in sorted(layout.room.receptacle_kinds)
        for kind in sorted(numbers.can_hold.get(receptacle, frozenset()) & kinds)
    ]
    facts += [f"pickupable {pddl_name(thing.name)}" for thing in layout.objects]
    facts += [f"isReceptacleObject {name}" for name, kind, _ in things if kind in numbers.containers]
    facts += [f"openable {name}" for name, receptacle in receptacles if receptacle.openable]
    facts.append(f"atLocation agent1 {_location(layout.start)}")
    for quality, suited in numbers.properties.items():
        facts += [f"{quality} {name}" for name, kind, _ in things if kind in suited]
    facts += [f"inReceptacle {name} {receptacles[number][0]}" for name, _, thing in things for number in thing.inside]
    facts += [f"inReceptacleObject {pddl_name(o.name)} {pddl_name(o.container)}" for o in layout.objects if o.container]
    facts += [f"receptacleAtLocation {name} {_location(receptacle.place)}" for name, receptacle in receptacles]
    facts += [f"objectAtLocation {name} {_location(thing.place)}" for name, _, thing in things if thing.place]
    facts += [f"isCool {pddl_name(thing.name)}" for thing in _cooled(layout)]
    return [f"({fact})" for fact in facts]


def _cooled(layout: Layout) -> list[Placed]:
    """Objects of the goal's kind that lie in a fridge: real games call these, and only these, cool from the beginning."""
    fridges = {number for number, receptacle in enumerate(layout.room.receptacles) if receptacle.kind == "Fridge"}
    return [thing for thing in layout.objects if fridges & set(thing.inside) and kind_of(thing.name) == layout.goal.target]
