"""What the environments of an episode have shown so far: rooms, things, who stands where. Pure.

This is all a demonstrated agent may speak of: the goal's text, the observations' texts and their lists of objects.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache

from dpepo.types import EpisodeView, Observation

_ROOM = re.compile(r"(?:This (?:room|outside location) is called the|at) ([a-z ]+?)(?:\.| :)")  # full or compact
_DOOR = re.compile(r"\bdoor to (?:the )?([a-z ]+?)(?: \(|$)|^([a-z ]+) door$", re.MULTILINE)
_CLOSED = re.compile(r"([a-z][a-z ]*?)\. The \1 door is closed")
_FRAGMENTS = re.compile(r"[\n\t,.:;()']+")
_ARTICLES = re.compile(r"^(?:an?|the) ")
STAGES = ("adult", "baby", "caterpillar", "egg", "hatchling", "juvenile", "larva", "pupa", "tadpole")
ROOMS = (
    "art studio",
    "bathroom",
    "bedroom",
    "foundry",
    "greenhouse",
    "hallway",
    "kitchen",
    "living room",
    "outside",
    "workshop",
)


@dataclass
class Seen:
    """What has been shown, by whom and where."""

    goal: str
    fragments: set[frozenset[str]] = field(default_factory=set)  # words that stood together
    rooms: dict[str, None] = field(default_factory=dict)  # rooms that were named, in that order
    visited: dict[str, int] = field(default_factory=dict)  # room to the environment that was there first
    described: set[str] = field(default_factory=set)  # rooms whose description was shown
    closed: dict[str, list[str]] = field(default_factory=dict)  # room to closed containers in it
    done: set[tuple[str, str]] = field(default_factory=set)  # (room, action) in any environment
    where: dict[str, tuple[set[frozenset[str]], int]] = field(default_factory=dict)  # room to what was shown there, by whom
    place: dict[int, str] = field(default_factory=dict)  # where each environment is

    def has(self, phrase: str) -> bool:
        """Whether the words of a name have stood together in anything shown; its first word, a stage of life, may stand apart.

        >>> seen = Seen(goal="")
        >>> seen.fragments |= fragments_of("On the table is: a red light bulb, which is off, a switch")
        >>> seen.has("light bulb"), seen.has("red switch")
        (True, False)
        """
        first, _, rest = phrase.partition(" ")
        return holds(self.fragments, phrase) or (
            first in STAGES and holds(self.fragments, first) and holds(self.fragments, rest)
        )

    def rooms_with(self, phrase: str) -> list[str]:
        """Rooms in which a name was shown."""
        return [room for room, (shown, _) in self.where.items() if holds(shown, phrase)]

    def witness(self, room: str) -> int | None:
        """The environment that first showed a room's things."""
        return self.where[room][1] if room in self.where else None


def survey(view: EpisodeView) -> Seen:
    """Read an episode so far."""
    seen = Seen(goal=view.goal)
    seen.fragments |= fragments_of(view.goal)
    seen.rooms.update(dict.fromkeys(rooms_named(view.goal)))
    start = start_room(view.initial)
    if start:
        seen.rooms[start] = None
    _take(seen, view.initial, room=start, env_id=0)
    for turn in view.turns:
        for step in turn:
            before = seen.place.get(step.env_id, start)
            seen.done.add((before, step.action))
            target = step.action.removeprefix("teleport to ")
            here = target if target in ROOMS and step.observation.valid else before
            seen.place[step.env_id] = here
            _take(seen, step.observation, room=here, env_id=step.env_id)
    return seen


def start_room(initial: Observation) -> str:
    """The room an episode begins in; empty when its first observation names none."""
    named = _ROOM.match(initial.text)
    return named[1] if named else ""


def rooms_named(text: str) -> list[str]:
    """Rooms that a text names, in their order.

    >>> rooms_named("The animals are in the 'outside' location, the box in the kitchen.")
    ['outside', 'kitchen']
    """
    found = [(match.start(), room) for room in ROOMS for match in re.finditer(rf"\b{room}\b", text)]
    return list(dict.fromkeys(room for _, room in sorted(found)))


@lru_cache(maxsize=4096)
def fragments_of(text: str) -> frozenset[frozenset[str]]:
    """Word sets of the pieces of a text between commas, brackets and ends of lines."""
    pieces = (_ARTICLES.sub("", piece.strip().lower()) for piece in _FRAGMENTS.split(text))
    return frozenset(frozenset(piece.split()) for piece in pieces if piece)


def holds(fragments: set[frozenset[str]] | frozenset[frozenset[str]], phrase: str) -> bool:
    """Whether one of the fragments has all words of a phrase."""
    words = frozenset(phrase.lower().split())
    return any(words <= fragment for fragment in fragments)


def _take(seen: Seen, observation: Observation, *, room: str, env_id: int) -> None:
    text = observation.text
    shown = fragments_of(text) | fragments_of("\n".join(observation.objects))
    seen.fragments |= shown
    doors = _DOOR.findall(f"{text}\n" + "\n".join(observation.objects))
    seen.rooms.update(dict.fromkeys(name for pair in doors for name in pair if name in ROOMS))
    if not room:
        return
    seen.rooms[room] = None
    seen.visited.setdefault(room, env_id)
    things, witness = seen.where.setdefault(room, (set(), env_id))
    things |= shown
    if witness == 0 and env_id:
        seen.where[room] = (things, env_id)
    if _ROOM.match(text):
        seen.described.add(room)
    for name in _CLOSED.findall(_ARTICLES.sub("", text.replace("\ta ", "\t").replace("\tan ", "\t"))):
        boxes = seen.closed.setdefault(room, [])
        if name not in boxes:
            boxes.append(name)
