"""An expert for ALFWorld that reads the simulator's state: from any state, the fewest actions to the goal.

Knowing where everything is, a goal needs one object or two, one receptacle, at most one tool on the way. The expert works out
every such choice on a small model of walking, opening, taking and putting, and plays the shortest in the game itself, so that a
plan it returns has reached the goal. It is an oracle's gold path, not a demonstration of how to search.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import permutations

from dpepo.envs.alfworld.engine import LoadedGame, Node

_Action = tuple[str, ...]  # the engine's, e.g. ("take", thing, receptacle)
_Plan = tuple[_Action, ...]

_TREATMENTS = {"isclean": ("clean", "sinkbasintype"), "ishot": ("heat", "microwavetype"), "iscool": ("cool", "fridgetype")}
"""What a goal wants an object to be: the verb and the kind of receptacle it is done with."""


def expert_actions(game: LoadedGame, node: Node | None = None) -> list[str] | None:
    """The fewest commands that reach the goal, in the wording the game is played in.

    Args:
        game: The game.
        node: Any state of it, whatever is in hand or open; None for its beginning.

    Returns:
        The commands; empty where the goal is reached already, None where it cannot be reached.
    """
    start = game.start if node is None else node
    if start.won:
        return []
    for plan in sorted(_plans(game, start), key=lambda plan: (len(plan), plan)):
        played = _played(game, start, plan)
        if played is not None:
            return played
    return None


def _played(game: LoadedGame, node: Node, plan: _Plan) -> list[str] | None:
    """A plan's commands up to the one that reaches the goal; None when none does or an action is not possible."""
    commands: list[str] = []
    for action in plan:
        command = game.command(action)
        if command not in game.admissible(node):
            return None
        commands.append(command)
        node, _, _ = game.step(node, command)
        if node.won:
            return commands
    return None


@dataclass(frozen=True)
class _Hand:
    """Where a plan has led: what matters for the actions that follow."""

    place: str
    held: str
    opened: frozenset[str]
    plan: _Plan = ()


@dataclass(frozen=True)
class _Wish:
    """A goal, taken apart."""

    target: str  # type of the object(s)
    number: int  # of objects to be put somewhere: 1 or 2; 0 to hold one under a lamp
    place: str  # type of the receptacle, or of the lamp
    quality: str  # key of _TREATMENTS, or ""


def _wish(game: LoadedGame) -> _Wish:
    """What the goal's literals ask for."""
    goal = game.problem.goal
    kinds = {literal.arguments[0]: literal.arguments[1] for literal in goal if literal.predicate == "objecttype"}
    lamps = {literal.arguments[0] for literal in goal if literal.predicate == "istoggled"}
    predicates = {literal.predicate for literal in goal}
    places = [literal.arguments[1] for literal in goal if literal.predicate == "receptacletype"]
    return _Wish(
        target=next((kind for name, kind in kinds.items() if name not in lamps), ""),
        number=0 if lamps else 2 if "differ" in predicates else 1,
        place=kinds[min(lamps)] if lamps else places[0] if places else "",
        quality=next((quality for quality in _TREATMENTS if quality in predicates), ""),
    )


def _plans(game: LoadedGame, node: Node) -> Iterator[_Plan]:
    """Every sensible way to the goal."""
    planner, wish, state = _Planner(game, node), _wish(game), node.state
    start = _Hand(state.place, state.held, frozenset(thing for flag, thing in state.marks if flag == "opened"))
    hands = [start] if not start.held or game.types.get(start.held) == wish.target else list(planner.put_anywhere(start))
    for hand in hands:
        yield from planner.into_place(hand, wish) if wish.number else planner.under_lamp(hand, wish)


