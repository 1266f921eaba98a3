"""An expert that reads the state of the game: the shortest plan of the obvious kind, tried out before it is given.

It knows where everything is, so its plan is an upper bound and an oracle's gold path, not a demonstration of how to search.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from dpepo.envs.alfworld.engine import LoadedGame, Node, State
from dpepo.envs.alfworld.games import Wording

_STATIONS = {"isclean": ("clean", "sinkbasintype"), "ishot": ("heat", "microwavetype"), "iscool": ("cool", "fridgetype")}
_MOST_PLANS = 200  # of those that could work; the first one nearly always does


@dataclass(frozen=True)
class _Wanted:
    """What a goal asks for."""

    thing: str  # type of the object
    receptacle: str  # type of the place it has to be put in; "" for "look at it under a lamp"
    lamp: str  # type of the lamp, or ""
    treatment: str  # "isclean", "ishot", "iscool" or ""
    count: int  # objects needed


def expert_actions(game: LoadedGame) -> list[str] | None:
    """Commands that solve a game from its beginning, in its wording; None where no plan of the obvious kind works."""
    wanted = _wanted(game)
    for number, plan in enumerate(_plans(game, wanted)):
        if number >= _MOST_PLANS:
            break
        actions = _tried(game, plan)
        if actions is not None:
            return actions
    return None


def _wanted(game: LoadedGame) -> _Wanted:
    literals = game.problem.goal
    kinds = {word: one.arguments[1] for one in literals if one.predicate == "objecttype" for word in one.arguments[:1]}
    places = {one.arguments[1] for one in literals if one.predicate == "receptacletype"}
    toggled = {one.arguments[0] for one in literals if one.predicate == "istoggled"}
    things = {variable: kind for variable, kind in kinds.items() if variable not in toggled}
    return _Wanted(
        thing=next(iter(things.values()), ""),
        receptacle=min(places, default=""),
        lamp=next((kinds[variable] for variable in toggled), ""),
        treatment=next((one.predicate for one in literals if one.predicate in _STATIONS), ""),
        count=len(things),
    )


Step = tuple[str, ...]


def _plans(game: LoadedGame, wanted: _Wanted) -> Iterator[list[Step]]:
    """Plans as steps (verb, things), cheapest kinds of places first."""
    start = game.start.state
    things = sorted(
        ((thing, where) for thing, where in start.inside if game.types.get(thing) == wanted.thing),
        key=lambda pair: (_effort(game, start, pair[1]), pair),
    )
    if wanted.lamp:
        lamps = [(lamp, where) for lamp, where in sorted(start.inside) if game.types.get(lamp) == wanted.lamp]
        for thing, lamp in product(things, lamps):
            yield [("take", *thing), ("go", lamp[1]), ("use", lamp[0])]
        return
    goals = sorted(
        (place for place, kind in game.receptacle_types.items() if kind == wanted.receptacle and place in game.places),
        key=lambda place: (_effort(game, start, place), place),
    )
    for goal in goals if wanted.count > 1 else ():
        there = {thing for thing, where in things if where == goal}
        for first, second in product(things, things):
            if first[0] != second[0] and not {first[0], second[0]} & there:
                moves = [first, second][: wanted.count - len(there)]
                yield [step for thing in moves for step in (("take", *thing), ("put", thing[0], goal))]
    if wanted.count > 1:
        return
    treatments: list[Step] = [_STATIONS[wanted.treatment]] if wanted.treatment else []
    for thing, goal in product(things, goals):
        treated = (wanted.treatment, thing[0]) in start.marks
        yield [("take", *thing), *([] if treated else treatments), ("put", thing[0], goal)]


def _effort(game: LoadedGame, state: State, receptacle: str) -> int:
    """How much stands between the agent and the inside of a receptacle."""
    return (game.places.get(receptacle) != state.place) + game.is_closed(state, receptacle)


def _tried(game: LoadedGame, plan: list[Step]) -> list[str] | None:
    """The commands of a plan, if it works."""
    node, actions = game.start, list[str]()
    for step in plan:
        for command in _commands(game, node, step):
            node, _, valid = game.step(node, command)
            actions.append(command)
            if not valid:
                return None
            if node.won:
                return actions
    return None


def _commands(game: LoadedGame, node: Node, step: Step) -> Iterator[str]:
    """The commands of one step, as the game stands now."""
    names = game.names
    match step:
        case ("take", thing, where):
            yield from _to_inside(game, node, where)
            yield f"take {names[thing]} from {names[where]}"
        case ("put", thing, where):
            yield from _to_inside(game, node, where)
            form = "move {} to {}" if game.wording is Wording.V2_1_2 else "put {} in/on {}"
            yield form.format(names[thing], names[where])
        case ("go", where):
            yield from _to(game, node, where)
        case ("use", lamp):
            yield f"use {names[lamp]}"
        case (verb, kind):
            station = min(
                (place for place, of in game.receptacle_types.items() if of == kind and place in game.places), default=""
            )
            if station:
                yield from _to(game, node, station)
                yield f"{verb} {names[node.state.held]} with {names[station]}"


def _to(game: LoadedGame, node: Node, receptacle: str) -> Iterator[str]:
    if game.places[receptacle] != node.state.place:
        yield f"go to {game.names[receptacle]}"


def _to_inside(game: LoadedGame, node: Node, receptacle: str) -> Iterator[str]:
    yield from _to(game, node, receptacle)
    if game.is_closed(node.state, receptacle):
        yield f"open {game.names[receptacle]}"
