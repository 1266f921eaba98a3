"""New games of ALFWorld by seed: a real room, objects drawn and placed as real games have them, a goal that real games ask for.

A game is a function of its task type, seed and the rooms allowed, the same on every machine: only ``random.Random`` with a text
as its seed, its ``random()``, and sorted data take part.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from functools import cache
from itertools import accumulate

from dpepo.envs.alfworld.engine import LoadedGame
from dpepo.envs.alfworld.expert import expert_actions
from dpepo.envs.alfworld.games import TASK_TYPES, Game, Wording
from dpepo.envs.alfworld.problem import SENTENCES, Layout, Placed, problem_text
from dpepo.envs.alfworld.rooms import Goal, Room, all_rooms, kind_of, seen_rooms, statistics
from dpepo.errors import TaskError, did_you_mean

_TOOLS = {
    "pick_heat_then_place_in_recep": "Microwave",
    "pick_cool_then_place_in_recep": "Fridge",
    "pick_clean_then_place_in_recep": "SinkBasin",
}
"""Where a target is treated; none of its kind lies there at the beginning."""

_MAX_DRAWS = 50


def generate_game(task_type: str, *, seed: int, rooms: Sequence[int] | None = None) -> Game:
    """A new game that can be solved; a draw that cannot be is replaced by the next one.

    Args:
        task_type: One of `TASK_TYPES`.
        seed: The game's number; the same number always gives the same game.
        rooms: Floor plans to choose from; None for all that real training games play in.

    Raises:
        TaskError: An unknown task type or floor plan, or the rooms allow no goal of this type.
    """
    for attempt in range(_MAX_DRAWS):
        layout = draw_layout(task_type, seed=seed, attempt=attempt, rooms=rooms)
        if layout is None:
            continue
        problem = problem_text(layout, name=f"plan_generated_{seed}")
        game = Game(problem=problem, sentence=layout.sentence, task_type=task_type, wording=Wording.V2_1_2)
        if expert_actions(LoadedGame(game)):
            return game
    raise TaskError(f"No game of type {task_type} that can be solved was found for seed {seed}")


def draw_layout(task_type: str, *, seed: int, attempt: int = 0, rooms: Sequence[int] | None = None) -> Layout | None:
    """One draw, which may be no game that can be solved; None when a target found no place. Arguments as `generate_game`.

    Raises:
        TaskError: As `generate_game`.
    """
    options, weights = _options(task_type, tuple(sorted(set(seen_rooms() if rooms is None else rooms))))
    rng = random.Random(f"alfworld/{task_type}/{seed}/{attempt}")
    room, goal = options[_pick(weights, rng)]
    layout = Layout(room=room, task_type=task_type, goal=goal)
    cleared = _cleared(layout, rng)
    taken = {receptacle.name for receptacle in room.receptacles} | {fixture.name for fixture in room.fixtures}
    for kind in _shuffled(sorted(room.counts), rng):
        is_target = kind == goal.target
        wanted = statistics().targets[task_type][kind] if is_target else room.counts[kind]
        for _ in range(_pick(wanted, rng)):
            placed = _place(kind, layout, taken, _targetless(layout) if is_target else cleared, rng)
            if placed is None and is_target:
                return None
            layout.objects.append(placed or _on_floor(kind, room, taken, rng))
    layout.start = _start(room, rng)
    words = {"target": goal.target.lower(), "place": goal.place.lower()}
    layout.sentence = SENTENCES[task_type][int(rng.random() * 2)].format(**words)
    return layout


@cache
def _options(task_type: str, numbers: tuple[int, ...]) -> tuple[list[tuple[Room, Goal]], list[float]]:
    """Rooms with a goal each, and how often each pair is drawn."""
    if task_type not in TASK_TYPES:
        raise TaskError(f"ALFWorld has no task type {task_type!r}. {did_you_mean(task_type, TASK_TYPES)}")
    for number in numbers:
        if number not in all_rooms():
            raise TaskError(f"ALFWorld has no floor plan {number}: they are 1-30, 201-230, 301-330 and 401-430")
    pairs = [
        (room, goal)
        for kind, goals in statistics().goals[task_type].items()
        for goal in goals
        for room in (all_rooms()[number] for number in numbers)
        if room.kind == kind and _fits(room, goal, task_type)
    ]
    if not pairs:
        raise TaskError(f"None of the floor plans {list(numbers)} can hold a game of type {task_type}")
    return pairs, [goal.weight * _pull(task_type, room, pairs) for room, goal in pairs]


def _pull(task_type: str, room: Room, pairs: Sequence[tuple[Room, Goal]]) -> float:
    """How much more often games play in a room than its goals alone would have it.

    Measured where there are real games; the other rooms of a kind share its games equally.
    """
    if room.games:
        return room.pull.get(task_type, 0.0)
    goals = statistics().goals[task_type][room.kind]
    like_it = {other.number for other, _ in pairs if other.kind == room.kind and not other.games}
    own = sum(goal.weight for other, goal in pairs if other is room)
    return sum(goal.weight for goal in goals) / len(like_it) / own


def _fits(room: Room, goal: Goal, task_type: str) -> bool:
    """Whether the room has what the goal needs."""
    if goal.target not in room.counts or _TOOLS.get(task_type, goal.place) not in {*room.receptacle_kinds, goal.place}:
        return False
    if task_type == "look_at_obj_in_light":
        return any(fixture.kind == goal.place and fixture.inside for fixture in room.fixtures)
    return goal.place in room.receptacle_kinds


def _place(kind: str, layout: Layout, taken: set[str], barred: frozenset[int], rng: random.Random) -> Placed | None:
    """Put one more object of a kind somewhere; None when nothing can hold it.

    Args:
        kind: Of the object.
        layout: What is placed already.
        taken: Names in use; the object's is added.
        barred: Numbers of receptacles that it must not lie in.
        rng: Source of chance.
    """
    room, numbers = layout.room, statistics()
    if kind != layout.goal.target and rng.random() < numbers.floor.get(kind, 0.0):
        return _on_floor(kind, room, taken, rng)
    affinity = numbers.affinity.get(kind, {})
    filled = Counter(number for placed in layout.objects for number in placed.inside)
    weights = []
    for number, receptacle in enumerate(room.receptacles):
        left = 0.0 if number in barred else max(0.0, 1 - filled[number] / receptacle.room_for)
        weights.append(left * receptacle.weight * affinity.get(receptacle.kind, 0.0))
    if sum(weights) <= 0:
        return None
    number = _pick(weights, rng)
    also = _also(kind, number, room, rng)
    inside = (number,) if barred & set(also) else (number, *also)
    home = room.receptacles[number]
    return Placed(_name(kind, home.name, taken, rng), home.place, inside)


def _targetless(layout: Layout) -> frozenset[int]:
    """Receptacles that no target lies in at the beginning: those it is to be put in, or treated with."""
    kind = _TOOLS.get(layout.task_type, layout.goal.place)
    return frozenset(number for number, receptacle in enumerate(layout.room.receptacles) if receptacle.kind == kind)


def _cleared(layout: Layout, rng: random.Random) -> frozenset[int]:
    """Receptacles that are kept free for the goal: nothing lies in them at the beginning."""
    shares = statistics().cleared
    tool = _TOOLS.get(layout.task_type, "")
    cleared = set()
    for number, receptacle in enumerate(layout.room.receptacles):
        role = "goal" if receptacle.kind == layout.goal.place else "tool" if receptacle.kind == tool else ""
        if role and rng.random() < shares[role].get(receptacle.kind, 0.0):
            cleared.add(number)
    return frozenset(cleared)


def _also(kind: str, number: int, room: Room, rng: random.Random) -> tuple[int, ...]:
    """Other receptacles that an object then lies in as well."""
    options = [overlap for overlap in room.overlaps if overlap.kind == kind and overlap.receptacle == number]
    chance = rng.random()
    for overlap, limit in zip(options, accumulate(overlap.share for overlap in options), strict=True):
        if chance < limit:
            return overlap.also
    return ()


def _on_floor(kind: str, room: Room, taken: set[str], rng: random.Random) -> Placed:
    """An object in no receptacle: nobody can see it, but it is numbered with its kind."""
    near = room.receptacles[int(rng.random() * len(room.receptacles))]
    return Placed(_name(kind, near.name, taken, rng), _free_place(room, rng))


def _name(kind: str, home: str, taken: set[str], rng: random.Random) -> str:
    """A name with a position in or near `home` that nothing has yet."""
    x, y, z = (float(part) for part in home.split("|")[1:4])
    aside, down, up = statistics().reach.get(kind_of(home), (0.3, 0.0, 0.2))
    while True:
        aside += 0.01  # where many things share a narrow place, it widens
        at = (x + aside * (2 * rng.random() - 1), y + down + (up - down) * rng.random(), z + aside * (2 * rng.random() - 1))
        name = "|".join([kind, *map(_coordinate, at)])
        if name not in taken:
            taken.add(name)
            return name


def _coordinate(value: float) -> str:
    """Metres as the simulator writes them: "+01.65", "-00.84", "00.00"."""
    text = f"{value:+06.2f}"
    return text[1:] if text.endswith("00.00") else text


def _start(room: Room, rng: random.Random) -> str:
    """Where the agent stands at the beginning: in the middle, at no receptacle."""
    return _free_place(room, rng, horizon="30")


def _free_place(room: Room, rng: random.Random, horizon: str = "0") -> str:
    """A standing place at no receptacle."""
    taken = {receptacle.place for receptacle in room.receptacles}
    points = [tuple(int(part) for part in place.split("|")[:2]) for place in sorted(taken)]
    while True:
        first, second = (points[int(rng.random() * len(points))] for _ in range(2))
        turn = int(rng.random() * 4)
        place = f"{first[0]}|{second[1]}|{turn}|{horizon}"
        if place not in taken:
            return place


def _shuffled(kinds: list[str], rng: random.Random) -> list[str]:
    return [kind for _, kind in sorted((rng.random(), kind) for kind in kinds)]


def _pick(weights: Sequence[float], rng: random.Random) -> int:
    """An index, as often as its weight says."""
    limits = list(accumulate(weights))
    chance = rng.random() * limits[-1]
    return next((index for index, limit in enumerate(limits) if chance < limit), len(limits) - 1)
