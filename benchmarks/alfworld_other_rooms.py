"""The twelve ALFWorld floor plans in which no real training game plays, put together for ``alfworld_rooms.py``.

The package lists most of their receptacles with the agent's place at each. What its list leaves out in every room (burners,
toasters, towel holders, some cabinets and drawers) is moved in from a measured room of the same kind, as are lamps, plants
and televisions; weights are those of random measured receptacles of the same kind.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from importlib.util import find_spec
from pathlib import Path
from typing import Any

ROOM_KINDS = {0: "kitchen", 2: "living_room", 3: "bedroom", 4: "bathroom"}


def kind_of(name: str) -> str:
    """``Sink|-01.11|...|SinkBasin`` is a SinkBasin, everything else is what it begins with."""
    parts = name.split("|")
    return parts[-1] if parts[-1].endswith("Basin") else parts[0]


def room_kind(number: int) -> str:
    """The kind of room with a floor plan's number."""
    return ROOM_KINDS[number // 100]


def package_folder() -> Path:
    """``alfworld/gen``, found without importing the package (which makes a folder in the user's home)."""
    specification = find_spec("alfworld")
    if specification is None or not specification.submodule_search_locations:
        message = "the alfworld package is needed for its floor plans: pip install alfworld"
        raise SystemExit(message)
    return Path(specification.submodule_search_locations[0]) / "gen"


class Borrower:
    """Builds the floor plans without games from the package's lists, with what is missing moved in from measured rooms."""

    def __init__(self, rooms: dict[int, dict[str, Any]]) -> None:
        self.layouts = package_folder() / "layouts"
        self.rooms = rooms

    def listed(self, number: int) -> dict[str, list[float]]:
        """Receptacle name to standing pose (x, z in metres, rotation, horizon)."""
        poses: dict[str, list[float]] = json.loads((self.layouts / f"FloorPlan{number}-openable.json").read_text())
        return poses

    def build(self, number: int) -> dict[str, Any]:
        """A floor plan without games, in the form of a measured one."""
        rng = random.Random(f"floor plan {number}")
        kinds = set(json.loads((self.layouts / f"FloorPlan{number}-objects.json").read_text()))
        listed = self.listed(number)
        similar = {key: room for key, room in sorted(self.rooms.items()) if room["kind"] == room_kind(number)}
        receptacles: list[list[Any]] = []
        for name, (x, z, rotation, horizon) in sorted(listed.items()):
            place = f"{round(x * 4)}|{round(z * 4)}|{round(rotation / 90) % 4}|{round(horizon)}"
            openable = int(kind_of(name) in ("Cabinet", "Drawer", "Fridge", "Microwave", "Safe"))
            receptacles.append([name, place, openable, *self._fill(rng, similar, kind_of(name))])
        present = {kind_of(name) for name in listed}
        for kind in sorted({kind_of(row[0]) for room in similar.values() for row in room["receptacles"]} & kinds):
            receptacles += self._borrowed(rng, similar, kind, already=kind in present, near=receptacles)
        receptacles.sort()
        movable = {kind for room in similar.values() for kind in room["counts"]}
        return {
            "kind": room_kind(number),
            "games": 0,
            "receptacles": receptacles,
            "fixtures": self._fixtures(rng, similar, kinds, receptacles),
            "counts": {kind: self._counts(similar, kind) for kind in sorted(movable & kinds)},
            "overlaps": self._overlaps(receptacles),
            "pull": {},
        }

    def _fill(self, rng: random.Random, similar: dict[int, dict[str, Any]], kind: str) -> list[Any]:
        """Weight and room of a random measured receptacle of the kind."""
        rows: list[list[Any]] = [row[3:] for room in similar.values() for row in room["receptacles"] if kind_of(row[0]) == kind]
        rows = rows or [row[3:] for room in self.rooms.values() for row in room["receptacles"] if kind_of(row[0]) == kind]
        return rng.choice(rows) if rows else [0.5, 3]

    def _borrowed(
        self, rng: random.Random, similar: dict[int, dict[str, Any]], kind: str, *, already: bool, near: list[list[Any]]
    ) -> list[list[Any]]:
        """What the package's list leaves out of a kind, as a room of the same kind has it, moved to a place of this room."""
        donors = []
        for key, room in similar.items():
            listed = self.listed(key)
            own = [row for row in room["receptacles"] if kind_of(row[0]) == kind]
            missing = [row for row in own if row[0] not in listed]
            if own and (already == (len(missing) < len(own))) and (missing or already):
                donors.append(missing)
        if not donors:
            return []
        group = rng.choice(donors)
        target = rng.choice(near)
        return [_moved(row, group[0], target) for row in group]

    def _counts(self, similar: dict[int, dict[str, Any]], kind: str) -> list[int]:
        total: Counter[int] = Counter()
        for room in similar.values():
            for number, count in enumerate(room["counts"].get(kind, [])):
                total[number] += count
        total[0] = 0
        scale = 100 / max(1, sum(total.values()))
        return [round(scale * total[number]) for number in range(max(total) + 1)]

    def _fixtures(
        self, rng: random.Random, similar: dict[int, dict[str, Any]], kinds: set[str], receptacles: list[list[Any]]
    ) -> list[list[Any]]:
        rows = []
        shown = sorted({row[0].split("|")[0] for room in similar.values() for row in room["fixtures"]} & kinds)
        for kind in shown:
            donors = [[row for row in room["fixtures"] if row[0].startswith(kind + "|")] for room in similar.values()]
            donors = [group for group in donors if group] or [[]]
            homes = Counter(
                kind_of(room["receptacles"][index][0])
                for room in similar.values()
                for row in room["fixtures"]
                if row[0].startswith(kind + "|")
                for index in row[2]
            )
            options = [i for i, row in enumerate(receptacles) if homes[kind_of(row[0])] and not row[2]]
            if not options or (kind != "DeskLamp" and rng.random() > len(donors) / len(similar)):
                continue
            home = rng.choices(options, [homes[kind_of(receptacles[i][0])] for i in options])[0]
            x, y, z = (float(part) for part in receptacles[home][0].split("|")[1:4])
            rows.append([f"{kind}|{x + 0.11:+06.2f}|{y + 0.32:+06.2f}|{z - 0.08:+06.2f}", receptacles[home][1], [home]])
        return rows

    def _overlaps(self, receptacles: list[list[Any]]) -> list[list[Any]]:
        """A mug in the coffee machine also stands on what the machine stands on (in nearly all measured rooms)."""
        tops = [i for i, row in enumerate(receptacles) if kind_of(row[0]) in ("CounterTop", "DiningTable")]
        rows: list[list[Any]] = []
        for i, row in enumerate(receptacles):
            if kind_of(row[0]) == "CoffeeMachine" and tops:
                _, nearest = min((_distance(receptacles[top][0], row[0]), top) for top in tops)
                rows.append(["Mug", i, [nearest], 100])
        return rows


def _distance(first: str, second: str) -> float:
    a, b = ([float(part) for part in name.split("|")[1:4]] for name in (first, second))
    return abs(a[0] - b[0]) + abs(a[2] - b[2])


def _moved(row: list[Any], origin: list[Any], target: list[Any]) -> list[Any]:
    """A receptacle and its standing place, moved by the step from `origin`'s place to one beside `target`'s."""
    step = [int(t) - int(o) + 1 for t, o in zip(target[1].split("|")[:2], origin[1].split("|")[:2], strict=True)]
    kind, x, y, z, *rest = row[0].split("|")
    px, pz, rotation, horizon = row[1].split("|")
    name = "|".join([kind, f"{float(x) + step[0] / 4:+06.2f}", y, f"{float(z) + step[1] / 4:+06.2f}", *rest])
    return [name, f"{int(px) + step[0]}|{int(pz) + step[1]}|{rotation}|{horizon}", *row[2:]]
