"""Reading a PDDL problem: objects with their types, facts that hold at the beginning, the goal. Pure.

Only what ALFWorld's problems use is understood: typed objects, positive ground facts, a goal of ``and``, ``exists`` and
``not (=)``. Names are lower-cased, as planners do.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count

Expression = list["str | Expression"]
Fact = tuple[str, ...]

_COMMENT = re.compile(r";[^\n]*")
_TOKEN = re.compile(r"[()]|[^\s()]+")


class PddlError(ValueError):
    """The text is not a problem that can be read."""


@dataclass(frozen=True)
class Literal:
    """One part of a goal: a fact over names and variables ("?o"), or that two variables differ (predicate "differ")."""

    predicate: str
    arguments: tuple[str, ...]


@dataclass(frozen=True)
class Problem:
    """A problem, taken apart."""

    objects: dict[str, str]  # name to type
    facts: dict[str, set[Fact]]  # predicate to the argument tuples for which it holds at the beginning
    goal: tuple[Literal, ...]  # reached when some assignment of the variables satisfies all of them


def parse_problem(text: str) -> Problem:
    """Read a problem.

    Raises:
        PddlError: It is cut off, or uses what is not understood.
    """
    sections = {str(part[0]): part[1:] for part in _parse(text)[1:] if isinstance(part, list) and part}
    for name in (":objects", ":init", ":goal"):
        if name not in sections:
            raise PddlError(f"the problem has no section {name}")
    facts: dict[str, set[Fact]] = {}
    for entry in sections[":init"]:
        words = [word for word in entry if isinstance(word, str)] if isinstance(entry, list) else []
        if len(words) == len(entry) and words and words[0] != "=":
            facts.setdefault(words[0], set()).add(tuple(words[1:]))
    if len(sections[":goal"]) != 1:
        raise PddlError("the problem has no single goal")
    goal = tuple(_literals(sections[":goal"][0], {}, count()))
    return Problem(objects=_typed(sections[":objects"]), facts=facts, goal=goal)


def rules_key(domain: str) -> str:
    """A digest of what a domain's actions do.

    Order, comments, spacing and costs are left out, and what differs between releases without a difference in play: the action
    ``help``, and that things can be cleaned in a receptacle of the type Sink, which no official game has.

    Raises:
        PddlError: It is cut off.
    """
    actions = [part for part in _parse(domain) if isinstance(part, list) and part[:1] == [":action"] and part[1:2] != ["help"]]
    return hashlib.sha256("\n".join(sorted(map(_canonical, actions))).encode()).hexdigest()[:16]


def _canonical(expression: str | Expression) -> str:
    if isinstance(expression, str):
        return expression
    kept = [part for part in expression if part != ["receptacletype", "?r", "sinktype"] and part[:1] != ["increase"]]
    return f"({' '.join(map(_canonical, kept))})"


def _parse(text: str) -> Expression:
    """Nested lists of words; the outermost one."""
    stack: list[Expression] = [[]]
    for token in _TOKEN.findall(_COMMENT.sub("", text).lower()):
        if token == "(":
            stack.append([])
        elif token == ")":
            if len(stack) == 1:
                raise PddlError("a bracket closes what was never opened")
            done = stack.pop()
            stack[-1].append(done)
        else:
            stack[-1].append(token)
    if len(stack) != 1 or not stack[0] or not isinstance(stack[0][0], list):
        raise PddlError("the text is cut off")
    return stack[0][0]


def _typed(words: Expression) -> dict[str, str]:
    """``a b - t c - u`` as names with types; names without one are left out."""
    types: dict[str, str] = {}
    waiting: list[str] = []
    after_dash = False
    for word in map(str, words):
        if word == "-":
            after_dash = True
        elif after_dash:
            types.update(dict.fromkeys(waiting, word))
            waiting, after_dash = [], False
        else:
            waiting.append(word)
    return types


def _literals(goal: str | Expression, names: dict[str, str], numbers: Iterator[int]) -> list[Literal]:
    """The goal as one conjunction; quantifiers over objects that must exist anyway fall away.

    Args:
        goal: The goal or a part of it.
        names: What the variables in scope are called in the result, where each quantifier has its own.
        numbers: Yields numbers that are not taken.
    """
    if isinstance(goal, str) or not goal:
        raise PddlError(f"a goal cannot hold {goal!r}")
    head, *rest = goal
    if head == "and":
        return [literal for part in rest for literal in _literals(part, names, numbers)]
    if head == "exists" and len(rest) == 2 and isinstance(rest[0], list):
        own = {name: f"{name}.{next(numbers)}" for name in _typed(rest[0])}
        return _literals(rest[1], {**names, **own}, numbers)
    if head == "not" and len(rest) == 1 and isinstance(rest[0], list) and rest[0][:1] == ["="]:
        return [Literal("differ", _renamed(rest[0][1:], names))]
    if isinstance(head, str) and all(isinstance(word, str) for word in rest) and head not in ("or", "forall", "not", "when"):
        return [Literal(head, _renamed(rest, names))]
    raise PddlError(f"a goal with {head!r} is not understood")


def _renamed(words: Expression, names: dict[str, str]) -> Fact:
    return tuple(names.get(str(word), str(word)) for word in words)
