"""Measures the real ALFWorld games and writes ``src/dpepo/envs/alfworld/rooms.json``, what the generator draws from.

Run once; the result is committed. Needs the real games (release 2.1.1, ``json_2.1.1/{train,valid_seen}``) and the ``alfworld``
package for the twelve floor plans that no such game plays in:

    python benchmarks/alfworld_rooms.py --data ~/.cache/alfworld

What is measured: per floor plan the receptacles with their names, standing places and whether they open (the same in every game
of a floor plan), the immovable things that texts can show, and how many instances of each kind there are; over all floor
plans how a kind spreads over kinds of receptacles; and which goals are asked. Single games are not copied: where an object lies
is drawn anew from weights.

The spread is a log-linear model, ``P(receptacle r | object kind k, room) ~ weight(r) * affinity(k, kind of r)``, fitted by
iterative proportional fitting to counts over all games (the goal's own object kind, which games place by other rules, left
out). ``alfworld_other_rooms.py`` puts the twelve other floor plans together.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter, defaultdict
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

from alfworld_other_rooms import Borrower, kind_of, package_folder, room_kind
from alfworld_real_games import RealGame, Spread

from dpepo.envs.alfworld import generate
from dpepo.envs.alfworld import rooms as rooms_module

OUTPUT = Path(__file__).resolve().parents[1] / "src" / "dpepo" / "envs" / "alfworld" / "rooms.json"
ALL_ROOMS = [*range(1, 31), *range(201, 231), *range(301, 331), *range(401, 431)]


def fit(games: list[RealGame]) -> tuple[dict[tuple[int, str], float], dict[tuple[str, str], float]]:
    """Weights of receptacles (per room) and affinities of object kinds (over all rooms), see the head of this file."""
    joint: Counter[tuple[int, str, str]] = Counter()
    for game in games:
        for thing in game.movable:
            receptacle = game.primary(thing)
            if receptacle and kind_of(thing) != game.target and kind_of(receptacle) not in (game.place, game.tool):
                joint[game.room, kind_of(thing), receptacle] += 1
    per_kind: Counter[tuple[int, str]] = Counter()
    per_receptacle: Counter[tuple[int, str]] = Counter()
    per_pair: Counter[tuple[str, str]] = Counter()
    for (room, kind, receptacle), count in joint.items():
        per_kind[room, kind] += count
        per_receptacle[room, receptacle] += count
        per_pair[kind, kind_of(receptacle)] += count
    fixtures = {game.room: game.receptacles for game in games}
    weight: dict[tuple[int, str], float] = {(room, name): 1.0 for room, names in fixtures.items() for name in names}
    affinity: dict[tuple[str, str], float] = {pair: 1.0 for pair in per_pair}
    for _ in range(60):
        expected = _expected(fixtures, per_kind, weight, affinity)
        for pair in affinity:
            affinity[pair] *= per_pair[pair] / max(1e-9, sum(expected[1][pair]))
        expected = _expected(fixtures, per_kind, weight, affinity)
        for key in weight:
            weight[key] *= (per_receptacle[key] + 0.2) / (expected[0][key] + 0.2)
        _fix_gauge(weight)
    return weight, affinity


def _expected(
    fixtures: dict[int, dict[str, str]],
    per_kind: Counter[tuple[int, str]],
    weight: dict[tuple[int, str], float],
    affinity: dict[tuple[str, str], float],
) -> tuple[dict[tuple[int, str], float], dict[tuple[str, str], list[float]]]:
    receptacles: dict[tuple[int, str], float] = defaultdict(float)
    pairs: dict[tuple[str, str], list[float]] = defaultdict(list)
    for (room, kind), count in per_kind.items():
        scores = {name: weight[room, name] * affinity.get((kind, kind_of(name)), 0.0) for name in fixtures[room]}
        total = sum(scores.values()) or 1.0
        for name, score in scores.items():
            receptacles[room, name] += count * score / total
            pairs[kind, kind_of(name)].append(count * score / total)
    return receptacles, pairs


def _fix_gauge(weight: dict[tuple[int, str], float]) -> None:
    """Only ratios inside a room are measured; scale rooms so that a kind of receptacle weighs alike in all of them."""
    by_kind: dict[str, list[float]] = defaultdict(list)
    for (_, name), value in weight.items():
        by_kind[kind_of(name)].append(max(value, 1e-3))
    middle = {kind: sorted(values)[len(values) // 2] for kind, values in by_kind.items()}
    rooms: dict[int, list[float]] = defaultdict(list)
    for (room, name), value in weight.items():
        rooms[room].append(max(value, 1e-3) / middle[kind_of(name)])
    for room, name in weight:
        weight[room, name] /= sorted(rooms[room])[len(rooms[room]) // 2]


def histogram(values: list[int]) -> list[int]:
    """How often 0, 1, 2, ... occurred."""
    counts = Counter(values)
    return [counts[number] for number in range(max(counts, default=0) + 1)]


def room_for(games: list[RealGame], receptacle: str, single: set[str]) -> int:
    """How many objects a receptacle ever holds, but for one game in fifty; one and a half times that where games are few."""
    if kind_of(receptacle) in single:
        return 1
    counts = sorted(sum(receptacle in inside for inside in game.inside.values()) for game in games)
    return 1 + round(counts[int(0.98 * (len(counts) - 1))] * (1.0 if len(games) >= 20 else 1.5))


def measured_room(number: int, games: list[RealGame], weight: dict[tuple[int, str], float], single: set[str]) -> dict[str, Any]:
    """One floor plan as its games show it."""
    first = games[0]
    names = list(first.receptacles)
    most = {name: room_for(games, name, single) for name in names}
    fixed = sorted(set(first.objects) - first.movable)
    shown = {kind_of(thing) for thing in fixed if thing in first.inside}
    fixtures: list[tuple[str, str, list[int]]] = []
    for thing in fixed:
        if kind_of(thing) in shown:  # the others are never seen, nor counted with one that is
            inside = [names.index(receptacle) for receptacle in sorted(first.inside.get(thing, []))]
            fixtures.append((thing, first.object_places.get(thing, ""), inside))
    counts: dict[str, list[int]] = {}
    for kind in sorted({kind_of(thing) for game in games for thing in game.movable}):
        numbers = [sum(kind_of(thing) == kind for thing in game.movable) for game in games if game.target != kind]
        counts[kind] = histogram(numbers or [1, 2, 3])
    return {
        "kind": room_kind(number),
        "games": len(games),
        "receptacles": [
            [name, place.removeprefix("loc|"), int(name in first.openable), round(weight[number, name], 3), most[name]]
            for name, place in first.receptacles.items()
        ],
        "fixtures": [[name, place.removeprefix("loc|"), inside] for name, place, inside in fixtures],
        "counts": counts,
        "overlaps": overlaps(games, names),
    }


def overlaps(games: list[RealGame], names: list[str]) -> list[list[Any]]:
    """[object kind, receptacle, receptacles it then also lies in, percent]: pans over two burners, mugs in a coffee machine."""
    placed: Counter[tuple[str, str]] = Counter()
    also: Counter[tuple[str, str, tuple[int, ...]]] = Counter()
    for game in games:
        for thing in game.movable:
            receptacle = game.primary(thing)
            if receptacle is None:
                continue
            kind = kind_of(thing)
            placed[kind, receptacle] += 1
            others = tuple(sorted(names.index(name) for name in game.inside[thing] if name != receptacle))
            if others:
                also[kind, receptacle, others] += 1
    return [
        [kind, names.index(receptacle), list(others), round(100 * count / placed[kind, receptacle])]
        for (kind, receptacle, others), count in sorted(also.items())
        if count > 1
    ]


def rules(movable: set[str], fixed: set[str], receptacles: set[str]) -> dict[str, Any]:
    """What can hold what, and what can be done with what, as the package says it (and as all real games do)."""
    specification = spec_from_file_location("alfworld_constants", package_folder() / "constants.py")
    assert specification is not None and specification.loader is not None
    constants = module_from_spec(specification)
    specification.loader.exec_module(constants)
    objects = movable | fixed
    return {
        "movable": sorted(movable),
        "containers": sorted(set(constants.MOVABLE_RECEPTACLES) & movable),
        "can_hold": {
            kind: sorted(constants.VAL_RECEPTACLE_OBJECTS[kind] & objects)
            for kind in sorted(receptacles)
            if kind in constants.VAL_RECEPTACLE_OBJECTS
        },
        "properties": {
            name: sorted(constants.VAL_ACTION_OBJECTS[name.capitalize()] & objects)
            for name in ("cleanable", "heatable", "coolable", "sliceable", "toggleable")
        },
    }


def goals(games: list[RealGame], rooms: dict[int, dict[str, Any]]) -> dict[str, Any]:
    """Goals with weights, rooms with pulls, and how many of its target a game has.

    Per task type, ``weight(goal) * pull(room)`` over the pairs that fit is fitted so that goals and rooms are drawn as often
    as real games have them; which goal goes with which room is left to chance.
    """
    asked: dict[str, dict[str, list[list[Any]]]] = {}
    numbers: dict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for room in rooms.values():
        room["pull"] = {}
    for name in sorted({game.type for game in games}):
        own = [game for game in games if game.type == name]
        weight, pull = _fit_goals(own, rooms)
        asked[name] = defaultdict(list)
        for (kind, target, place), value in sorted(weight.items()):
            asked[name][kind].append([target, place, float(f"{value:.3g}")])
        for number, value in sorted(pull.items()):
            rooms[number]["pull"][name] = float(f"{value:.3g}")
        for game in own:
            numbers[name][game.target].append(sum(kind_of(thing) == game.target for thing in game.movable))
    return {
        "goals": asked,
        "targets": {
            name: {kind: histogram(values) for kind, values in sorted(kinds.items())} for name, kinds in sorted(numbers.items())
        },
    }


def _fit_goals(
    games: list[RealGame], rooms: dict[int, dict[str, Any]]
) -> tuple[dict[tuple[str, str, str], float], dict[int, float]]:
    by_goal = Counter((room_kind(game.room), game.target, game.place) for game in games)
    by_room = Counter(game.room for game in games)
    weight, pull = dict.fromkeys(by_goal, 1.0), dict.fromkeys(by_room, 1.0)
    has = {number: _kinds_in(rooms[number]) for number in by_room}
    pairs = [
        (goal, number)
        for goal in by_goal
        for number in by_room
        if goal[0] == room_kind(number) and {goal[1], goal[2]} <= has[number]
    ]
    for _ in range(200):
        totals: dict[Any, float] = defaultdict(float)
        for goal, number in pairs:
            totals[goal] += weight[goal] * pull[number]
        for goal in weight:
            weight[goal] *= by_goal[goal] / totals[goal]
        totals.clear()
        for goal, number in pairs:
            totals[number] += weight[goal] * pull[number]
        for number in pull:
            pull[number] *= by_room[number] / totals[number]
    scale = sum(pull.values()) / len(pull)
    return {goal: value * scale for goal, value in weight.items()}, {number: value / scale for number, value in pull.items()}


def _kinds_in(room: dict[str, Any]) -> set[str]:
    """Kinds of movable things, receptacles and lamps that a goal can name."""
    lamps = {row[0].split("|")[0] for row in room["fixtures"] if row[2]}
    return {*room["counts"], *lamps, *(kind_of(row[0]) for row in room["receptacles"])}


def cleared_shares(games: list[RealGame]) -> dict[str, dict[str, float]]:
    """How much emptier a kind of receptacle is as the goal's or as the tool, relative to other games of the same room."""
    filled: dict[tuple[int, str, str], list[int]] = defaultdict(list)
    for game in games:
        inside = Counter(kind_of(r) for t in game.movable if kind_of(t) != game.target for r in game.inside.get(t, []))
        for kind in {kind_of(name) for name in game.receptacles}:
            role = "goal" if kind == game.place else "tool" if kind == game.tool else ""
            filled[game.room, kind, role].append(inside[kind])
    shares: dict[str, dict[str, float]] = {}
    for role in ("goal", "tool"):
        totals: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
        for (room, kind, has), values in filled.items():
            others = filled.get((room, kind, ""))
            if has == role and others:
                totals[kind][0] += sum(values)
                totals[kind][1] += len(values) * sum(others) / len(others)
        shares[role] = {kind: round(max(0.0, 1 - a / b), 2) for kind, (a, b) in sorted(totals.items()) if b > 0}
    return shares


