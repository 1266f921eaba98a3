"""The demo's teacher: weak on purpose. It goes to the place the goal names and tries listed things at random.

It knows no answer and nothing is filtered afterwards, so what the model knows about life spans after the cold start is nothing;
what it learns later comes from reinforcement learning. Used by `dpepo.synthesis` through ``synth.teacher``.
"""

from __future__ import annotations

import random
import re

from dpepo.demo.search import thought_for
from dpepo.protocol.reply import format_reply
from dpepo.rollout import latest_observations
from dpepo.types import EpisodeView, Observation

_PLACE = re.compile(r"in the '([^']+)' location")
_ROOM = re.compile(r"\bat ([^:|]+?) :")


class SearchTeacher:
    """Plays ScienceWorld's "find the animal" goals from compact observations, without knowing which animal is right."""

    def reply(self, view: EpisodeView, rng: random.Random) -> str:
        """One well-formed reply for every environment that has not ended."""
        place = _PLACE.search(view.goal)
        if place is None:
            raise ValueError(f"the search teacher only knows goals that name a location, got: {view.goal!r}")
        latest = latest_observations(view)
        live = {i: observation for i, observation in latest.items() if not observation.ended}
        actions = {i: self._action(observation, place=place.group(1), rng=rng) for i, observation in live.items()}
        thought = thought_for(actions, num_envs=len(latest), num_ended=len(latest) - len(live))
        return format_reply(thought, actions)

    def _action(self, observation: Observation, *, place: str, rng: random.Random) -> str:
        room = _ROOM.search(observation.text)
        if room is None or room.group(1) != place or not observation.objects:
            return f"teleport to {place}"
        return f"focus on {rng.choice(observation.objects)}"
