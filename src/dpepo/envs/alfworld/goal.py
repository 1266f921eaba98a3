"""Whether a goal is reached: a search for values of its variables, literal by literal. Pure."""

from __future__ import annotations

from dpepo.envs.alfworld.pddl import Fact, Literal, Problem
from dpepo.envs.alfworld.states import AGENT, FLAGS, State


class Goal:
    """The goal of a problem."""

    def __init__(self, problem: Problem) -> None:
        self._fixed = problem.facts
        # what can change first: it has fewer facts, and binds the variables of the rest
        changing = ("inreceptacle", "holds", "istoggled")
        self._literals = sorted(problem.goal, key=lambda one: (one.predicate == "differ", one.predicate not in changing))

    def holds(self, state: State) -> bool:
        """Whether some values of the variables satisfy every literal."""
        return self._solve(0, {}, state)

    def _solve(self, index: int, bound: dict[str, str], state: State) -> bool:
        if index == len(self._literals):
            return True
        literal = self._literals[index]
        words = tuple(bound.get(word, word) for word in literal.arguments)
        if literal.predicate == "differ":
            return words[0] != words[1] and self._solve(index + 1, bound, state)
        facts = self._facts(literal, state)
        if not any(word.startswith("?") for word in words):
            return words in facts and self._solve(index + 1, bound, state)
        for fact in facts:
            matched = _matched(words, fact)
            if matched is not None and self._solve(index + 1, {**bound, **matched}, state):
                return True
        return False

    def _facts(self, literal: Literal, state: State) -> frozenset[Fact] | set[Fact]:
        match literal.predicate:
            case "inreceptacle":
                return state.inside
            case "objectatlocation":
                return state.at
            case "holds":
                return {(AGENT, state.held)} if state.held else set()
            case "atlocation":
                return {(AGENT, state.place)}
            case flag if flag in FLAGS:
                return {(thing,) for mark, thing in state.marks if mark == flag}
            case other:
                return self._fixed.get(other, set())


def _matched(words: Fact, fact: Fact) -> dict[str, str] | None:
    """Values of the variables in ``words`` that make it equal to ``fact``; None where there are none."""
    values: dict[str, str] = {}
    for word, name in zip(words, fact, strict=True):
        if not word.startswith("?"):
            if word != name:
                return None
        elif values.setdefault(word, name) != name:
            return None
    return values