def single_kinds(games: list[RealGame]) -> set[str]:
    """Kinds of receptacles that hold one object at most (fewer than 5 % of the filled ones hold more)."""
    filled: Counter[str] = Counter()
    crowded: Counter[str] = Counter()
    for game in games:
        for receptacle, count in Counter(r for thing in game.movable for r in game.inside.get(thing, [])).items():
            filled[kind_of(receptacle)] += 1
            crowded[kind_of(receptacle)] += count > 1
    return {kind for kind, count in filled.items() if crowded[kind] < 0.05 * count}


def reaches(games: list[RealGame]) -> dict[str, list[float]]:
    """How far objects lie from a receptacle's middle (80th percentile aside, 10th and 90th upwards), in metres."""
    aside: dict[str, list[float]] = defaultdict(list)
    upward: dict[str, list[float]] = defaultdict(list)
    for game in games:
        for thing in game.movable:
            home = game.primary(thing)
            if home is not None:
                (x, y, z), (hx, hy, hz) = ([float(part) for part in name.split("|")[1:4]] for name in (thing, home))
                aside[kind_of(home)] += [abs(x - hx), abs(z - hz)]
                upward[kind_of(home)].append(y - hy)
    return {
        kind: [round(_percentile(aside[kind], 0.8), 2), *(round(_percentile(upward[kind], share), 2) for share in (0.1, 0.9))]
        for kind in sorted(aside)
    }


