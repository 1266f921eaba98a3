"""The option ``observation: compact``: what a player has found out, in one line, for models with a small vocabulary.

Every answer becomes the place where the player stands with the things there that the goal asks for, what is in hand, and where
nobody has looked yet in this copy (of each kind of place the one with the lowest number). All of it is read off the full texts.
"""

from __future__ import annotations

from dpepo.envs.alfworld.observed import Knowledge, kind_of

UNKNOWN = "nothing happens | "


class Notebook:
    """What one copy's texts have said, as one line."""

    def __init__(self, intro: str) -> None:
        """Begin with the first observation."""
        self._known = Knowledge.from_start(intro)

    def read(self, text: str) -> None:
        """Take in the answer to an action."""
        self._known.update(text)

    def line(self, *, valid: bool = True) -> str:
        """What matters for the goal, e.g. "at shelf 1 : mug 2 | holding nothing | left : bed 1" where a mug is asked for.

        Args:
            valid: Whether the last action was possible; if not, the line begins with `UNKNOWN`.
        """
        known = self._known
        here = known.here or "room"
        things = "closed" if here in known.closed else " , ".join(self._wanted(here)) or "nothing"
        qualities = sorted(known.qualities.get(known.held, ()))
        held = " ".join([*qualities, known.held]) if known.held else "nothing"
        left = " , ".join(self._left()) or "nothing"
        return f"{'' if valid else UNKNOWN}at {here} : {things} | holding {held} | left : {left}"

    def _wanted(self, place: str) -> list[str]:
        """Things at a place that the goal names; all of them where its sentence is in words of its own."""
        goal, things = self._known.goal, self._known.inside.get(place, ())
        return [thing for thing in things if goal is None or kind_of(thing) in (goal.target, goal.place)]

    def _left(self) -> list[str]:
        """The first unseen place of each kind, in the order of the room's list of kinds."""
        first: dict[str, str] = {}
        for place in self._known.unseen():
            kind = kind_of(place)
            if kind not in first or _number(place) < _number(first[kind]):
                first[kind] = place
        return list(first.values())


def _number(place: str) -> int:
    return int(place.rpartition(" ")[2])
