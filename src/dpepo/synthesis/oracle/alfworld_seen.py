"""What the texts of all copies of an ALFWorld game have shown together. Pure.

All copies begin equal, so what one of them reads about an untouched place holds in every other. Nothing here knows the game.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from dpepo.envs.alfworld.observed import Asked, Knowledge, contents, kind_of
from dpepo.rollout import latest_observations
from dpepo.types import EpisodeView, Observation, Step

LOOK, TWO = "look_at_obj_in_light", "pick_two_obj_and_place"


class Move(NamedTuple):
    """One thing to do, in no release's words."""

    verb: str  # go, open, look (at a place), take, put, clean, heat, cool, use
    place: str
    thing: str = ""

    def commands(self) -> tuple[str, ...]:
        """How the releases word it."""
        match self.verb:
            case "go":
                return (f"go to {self.place}",)
            case "look":
                return (f"examine {self.place}",)
            case "open":
                return (f"open {self.place}",)
            case "use":
                return (f"use {self.thing}",)
            case "take":
                return (f"take {self.thing} from {self.place}",)
            case "put":
                return (f"put {self.thing} in/on {self.place}", f"move {self.thing} to {self.place}")
            case treatment:
                return (f"{treatment} {self.thing} with {self.place}",)


class Sight(NamedTuple):
    """A thing that matters, and where it lay at the beginning."""

    thing: str
    place: str
    env_id: int  # which copy showed it


@dataclass
class Copy:
    """One environment: what its own texts have said, and what it has changed."""

    env_id: int
    latest: Observation
    mind: Knowledge
    moved: set[str] = field(default_factory=set)  # things it has taken at some time
    put: dict[str, str] = field(default_factory=dict)  # of these, where the ones lie that were put down again

    def command(self, moves: Iterable[Move]) -> tuple[Move, str] | None:
        """The first of some moves that can be done now, in the words that are offered."""
        offered = set(self.latest.admissible_actions)
        for move in moves:
            for command in move.commands():
                if command in offered:
                    return move, command
        return None


class House:
    """What all copies have shown."""

    def __init__(self, view: EpisodeView, *, goal: Asked) -> None:
        """Read the texts of an episode, up to now.

        Args:
            view: The episode before its next turn.
            goal: What its task asks for.
        """
        self.goal = goal
        self.copies = {
            env_id: Copy(env_id, latest, Knowledge.from_start(view.initial.text))
            for env_id, latest in latest_observations(view).items()
        }
        self.places = next(iter(self.copies.values())).mind.places
        self.start: dict[str, tuple[str, ...]] = {}  # place to what lay there at the beginning, in the order of reading
        self.readers: dict[str, int] = {}  # place to the copy that read it first
        self.closed: set[str] = set()  # places that are closed at the beginning
        for turn in view.turns:
            for step in turn:
                self._read(step)

    def unread(self) -> tuple[str, ...]:
        """Places that no copy has looked into."""
        return tuple(place for place in self.places if place not in self.start)

    def sights(self) -> list[Sight]:
        """Everything of the kinds that matter, one line for each thing and place, in the order of reading."""
        kinds = {self.goal.target, self.goal.place} if self.goal.task_type == LOOK else {self.goal.target}
        return [
            Sight(thing, place, self.readers[place])
            for place, things in self.start.items()
            for thing in things
            if kind_of(thing) in kinds
        ]

    def missing(self) -> tuple[str, ...]:
        """Kinds of things that still have to be found; empty when all that the goal needs has been seen."""
        seen = {sight.thing for sight in self.sights()}
        wanted = [self.goal.target] * (2 if self.goal.task_type == TWO else 1)
        wanted += [self.goal.place] if self.goal.task_type == LOOK else []
        found = [kind_of(thing) for thing in seen]
        return tuple(dict.fromkeys(kind for kind in wanted if found.count(kind) < wanted.count(kind)))

    def is_closed(self, copy: Copy, place: str) -> bool:
        """Whether a copy has to open a place, as far as is known."""
        if place in copy.mind.inside or place in copy.mind.closed:
            return place in copy.mind.closed
        return place in self.closed

    def things(self, copy: Copy, place: str) -> Iterator[str]:
        """What lies in a place of a copy now, as far as is known."""
        yield from (thing for thing in self.start.get(place, ()) if thing not in copy.moved)
        yield from (thing for thing, where in copy.put.items() if where == place)

    def _read(self, step: Step) -> None:
        copy, text = self.copies[step.env_id], step.observation.text
        told = contents(text)
        if told is not None and told.closed and told.place not in copy.mind.inside:
            self.closed.add(told.place)
        elif told is not None and not told.closed and told.place not in self.start:
            self.start[told.place] = tuple(thing for thing in told.things if thing not in copy.moved)
            self.readers[told.place] = copy.env_id
        before = copy.mind.held
        copy.mind.update(text)
        held = copy.mind.held
        if held and held != before:
            copy.moved.add(held)
            copy.put.pop(held, None)
        elif before and not held:
            copy.put[before] = " ".join(step.action.split()[-2:])