def _percentile(values: list[float], share: float) -> float:
    return sorted(values)[int(share * (len(values) - 1))]


def floor_shares(games: list[RealGame]) -> dict[str, int]:
    """Percent of a kind's instances that lie in no receptacle."""
    all_of: Counter[str] = Counter()
    on_floor: Counter[str] = Counter()
    for game in games:
        for thing in game.movable:
            all_of[kind_of(thing)] += 1
            on_floor[kind_of(thing)] += thing not in game.inside
    return {kind: round(100 * on_floor[kind] / count) for kind, count in sorted(all_of.items()) if on_floor[kind]}


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder that holds json_2.1.1/")
    arguments = parser.parse_args()
    paths = sorted(arguments.data.glob("json_2.1.1/train/*/*/game.tw-pddl"))
    paths += sorted(arguments.data.glob("json_2.1.1/valid_seen/*/*/game.tw-pddl"))
    games = [RealGame(path) for path in paths]
    by_room: dict[int, list[RealGame]] = defaultdict(list)
    for game in games:
        by_room[game.room].append(game)
    weight, affinity = fit(games)
    single = single_kinds(games)
    rooms = {number: measured_room(number, by_room[number], weight, single) for number in sorted(by_room)}
    borrower = Borrower(rooms)
    rooms |= {number: borrower.build(number) for number in ALL_ROOMS if number not in rooms}
    spread: dict[str, dict[str, float]] = defaultdict(dict)
    for (kind, receptacle), value in sorted(affinity.items()):
        spread[kind][receptacle] = float(f"{value:.3g}")
    things = {kind_of(thing) for game in games for thing in game.movable}
    fixed = {kind_of(thing) for game in games for thing in game.objects} - things
    holders = {kind_of(row[0]) for room in rooms.values() for row in room["receptacles"]}
    data = {
        "note": f"by benchmarks/alfworld_rooms.py from {len(games)} games of ALFWorld 2.1.1 (MIT) and the package's layouts",
        **rules(things, fixed, holders),
        **goals(games, {number: room for number, room in rooms.items() if room["games"]}),
        "cleared": cleared_shares(games),
        "reach": reaches(games),
        "floor": floor_shares(games),
        "affinity": spread,
        "rooms": {str(number): rooms[number] for number in sorted(rooms)},
    }
    OUTPUT.write_text(_lines(data))
    for turn in range(8):
        calibrate(data, games, turn)
        OUTPUT.write_text(_lines(data))


