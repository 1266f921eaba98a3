"""The teacher of the ALFWorld demo: weak on purpose. It searches at random, and knows what to do once the thing is found.

It reads compact observations (`dpepo.envs.alfworld.compact`) and nothing else. That mugs stand in cabinets rather than on beds
it does not know, nothing is filtered afterwards, and so neither does the model after the cold start. Used through
``synth.teacher``.
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass

from dpepo.demo import household_words as words
from dpepo.envs.alfworld.observed import Asked, asked, kind_of
from dpepo.protocol.reply import format_reply
from dpepo.rollout import latest_observations
from dpepo.types import EpisodeView

_LINE = re.compile(r"at (?P<here>[^:]+) : (?P<things>[^|]*) \| holding (?P<held>[^|]*) \| left : (?P<left>.*)")


@dataclass(frozen=True)
class Seen:
    """What a compact observation says."""

    here: str
    closed: bool
    things: tuple[str, ...]
    held: str
    left: tuple[str, ...]  # places nobody has looked at in this copy, one of each kind


class HouseholdTeacher:
    """Plays "put some mug on desk" in every copy by itself: random search, then the thing is taken and brought."""

    def reply(self, view: EpisodeView, rng: random.Random) -> str:
        """One well-formed reply.

        Raises:
            ValueError: The goal is of another kind.
        """
        goal = asked(view.goal)
        if goal is None or goal.task_type != "pick_and_place_simple":
            raise ValueError(f"the household teacher only knows goals such as 'put some mug on desk.', got: {view.goal!r}")
        copies = {i: read(seen.text) for i, seen in latest_observations(view).items() if not seen.ended}
        thought, actions = choose(copies, goal, rng)
        return format_reply(thought, actions)


def read(line: str) -> Seen:
    """Take a compact observation apart.

    Raises:
        ValueError: The text is none.

    >>> read("at drawer 1 : closed | holding nothing | left : bed 1 , shelf 2")
    Seen(here='drawer 1', closed=True, things=(), held='nothing', left=('bed 1', 'shelf 2'))
    """
    found = _LINE.search(line)
    if found is None:
        raise ValueError(f"the household teacher needs env.options.observation=compact, got the text {line!r:.120}")
    things = () if found["things"] in ("closed", "nothing") else tuple(found["things"].split(" , "))
    left = () if found["left"] == "nothing" else tuple(found["left"].split(" , "))
    return Seen(found["here"], found["things"] == "closed", things, found["held"], left)


def choose(copies: dict[int, Seen], goal: Asked, rng: random.Random) -> tuple[str, dict[int, str]]:
    """A thought, and an action for every copy: search, take or bring, whatever comes next there."""
    found = any(kind_of(seen.held) == goal.target or wanted(seen, goal) for seen in copies.values())
    return words.FOUND if found else words.SEARCH, {i: next_action(seen, goal, rng) for i, seen in copies.items()}


def next_action(seen: Seen, goal: Asked, rng: random.Random) -> str:
    """What to do in one copy."""
    if kind_of(seen.held) == goal.target:
        return bring(seen, goal)
    thing = wanted(seen, goal)
    return f"take {thing} from {seen.here}" if thing else search(seen, goal, rng)


def bring(seen: Seen, goal: Asked) -> str:
    """The next action with the thing in hand."""
    place = f"{goal.place} 1"
    if seen.here != place:
        return f"go to {place}"
    return f"open {place}" if seen.closed else f"move {seen.held} to {place}"


def wanted(seen: Seen, goal: Asked) -> str:
    """The thing that the goal asks for, where it lies in front of the player and is not at its place already."""
    if kind_of(seen.here) == goal.place:
        return ""
    return next((thing for thing in seen.things if kind_of(thing) == goal.target), "")


def search(seen: Seen, goal: Asked, rng: random.Random) -> str:
    """Look into what is closed here, else go where nobody has looked."""
    if seen.closed and kind_of(seen.here) != goal.place:
        return f"open {seen.here}"
    places = [place for place in seen.left if kind_of(place) != goal.place]
    return f"go to {rng.choice(places)}" if places else "look"
