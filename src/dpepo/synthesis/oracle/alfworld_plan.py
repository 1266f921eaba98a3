"""The way on towards the goal of an ALFWorld game, by what has been seen so far. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from dpepo.envs.alfworld.observed import kind_of
from dpepo.synthesis.oracle.alfworld_seen import LOOK, TWO, Copy, House, Move

TOOLS = {"clean": "sinkbasin", "heat": "microwave", "cool": "fridge"}
"""What is used to clean, heat and cool a thing."""

_TREATMENTS = {  # task type to the verb and what it makes of a thing
    "pick_clean_then_place_in_recep": ("clean", "clean"),
    "pick_heat_then_place_in_recep": ("heat", "hot"),
    "pick_cool_then_place_in_recep": ("cool", "cool"),
}


class Errand(NamedTuple):
    """Something to be done at a place, however far it is."""

    verb: str
    place: str
    thing: str


def plan(house: House, copy: Copy) -> list[Move]:
    """The shortest way on in one copy.

    Where something that the goal needs has not been seen, the plan covers what can be done before it is found, and is empty
    where nothing can.
    """
    options = _lighting(house, copy) if house.goal.task_type == LOOK else _placing(house, copy)
    return min((_moves(house, copy, errands) for errands in options), key=lambda moves: _length(house, copy, moves), default=[])


def _moves(house: House, copy: Copy, errands: Sequence[Errand]) -> list[Move]:
    """Errands with the ways between them, and what has to be opened on the way."""
    moves: list[Move] = []
    here, opened = copy.mind.here, set()
    for verb, place, thing in errands:
        if place != here:
            moves.append(Move("go", place))
            here = place
        if verb in ("take", "put") and place not in opened and house.is_closed(copy, place):
            moves.append(Move("open", place))
            opened.add(place)
        moves.append(Move(verb, place, thing))
    return moves


def _length(house: House, copy: Copy, moves: Sequence[Move]) -> float:
    """Number of moves; a place that may turn out to be closed counts as half a move more."""
    unknown = {move.place for move in moves if move.verb in ("take", "put")} - house.start.keys() - house.closed
    return len(moves) + 0.5 * len(unknown)


def _lighting(house: House, copy: Copy) -> Iterator[list[Errand]]:
    """Take the thing, then turn on a lamp."""
    lamps = [Errand("use", s.place, s.thing) for s in house.sights() if kind_of(s.thing) == house.goal.place]
    if copy.mind.held:
        yield from ([lamp] for lamp in lamps)
        return
    for thing, place in _targets(house, copy):
        take = Errand("take", place, thing)
        yield from ([take, lamp] for lamp in lamps)
        if not lamps:
            yield [take]


def _placing(house: House, copy: Copy) -> Iterator[list[Errand]]:
    """Bring one thing or two, treated if asked, to a place of the goal's kind."""
    targets = _targets(house, copy)
    for dest in _destinations(house, copy):
        there = {thing for thing, place in targets if place == dest} if house.goal.task_type == TWO else set()
        loose = [(thing, place) for thing, place in targets if thing not in there]
        last = house.goal.task_type != TWO or bool(there)  # one more thing and the goal is reached
        held = copy.mind.held
        firsts = [[Errand("take", place, thing)] for thing, place in loose] if not held else [[]]
        for first in firsts:
            thing = first[0].thing if first else held
            rest = [] if last else [(other, place) for other, place in loose if other != thing]
            for treatment in _treatments(house, copy, thing):
                brought = [*first, *treatment, Errand("put", dest, thing)]
                yield from ([*brought, Errand("take", place, other), Errand("put", dest, other)] for other, place in rest)
                if not rest:
                    yield brought


def _targets(house: House, copy: Copy) -> list[tuple[str, str]]:
    """Things of the kind asked for that can be taken, each with its place."""
    return [
        (thing, place) for place in house.places for thing in house.things(copy, place) if kind_of(thing) == house.goal.target
    ]


def _destinations(house: House, copy: Copy) -> list[str]:
    """Places that the goal may mean; where two things are asked for, the place that holds one already."""
    places = [place for place in house.places if kind_of(place) == house.goal.place]
    if house.goal.task_type != TWO:
        return places
    begun = [place for place in places if place in copy.put.values()]
    begun = begun or [place for _, place in _targets(house, copy) if place in places]
    return begun or places


def _treatments(house: House, copy: Copy, thing: str) -> list[list[Errand]]:
    """What has to be done to a thing before it is put, a list for each place that can do it."""
    verb, quality = _TREATMENTS.get(house.goal.task_type, ("", ""))
    if not verb or quality in copy.mind.qualities.get(thing, ()):
        return [[]]
    return [[Errand(verb, place, thing)] for place in house.places if kind_of(place) == TOOLS[verb]]