def calibrate(data: dict[str, Any], games: list[RealGame], turn: int) -> None:
    """Correct weights and affinities by what the generator makes of them: full and cleared receptacles turn objects away."""
    real, made = Spread(), Spread()
    numbers: Counter[str] = Counter()
    for cached in (rooms_module.all_rooms, rooms_module.statistics, rooms_module._data, generate._options):
        cached.cache_clear()
    for game in games:
        real.add_game(game)
        numbers[game.type] += 1
        layout = generate.draw_layout(game.type, seed=-100_000 * (turn + 1) - numbers[game.type])
        if layout is not None:
            made.add_layout(layout, game.type)
    for kind, row in data["affinity"].items():
        for home in row:
            ratio = real.share(kind, home) / made.share(kind, home)
            row[home] = float(f"{row[home] * min(2.0, max(0.5, ratio)) ** 0.7:.3g}")
    for number, room in data["rooms"].items():
        for receptacle in room["receptacles"] if room["games"] else ():
            ratio = real.filling(int(number), receptacle[0]) / made.filling(int(number), receptacle[0])
            receptacle[3] = float(f"{receptacle[3] * min(2.0, max(0.5, ratio)) ** 0.4:.3g}")


def _lines(data: dict[str, Any]) -> str:
    """JSON with one room, one kind, one task type a line."""
    parts = []
    for key, value in data.items():
        if isinstance(value, dict) and all(isinstance(item, dict) for item in value.values()):
            rows = ",\n".join(f"  {json.dumps(k)}: {json.dumps(v, separators=(',', ':'))}" for k, v in value.items())
            parts.append(f" {json.dumps(key)}: {{\n{rows}\n }}")
        else:
            parts.append(f" {json.dumps(key)}: {json.dumps(value, separators=(',', ':'))}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


if __name__ == "__main__":
    main()