class _Planner:
    """Walks, opens, takes and puts on paper, with the state's objects where they are."""

    def __init__(self, game: LoadedGame, node: Node) -> None:
        facts = game.problem.facts
        self._game = game
        self._marks = node.state.marks
        self._openable = {name for (name,) in facts.get("openable", ())}
        self._portable = {name for (name,) in facts.get("pickupable", ())}
        self._fits = facts.get("cancontain", set())
        self._homes: dict[str, list[str]] = {}
        for thing, receptacle in sorted(node.state.inside):
            self._homes.setdefault(thing, []).append(receptacle)

    def put_anywhere(self, hand: _Hand) -> Iterator[_Hand]:
        """Free the hand."""
        for receptacle in self._game.places:
            if self._takes_in(receptacle, hand.held):
                yield self._put(hand, receptacle)

    def under_lamp(self, hand: _Hand, wish: _Wish) -> Iterator[_Plan]:
        """Hold a target where a lamp is on."""
        lamps = [thing for thing, kind in sorted(self._game.types.items()) if kind == wish.place]
        for target in self._targets(wish):
            for taken in self._take(hand, target):
                for lamp in lamps:
                    for receptacle in self._homes.get(lamp, ()):
                        there = self._go(taken, receptacle)
                        lit = ("istoggled", lamp) in self._marks
                        yield there.plan if lit else (*there.plan, ("use", lamp))

    def into_place(self, hand: _Hand, wish: _Wish) -> Iterator[_Plan]:
        """Put one target or two, treated as wished, into one receptacle of a kind."""
        targets = self._targets(wish)
        for receptacle in self._of_type(wish.place):
            there = {thing for thing in targets if receptacle in self._homes.get(thing, ())}
            missing = wish.number - len(there) if wish.number == 2 else 1
            for chosen in permutations([thing for thing in targets if thing not in there or wish.quality], missing):
                yield from self._bring(hand, chosen, receptacle, wish.quality)

    def _bring(self, hand: _Hand, things: tuple[str, ...], receptacle: str, quality: str) -> Iterator[_Plan]:
        """Bring things to a receptacle, one after the other."""
        if not things:
            yield hand.plan
        elif self._takes_in(receptacle, things[0]):
            for taken in self._take(hand, things[0]):
                for treated in self._treat(taken, quality):
                    yield from self._bring(self._put(treated, receptacle), things[1:], receptacle, quality)

    def _targets(self, wish: _Wish) -> list[str]:
        return sorted(thing for thing, kind in self._game.types.items() if kind == wish.target and thing in self._portable)

    def _of_type(self, kind: str) -> list[str]:
        return [receptacle for receptacle in self._game.places if self._game.receptacle_types.get(receptacle) == kind]

    def _takes_in(self, receptacle: str, thing: str) -> bool:
        return (self._game.receptacle_types.get(receptacle, ""), self._game.types.get(thing, "")) in self._fits

    def _take(self, hand: _Hand, thing: str) -> Iterator[_Hand]:
        """Have it in hand, from each of the receptacles it lies in; another thing in hand is put down first."""
        if hand.held == thing:
            yield hand
        elif hand.held:
            for freed in self.put_anywhere(hand):
                yield from self._take(freed, thing)
        else:
            for receptacle in self._homes.get(thing, ()):
                there = self._reach(hand, receptacle)
                yield replace(there, held=thing, plan=(*there.plan, ("take", thing, receptacle)))

    def _treat(self, hand: _Hand, quality: str) -> Iterator[_Hand]:
        """Make what is in hand clean, hot or cool."""
        if not quality or (quality, hand.held) in self._marks:
            yield hand
            return
        verb, tool = _TREATMENTS[quality]
        for receptacle in self._of_type(tool):
            there = self._go(hand, receptacle)
            yield replace(there, plan=(*there.plan, (verb, hand.held, receptacle)))

    def _go(self, hand: _Hand, receptacle: str) -> _Hand:
        place = self._game.places[receptacle]
        return hand if place == hand.place else replace(hand, place=place, plan=(*hand.plan, ("go", receptacle)))

    def _reach(self, hand: _Hand, receptacle: str) -> _Hand:
        """Stand at it with it open."""
        hand = self._go(hand, receptacle)
        if receptacle not in self._openable or receptacle in hand.opened:
            return hand
        return replace(hand, opened=hand.opened | {receptacle}, plan=(*hand.plan, ("open", receptacle)))

    def _put(self, hand: _Hand, receptacle: str) -> _Hand:
        there = self._reach(hand, receptacle)
        return replace(there, held="", plan=(*there.plan, ("put", hand.held, receptacle)))
