"""What can change in a game of ALFWorld, as an immutable value with a fingerprint that is the same in every process. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

from dpepo.envs.alfworld.pddl import Fact, Problem

FLAGS = ("opened", "isclean", "ishot", "iscool", "istoggled", "issliced")

Pairs = frozenset[tuple[str, str]]


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


@cache
def _digest(*words: str) -> int:
    return int.from_bytes(hashlib.blake2b("\0".join(words).encode(), digest_size=8).digest(), "big")


def fingerprint(state: State) -> int:
    """A fingerprint that does not depend on order, process or machine."""
    code = _digest("place", state.place) ^ _digest("held", state.held)
    for kind, pairs in (("inside", state.inside), ("at", state.at), ("left", state.left), ("marks", state.marks)):
        for first, second in pairs:
            code ^= _digest(kind, first, second)
    return code
