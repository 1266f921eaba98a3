"""What a player of ALFWorld knows from the texts alone: which places there are, what lies where, what is in hand.

For agents that must not read the simulator's state, such as an expert whose demonstrations show how to search. Both releases'
wordings are understood.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from dpepo.envs.alfworld.problem import SENTENCES

_TASK = re.compile(r"Your task is to: (?P<sentence>.+)")
_ALL_PLACES = re.compile(r"Looking quickly around you, you see (?P<list>[^.]*)\.")
_CONTENTS = re.compile(r"(?:On the (?P<on>[\w ]+)|The (?P<open>[\w ]+) is open\. In it), you see (?P<list>[^.]*)\.")
_CLOSED = re.compile(r"The (?P<name>[\w ]+) is closed\.|You close the (?P<just>[\w ]+)\.")
_PICKED = re.compile(r"You pick up the (?P<thing>[\w ]+) from the (?P<place>[\w ]+)\.")
_PUT = re.compile(r"You (?:put|move) the (?P<thing>[\w ]+) (?:in/on|to) the (?P<place>[\w ]+)\.")
_TREATED = re.compile(r"You (?P<verb>clean|heat|cool) the (?P<thing>[\w ]+) using the [\w ]+\.")
_TURNED_ON = re.compile(r"You turn on the (?P<thing>[\w ]+)\.")
_CARRYING = re.compile(r"You are carrying: (?P<list>[^.]*)\.")
_QUALITY = {"clean": "clean", "heat": "hot", "cool": "cool"}


@dataclass(frozen=True)
class Asked:
    """What a task's sentence asks for."""

    task_type: str
    target: str  # kind of object as texts spell it, e.g. "soapbar"
    place: str  # kind of receptacle, of lamp for "look_at_obj_in_light"


@dataclass(frozen=True)
class Contents:
    """What a text says about one receptacle."""

    place: str  # e.g. "drawer 2"
    closed: bool
    things: tuple[str, ...] = ()  # e.g. ("mug 1", "pen 2"); empty when closed


def kind_of(name: str) -> str:
    """The kind of a numbered thing or place.

    >>> kind_of("mug 1")
    'mug'
    """
    return name.rpartition(" ")[0]


def listed(text: str) -> tuple[str, ...]:
    """The names in a list as the texts write it.

    >>> listed("a mug 1, and a pen 2"), listed("nothing")
    (('mug 1', 'pen 2'), ())
    """
    parts = (part.strip().removeprefix("and ").removeprefix("a ").strip() for part in text.split(","))
    return tuple(part for part in parts if part and part != "nothing")


def asked(text: str) -> Asked | None:
    """What a task asks for; None for a sentence in words of its own.

    Args:
        text: The first observation, or the task's sentence.

    >>> asked("Your task is to: put a clean mug in coffeemachine.")
    Asked(task_type='pick_clean_then_place_in_recep', target='mug', place='coffeemachine')
    """
    found = _TASK.search(text)
    sentence = (found["sentence"] if found else text).strip()
    for task_type, templates in SENTENCES.items():
        for template in templates:
            pattern = re.escape(template).replace(r"\{target\}", r"(?P<target>\w+)").replace(r"\{place\}", r"(?P<place>\w+)")
            match = re.fullmatch(pattern, sentence)
            if match:
                return Asked(task_type, match["target"], match["place"])
    return None


def places(text: str) -> tuple[str, ...]:
    """The receptacles of the room, named by the first observation."""
    found = _ALL_PLACES.search(text)
    return listed(found["list"]) if found else ()


def contents(text: str) -> Contents | None:
    """What a text says about the receptacle in front of the player; None where it says nothing.

    >>> contents("You arrive at drawer 2. The drawer 2 is closed.")
    Contents(place='drawer 2', closed=True, things=())
    >>> contents("You open the drawer 2. The drawer 2 is open. In it, you see a pen 1.")
    Contents(place='drawer 2', closed=False, things=('pen 1',))
    """
    found = _CONTENTS.search(text)
    if found:
        return Contents(found["on"] or found["open"], closed=False, things=listed(found["list"]))
    shut = _CLOSED.search(text)
    return Contents(shut["name"] or shut["just"], closed=True) if shut else None


@dataclass
class Knowledge:
    """All that the texts of one environment have said, up to now."""

    places: tuple[str, ...] = ()  # every receptacle, in the order named
    goal: Asked | None = None
    here: str = ""  # the receptacle that was seen last; empty in the middle of the room
    held: str = ""  # the object in hand
    inside: dict[str, tuple[str, ...]] = field(default_factory=dict)  # receptacle to what was last seen in it
    closed: set[str] = field(default_factory=set)  # receptacles known to be closed
    qualities: dict[str, set[str]] = field(default_factory=dict)  # object to "clean", "hot", "cool", "on"

    @classmethod
    def from_start(cls, text: str) -> Knowledge:
        """What the first observation says."""
        return cls(places=places(text), goal=asked(text))

    def update(self, text: str) -> None:
        """Take in the answer to an action; one that says nothing about the world changes nothing."""
        told = contents(text)
        if told is not None:
            self._see(told)
        if (found := _PICKED.search(text)) is not None:
            self.held = found["thing"]
            self._change(found["place"], remove=self.held)
        elif (found := _PUT.search(text)) is not None:
            self.held = ""
            self._change(found["place"], add=found["thing"])
        elif (found := _TREATED.search(text)) is not None:
            self._treat(found["thing"], _QUALITY[found["verb"]])
        elif (found := _TURNED_ON.search(text)) is not None:
            self.qualities.setdefault(found["thing"], set()).add("on")
        elif (found := _CARRYING.search(text)) is not None:
            self.held = next(iter(listed(found["list"])), "")

    def unseen(self) -> tuple[str, ...]:
        """Receptacles whose contents no text has shown yet."""
        return tuple(place for place in self.places if place not in self.inside)

    def where(self, kind: str) -> tuple[tuple[str, str], ...]:
        """(object, receptacle) for every object of a kind that was seen and not taken since."""
        return tuple((name, place) for place, things in self.inside.items() for name in things if kind_of(name) == kind)

    def _see(self, told: Contents) -> None:
        self.here = told.place
        if told.closed:
            self.closed.add(told.place)
        else:
            self.closed.discard(told.place)
            self.inside[told.place] = told.things

    def _change(self, place: str, *, add: str = "", remove: str = "") -> None:
        """One thing more or less; a place that was never looked into stays unseen (two places can be reached from one spot)."""
        if place in self.inside:
            left = tuple(name for name in self.inside[place] if name not in (add, remove))
            self.inside[place] = (*left, add) if add else left

    def _treat(self, thing: str, quality: str) -> None:
        has = self.qualities.setdefault(thing, set())
        has -= {"hot": {"cool"}, "cool": {"hot"}}.get(quality, set())
        has.add(quality)
