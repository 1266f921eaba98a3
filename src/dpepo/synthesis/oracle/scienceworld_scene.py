"""An episode as a demonstrated ScienceWorld agent stands before it: progress of plans, who is where, what to explore. Pure."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from dpepo.rollout import latest_observations
from dpepo.synthesis.oracle.scienceworld_plan import PlanStep, arguments, is_wait, same_step, verb
from dpepo.synthesis.oracle.scienceworld_seen import STAGES, Seen, fragments_of, holds, start_room, survey
from dpepo.types import EpisodeView, Observation, Step


@dataclass(frozen=True)
class Scene:
    """What is known before a turn."""

    view: EpisodeView
    seen: Seen
    latest: dict[int, Observation]  # what every environment shows
    start: str  # the room of the beginning

    @classmethod
    def of(cls, view: EpisodeView) -> Scene:
        """Read a view."""
        return cls(view=view, seen=survey(view), latest=latest_observations(view), start=start_room(view.initial))

    @property
    def live(self) -> list[int]:
        """Environments that take actions."""
        return [env_id for env_id, seen in self.latest.items() if not seen.ended]

    def room(self, env_id: int) -> str:
        """Where an environment is."""
        return self.seen.place.get(env_id, self.start)

    def steps(self, env_id: int) -> list[Step]:
        """What was done in an environment."""
        return [step for turn in self.view.turns for step in turn if step.env_id == env_id]

    def progress(self, env_id: int, plan: Sequence[PlanStep]) -> int:
        """How many steps of a plan an environment has behind it; waits may have been skipped."""
        done = 0
        for step in self.steps(env_id):
            ahead = done
            while ahead < len(plan) and is_wait(plan[ahead].action) and plan[ahead].action != step.action:
                ahead += 1
            if ahead < len(plan) and same_step(plan[ahead].action, step.action):
                done = ahead + 1
        return done

    def finder(self, room: str) -> int | None:
        """The first environment that acted and was in a room afterwards; None while there is none."""
        place = {env_id: self.start for env_id in self.latest}
        for turn in self.view.turns:
            for step in turn:
                if step.action.startswith("teleport to ") and step.observation.valid:
                    place[step.env_id] = step.action.removeprefix("teleport to ")
                if place[step.env_id] == room:
                    return step.env_id
        return None

    def unseen(self, action: str) -> list[str]:
        """Names in an action that nothing has shown yet."""
        return [name for name in arguments(action) if not self.seen.has(name)]

    def at_hand(self, env_id: int, action: str) -> bool:
        """Whether an environment shows right now the thing that an action names first.

        A stage of life is enough where the room calls the animal by another name (a frog for a toad).
        """
        name = next(iter(arguments(action)), "")
        if set(name.split()) in [set(listed.split()) for listed in self.latest[env_id].objects]:
            return True
        text = fragments_of(self.latest[env_id].text)
        stage, _, kind = name.partition(" ")
        return bool(name) and (holds(text, name) or (stage in STAGES and holds(text, stage) and not holds(text, kind)))

    def new_rooms(self, rng: random.Random) -> list[str]:
        """Rooms that were named and not visited, those of the goal first, the others in a random order."""
        rooms = [room for room in self.seen.rooms if room not in self.seen.visited]
        rng.shuffle(rooms)
        return sorted(rooms, key=lambda room: room not in self.seen.goal)

    def exploring(self, env_id: int, rooms: list[str], taken: set[tuple[str, str]], *, may_go_back: bool = False) -> str:
        """Something new for an environment that is free; empty when there is nothing.

        Args:
            env_id: The environment.
            rooms: Rooms still to be visited; the one that is used is taken off.
            taken: (room, action) that others do this turn; added to.
            may_go_back: Whether rooms that were passed without reading them count as new.
        """
        here = self.room(env_id)
        options = ["look around"] if here not in self.seen.described else []
        options += [f"open {name}" for name in self.seen.closed.get(here, [])]
        for action in options:
            if (here, action) not in self.seen.done | taken:
                taken.add((here, action))
                return action
        if rooms:
            return f"teleport to {rooms.pop(0)}"
        passed = [room for room in self.seen.visited if room not in self.seen.described and room != here]
        back = next((f"teleport to {room}" for room in passed if ("", room) not in taken), "") if may_go_back else ""
        taken.add(("", back.removeprefix("teleport to ")))
        return back


def last_failures(view: EpisodeView) -> list[Step]:
    """Steps of the last turn that ended their environment without success."""
    return [step for step in view.turns[-1] if step.observation.ended and not step.observation.success] if view.turns else []


def is_telling(action: str) -> bool:
    """Whether the answer to an action is worth repeating: a reading, a text, what came out of a mixture."""
    return action.startswith("use thermometer") or verb(action) in ("read", "mix", "examine", "look at")
