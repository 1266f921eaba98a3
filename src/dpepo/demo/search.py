"""A made-up search world, without a simulator: what the base model of the demo has seen before it meets ScienceWorld.

Rooms hold random names; a goal names a room and either one thing in it or "the animal with the longest life span". K copies of
the problem run side by side. The teacher goes to the room, then tries listed things. Contents are drawn afresh for every
problem, so the only way to answer well is to *copy names from the observation*, which is what the base model is for. Nothing
about the life spans of animals is in it. Consumed by `dpepo.demo.base`; prompts come from the one prompt builder.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dpepo.demo import words
from dpepo.protocol.reply import format_reply
from dpepo.types import EpisodeView, Observation, Step, WorldGuide

GUIDE = WorldGuide(role="")
NUM_ENVS = (1, 1, 2, 4)  # K of a problem, drawn with equal chance per entry
MAX_TURNS = 3
NOISE = 0.15  # share of actions replaced by a mistake, so that later turns show copies in different states


@dataclass(frozen=True, kw_only=True)
class Problem:
    """One made-up search problem."""

    goal: str
    room: str  # where the goal is
    start: str
    contents: dict[str, tuple[str, ...]]  # room to the names in it
    wanted: str  # the name to find; empty when any listed name may be right
    winner: str  # the name that ends the problem with success


@dataclass
class _Copy:
    """One copy of a problem while it is played."""

    room: str
    ended: bool = False


def draw_problem(rng: random.Random, *, names: Sequence[str], rooms: Sequence[str]) -> Problem:
    """A random problem: 3 to 9 names in the goal's room, 1 to 6 in the room where all copies start."""
    room = rng.choice(rooms)
    start = rng.choice(rooms)
    here = tuple(rng.sample(names, rng.randint(3, 9)))
    contents = {room: here} if start == room else {room: here, start: tuple(rng.sample(names, rng.randint(1, 6)))}
    winner = rng.choice(here)
    if rng.random() < 0.5:
        goal = f"Your task is to find the {winner}.  The {winner} is in the '{room}' location.  Focus on the {winner}."
        return Problem(goal=goal, room=room, start=start, contents=contents, wanted=winner, winner=winner)
    kind = f"animal with the {rng.choice(('longest', 'shortest'))} life span"
    goal = f"Your task is to find the {kind}.  The animals are in the '{room}' location.  Focus on the {kind}."
    return Problem(goal=goal, room=room, start=start, contents=contents, wanted="", winner=winner)


def play_problem(problem: Problem, rng: random.Random, *, rooms: Sequence[str]) -> Iterator[tuple[EpisodeView, str]]:
    """The teacher's turns on a problem: pairs of what is seen and the reply to give."""
    num_envs = rng.choice(NUM_ENVS)
    spread = rng.random() < 0.5
    copies = {i: _Copy(problem.start) for i in range(1, num_envs + 1)}
    initial = Observation(text=describe(problem.start, problem.contents.get(problem.start, ())))
    turns: list[tuple[Step, ...]] = []
    for _ in range(MAX_TURNS):
        live = {i: copy for i, copy in copies.items() if not copy.ended}
        if not live:
            return
        actions = {i: _teach(problem, copy) for i, copy in live.items()}
        picks = _choose(problem, rng, len(live), spread=spread)
        actions = {i: action or f"focus on {picks.pop()}" for i, action in actions.items()}
        view = EpisodeView(goal=problem.goal, guide=GUIDE, initial=initial, turns=tuple(turns), num_envs=num_envs)
        yield view, format_reply(thought_for(actions, num_envs=num_envs, num_ended=num_envs - len(live)), actions)
        done = {i: _mistake(rng, problem, rooms) if rng.random() < NOISE else action for i, action in actions.items()}
        steps = tuple(Step(env_id=i, action=a, observation=_act(problem, copies[i], a)) for i, a in done.items())
        turns.append(steps)
        if any(step.observation.success for step in steps):
            return


def describe(room: str, names: Sequence[str]) -> str:
    """An observation in the compact form that the ScienceWorld environment uses too."""
    return f"at {room} : {' , '.join(names) or 'nothing'}"


def thought_for(actions: dict[int, str], *, num_envs: int, num_ended: int) -> str:
    """The one-sentence thought that fits a set of actions."""
    if any(action.startswith("teleport to") for action in actions.values()):
        return words.GO
    return words.RETRY if num_ended and num_envs > 1 else words.PICK


def _teach(problem: Problem, copy: _Copy) -> str:
    if copy.room != problem.room:
        return f"teleport to {problem.room}"
    return f"focus on {problem.wanted}" if problem.wanted else ""


def _choose(problem: Problem, rng: random.Random, count: int, *, spread: bool) -> list[str]:
    here = problem.contents[problem.room]
    if spread and count <= len(here):
        return rng.sample(here, count)
    return [rng.choice(here) for _ in range(count)]


def _mistake(rng: random.Random, problem: Problem, rooms: Sequence[str]) -> str:
    if rng.random() < 0.5:
        return f"teleport to {rng.choice(rooms)}"
    return f"focus on {rng.choice(problem.contents[problem.start])}"


def _act(problem: Problem, copy: _Copy, action: str) -> Observation:
    verb, name = action[: len("teleport to")], action.removeprefix("teleport to ").removeprefix("focus on ")
    if verb == "teleport to":
        copy.room = name
    here = problem.contents.get(copy.room, ())
    if verb == "teleport to":
        return Observation(text=describe(copy.room, here))
    if name not in here:
        return Observation(text=f"unknown action | {describe(copy.room, here)}", valid=False)
    copy.ended = True
    won = name == problem.winner
    return Observation(text=describe(copy.room, here), score=100.0 if won else -100.0, success=won, ended=True)
