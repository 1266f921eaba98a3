"""What can change in a game of ALFWorld, as an immutable value with a fingerprint that is the same in every process. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

from dpepo.envs.alfworld.pddl import Fact, PddlError, Problem

FLAGS = ("opened", "isclean", "ishot", "iscool", "istoggled", "issliced")

AGENT = "agent1"

Pairs = frozenset[tuple[str, str]]
Action = tuple[str, ...]  # a verb and what it is done with, e.g. ("take", thing, receptacle)

_PAIRS = ("inside", "at", "left", "marks")
_ONCE = ("objecttype", "receptacletype", "receptacleatlocation")
_CHANGING = {"holdsany", "checked", "ison"}  # by rules, and not kept here


@dataclass(frozen=True)
class State:
    """What can change: everything else about a game is fixed."""

    place: str  # location of the agent
    held: str  # the object in hand, or ""
    inside: Pairs  # (object, receptacle); an object may lie in several that overlap
    at: Pairs  # (object, location)
    left: Pairs  # (object, receptacle) it was taken out of and not put back into
    marks: Pairs  # (flag, thing), flags of FLAGS


def initial_state(problem: Problem) -> State:
    """The state that a problem describes."""
    facts = problem.facts
    [(_, place)] = facts["atlocation"]
    held = [thing for _, thing in facts.get("holds", ())]
    return State(
        place=place,
        held=held[0] if held else "",
        inside=_pairs(facts.get("inreceptacle", ())),
        at=_pairs(facts.get("objectatlocation", ())),
        left=frozenset(),
        marks=frozenset((flag, fact[0]) for flag in FLAGS for fact in facts.get(flag, ())),
    )


def check_playable(problem: Problem) -> None:
    """Refuse what no official game holds and what the rules here would play otherwise than the package.

    Raises:
        PddlError: There is not one agent in one place, a thing has two types or places, or the goal asks for what is not kept.
    """
    facts = problem.facts
    agents = {fact[0] for name in ("atlocation", "holds") for fact in facts.get(name, ())}
    held = facts.get("holds", set())
    if (
        agents != {AGENT}
        or len(facts.get("atlocation", ())) != 1
        or len(held) > 1
        or len(facts.get("holdsany", ())) != len(held)
    ):
        raise PddlError(f"there has to be one agent, {AGENT}, in one place, with at most one thing in hand")
    for name in _ONCE:
        things = [fact[0] for fact in facts.get(name, ())]
        if len(things) != len(set(things)):
            raise PddlError(f"something has {name} twice")
    if any(fact[1] == "sinktype" for fact in facts.get("receptacletype", ())):
        raise PddlError("a receptacle of the type Sink is played differently from release to release")
    for literal in problem.goal:
        if literal.predicate in _CHANGING:
            raise PddlError(f"a goal about {literal.predicate} is not understood")


def _pairs(facts: Iterable[Fact]) -> Pairs:
    return frozenset((fact[0], fact[1]) for fact in facts)


def changed(
    state: State,
    *,
    place: str | None = None,
    held: str | None = None,
    inside: Pairs | None = None,
    at: Pairs | None = None,
    left: Pairs | None = None,
    marks: Pairs | None = None,
) -> State:
    """A state that differs in some parts."""
    return State(
        place=state.place if place is None else place,
        held=state.held if held is None else held,
        inside=state.inside if inside is None else inside,
        at=state.at if at is None else at,
        left=state.left if left is None else left,
        marks=state.marks if marks is None else marks,
    )


def _digest(*words: str) -> int:
    return int.from_bytes(hashlib.blake2b("\0".join(words).encode(), digest_size=8).digest(), "big")


def fingerprint(state: State) -> int:
    """A fingerprint of 64 bits that does not depend on order, process or machine."""
    code = _digest("place", state.place) ^ _digest("held", state.held)
    for part in _PAIRS:
        code ^= _digest_all(part, getattr(state, part))
    return code


def code_after(code: int, before: State, after: State) -> int:
    """The fingerprint of a state, worked out from that of another: only what differs is looked at.

    Args:
        code: ``fingerprint(before)``.
        before: The other state.
        after: The state.
    """
    for part in ("place", "held"):
        old, new = getattr(before, part), getattr(after, part)
        if old != new:
            code ^= _digest(part, old) ^ _digest(part, new)
    for part in _PAIRS:
        old, new = getattr(before, part), getattr(after, part)
        if old is not new:
            code ^= _digest_all(part, old ^ new)
    return code


def _digest_all(part: str, pairs: Pairs) -> int:
    code = 0
    for first, second in pairs:
        code ^= _digest(part, first, second)
    return code
