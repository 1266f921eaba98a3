"""Made-up households: what the base model of the ALFWorld demo has seen before it meets the real ones.

A training game is played by the demo's teacher with the names of things exchanged at random, anew in every episode: what it
calls a mug may be a pillow. So nothing can be learnt of where things lie; what is left to learn is the form of prompts and
replies, and to *copy names* from the goal and from what is seen. Consumed by `dpepo.demo.base`; prompts come from the one
prompt builder.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dpepo.demo.household_teacher import choose, read
from dpepo.demo.household_words import PHRASES, things
from dpepo.envs import TextEnv, World
from dpepo.envs.alfworld.observed import asked
from dpepo.protocol.reply import format_reply
from dpepo.types import EpisodeView, Observation, Step

TASK = "pick_and_place_simple"
NUM_ENVS = (1, 1, 2, 4)  # K of an episode, drawn with equal chance per entry
MAX_TURNS = 6
NOISE = 0.12  # share of actions replaced by a mistake, so that later turns show copies in different states
_WORD = re.compile(r"[a-z]+")


@dataclass(frozen=True)
class Names:
    """A one-to-one exchange of the names of things."""

    there: dict[str, str]

    @classmethod
    def draw(cls, rng: random.Random) -> Names:
        """A random one."""
        kinds = things()
        return cls(dict(zip(kinds, rng.sample(kinds, len(kinds)), strict=True)))

    def back(self) -> Names:
        """Its inverse."""
        return Names({new: old for old, new in self.there.items()})

    def apply(self, text: str) -> str:
        """The text with every name exchanged."""
        return _WORD.sub(lambda match: self.there.get(match[0], match[0]), text)


def play_household(world: World, task_id: str, rng: random.Random) -> Iterator[tuple[EpisodeView, str]]:
    """The teacher's turns on a game with exchanged names: pairs of what is seen and the reply to give.

    Args:
        world: ALFWorld with compact observations.
        task_id: A game of the type `TASK`.
        rng: Draws names, the number of copies, the teacher's search, and mistakes.
    """
    names = Names.draw(rng)
    back = names.back()
    copies = {i: world.make(task_id) for i in range(1, rng.choice(NUM_ENVS) + 1)}
    starts = {i: copy.reset() for i, copy in copies.items()}
    initial = _renamed(starts[1], names)  # all begin alike
    goal = names.apply(copies[1].goal)
    wanted = asked(goal)
    assert wanted is not None
    seen = dict.fromkeys(copies, initial)
    turns: list[tuple[Step, ...]] = []
    for _ in range(MAX_TURNS):
        thought, actions = choose({i: read(observation.text) for i, observation in seen.items()}, wanted, rng)
        view = EpisodeView(goal=goal, guide=world.guide, initial=initial, turns=tuple(turns), num_envs=len(copies))
        yield view, format_reply(thought, actions)
        done = {i: _mistake(rng, seen[i], actions[i]) if rng.random() < NOISE else actions[i] for i in actions}
        turns.append(tuple(_do(copies[i], i, action, names=names, back=back) for i, action in done.items()))
        seen.update({step.env_id: step.observation for step in turns[-1]})
        if any(step.observation.ended for step in turns[-1]):
            return


def _do(copy: TextEnv, env_id: int, action: str, *, names: Names, back: Names) -> Step:
    return Step(env_id=env_id, action=action, observation=_renamed(copy.step(back.apply(action)), names))


def _renamed(observation: Observation, names: Names) -> Observation:
    return Observation(text=names.apply(observation.text), success=observation.success, ended=observation.ended)


def _mistake(rng: random.Random, seen: Observation, action: str) -> str:
    """Another place, or what cannot be done here."""
    places: Sequence[str] = read(seen.text).left
    other = [f"{PHRASES[0]} {place}" for place in places] or [action]
    return rng.choice(other)
