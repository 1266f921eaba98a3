"""Real ALFWorld games as ``alfworld_rooms.py`` counts them, and the counts that drawn games are corrected by."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from pathlib import Path

from alfworld_other_rooms import kind_of

from dpepo.envs.alfworld.problem import Layout

TOOLS = {
    "pick_heat_then_place_in_recep": "Microwave",
    "pick_cool_then_place_in_recep": "Fridge",
    "pick_clean_then_place_in_recep": "SinkBasin",
}
PRIMARY = ("CoffeeMachine", "StoveBurner", "Safe", "HandTowelHolder", "TowelHolder", "Toilet", "Microwave", "SinkBasin")
"""Where an object lies in several receptacles (a mug in the coffee machine, hence on the counter), the one it was put in."""


def decode(name: str) -> str:
    """A PDDL name as the simulator's: ``Mug_bar__minus_00_dot_84...`` is ``Mug|-00.84...``."""
    for coded, plain in (("_bar_", "|"), ("_minus_", "-"), ("_plus_", "+"), ("_dot_", "."), ("minus_", "-"), ("plus_", "+")):
        name = name.replace(coded, plain)
    return name


class RealGame:
    """The facts of one real game that the statistics need."""

    def __init__(self, path: Path) -> None:
        problem = json.loads(path.read_text())["pddl_problem"]
        info = json.loads((path.parent / "traj_data.json").read_text())
        facts: dict[str, list[list[str]]] = defaultdict(list)
        for match in re.finditer(r"^\s*\((\w[^()]*)\)\s*$", problem[problem.index("(:init") : problem.index("(:goal")], re.M):
            words = [decode(word) for word in match.group(1).split()]
            facts[words[0]].append(words[1:])
        self.room: int = info["scene"]["scene_num"]
        self.type: str = info["task_type"]
        parameters = info["pddl_params"]
        self.target: str = parameters["object_target"]
        self.place: str = parameters["parent_target"] or parameters["toggle_target"]
        self.tool = TOOLS.get(self.type, "")
        self.receptacles = dict(sorted(facts["receptacleAtLocation"]))
        self.openable = {name for (name,) in facts["openable"]}
        self.movable = {name for (name,) in facts["pickupable"]}
        self.objects = [name for name, _ in facts["objectType"]]
        self.object_places = dict(facts["objectAtLocation"])
        self.inside: dict[str, list[str]] = defaultdict(list)
        for thing, receptacle in facts["inReceptacle"]:
            self.inside[thing].append(receptacle)
        self.nested = facts["inReceptacleObject"]

    def primary(self, thing: str) -> str | None:
        """The receptacle an object was put in; None for one on the floor."""
        options = self.inside.get(thing, [])
        return min(options, key=lambda name: (_rank(name), name)) if options else None


def _rank(receptacle: str) -> int:
    kind = kind_of(receptacle)
    return PRIMARY.index(kind) if kind in PRIMARY else len(PRIMARY)


class Spread:
    """How objects spread over receptacles, those with a part in the goal left out."""

    def __init__(self) -> None:
        self.by_kind: Counter[tuple[str, str]] = Counter()
        self.kinds: Counter[str] = Counter()
        self.by_receptacle: Counter[tuple[int, str]] = Counter()
        self.games: Counter[tuple[int, str]] = Counter()

    def add_game(self, game: RealGame) -> None:
        """Count a real game."""
        homes = [(kind_of(thing), game.primary(thing)) for thing in sorted(game.movable)]
        self._add(game.room, list(game.receptacles), homes, game.target, {game.place, game.tool})

    def add_layout(self, layout: Layout, task_type: str) -> None:
        """Count a drawn one."""
        names = [receptacle.name for receptacle in layout.room.receptacles]
        homes = [(kind_of(thing.name), names[thing.inside[0]] if thing.inside else None) for thing in layout.objects]
        self._add(layout.room.number, names, homes, layout.goal.target, {layout.goal.place, TOOLS.get(task_type, "")})

    def _add(self, room: int, names: list[str], homes: list[tuple[str, str | None]], target: str, left_out: set[str]) -> None:
        for name in names:
            self.games[room, name] += kind_of(name) not in left_out
        for kind, home in homes:
            if home and kind != target and kind_of(home) not in left_out:
                self.by_kind[kind, kind_of(home)] += 1
                self.kinds[kind] += 1
                self.by_receptacle[room, home] += 1

    def share(self, kind: str, home: str) -> float:
        """Of a kind of object, the share in a kind of receptacle."""
        return (self.by_kind[kind, home] + 2) / (self.kinds[kind] + 2)

    def filling(self, room: int, receptacle: str) -> float:
        """Objects in a receptacle, per game."""
        return (self.by_receptacle[room, receptacle] + 2) / (self.games[room, receptacle] + 2)
