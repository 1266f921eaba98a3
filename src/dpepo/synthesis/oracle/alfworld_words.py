"""What a searching ALFWorld agent thinks: what was read, what follows from it, what is done next. Pure.

Sentences are made of what `House` holds, and that holds only what texts have shown.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from dpepo.config import Style
from dpepo.envs.alfworld.observed import kind_of
from dpepo.synthesis.oracle.alfworld_seen import LOOK, TWO, House, Move, Sight
from dpepo.synthesis.oracle.alfworld_sentences import SENTENCES
from dpepo.synthesis.oracle.styles import say

_INSIDE = frozenset(
    {
        "bathtubbasin",
        "box",
        "cabinet",
        "cart",
        "drawer",
        "fridge",
        "garbagecan",
        "laundryhamper",
        "microwave",
        "safe",
        "sinkbasin",
    }
)
_FEW = 3  # places that are named one by one
_NUMBERS = {4: "four", 5: "five", 6: "six", 7: "seven", 8: "eight"}
_ACTS = {"go": ("go to", "goes to"), "open": ("open", "opens"), "look": ("look at", "looks at")}


class Words:
    """The thought of one turn."""

    def __init__(self, house: House, *, before: House | None, style: Style, rng: random.Random) -> None:
        """Compare what is known now with what was known a turn ago.

        Args:
            house: What has been seen.
            before: The same before the last turn; None at the first.
            style: How the episode is searched.
            rng: Picks wordings.
        """
        self._house, self._before, self._style, self._rng = house, before, style, rng
        self._many = len(house.copies) > 1

    def thought(
        self, moves: Mapping[int, Move], *, worker: int | None, plan: Sequence[Move], searched: Mapping[int, str]
    ) -> str:
        """The text between the think tags.

        Args:
            moves: Env id to what it does now.
            worker: The environment that goes on towards the goal, if any.
            plan: Its way on.
            searched: Searching environment to the place it wants to look into.
        """
        looking = {env_id: moves[env_id] for env_id in searched if env_id in moves}
        sentences = [self._news()]
        if worker is not None:
            sentences += [self._change(worker), self._work(worker, plan)]
        if looking:
            sentences.append(self._looking(looking, searched, beside_work=worker is not None))
        return " ".join(sentence for sentence in sentences if sentence)

    def _news(self) -> str:
        """What the last turn's answers say; at the first turn what the task needs."""
        if self._before is None:
            return ""
        found = self._house.sights()[len(self._before.sights()) :]
        useful = [sight for sight in found if kind_of(sight.thing) in self._before.missing()]
        if useful:
            return " ".join(self._found(things) for things in _by_place(useful))
        if not self._before.missing():
            return ""
        read = [place for place in self._house.start if place not in self._before.start]
        shut = sorted(self._house.closed - self._before.closed)
        return " ".join(part for part in (self._nothing(read), self._shut(shut) if not read else "") if part)

    def _found(self, sights: Sequence[Sight]) -> str:
        names = _listing([sight.thing for sight in sights])
        first = sights[0]
        return self._say("found", names=names, at=_at(first.place), env=first.env_id)

    def _nothing(self, read: Sequence[str]) -> str:
        if not read:
            return ""
        missing = self._house.missing()
        what = _listing(missing, last="or")
        ruled_out = _finished_kinds(self._house, read) if self._style is Style.HYPOTHESIS else []
        if ruled_out:
            return self._say("ruled_out", what=what, kinds=self._kinds(ruled_out))
        if len(read) > _FEW:
            count = _NUMBERS.get(len(read), str(len(read)))
            return self._say("nothing_many", what=what, some=_listing([_a(kind) for kind in missing], last="or"), count=count)
        places = [_at(place) for place in read]
        return self._say("nothing", what=what, places=_listing(places, last="or"), all=_listing(places))

    def _shut(self, places: Sequence[str]) -> str:
        if not places:
            return ""
        return self._say("shut_one" if len(places) == 1 else "shut", places=_listing(places))

    def _change(self, worker: int) -> str:
        """Why the work goes on where it does, at the turn in which that is settled."""
        before, house = self._before, self._house
        if before is None or not before.missing() or house.missing() or not self._many:
            return ""
        finders = [sight.env_id for sight in house.sights()[len(before.sights()) :]]
        if worker in finders:
            return self._say("settle", env=worker)
        finder, copy = finders[-1], house.copies[worker]
        if copy.mind.held:
            return self._say("settle_held", env=worker, finder=finder, held=copy.mind.held)
        if copy.put:
            return self._say("settle_put", env=worker, finder=finder, held=next(iter(copy.put)))
        return self._say("settle_other", env=worker, finder=finder)

    def _work(self, worker: int, plan: Sequence[Move]) -> str:
        """What the environment nearest to the goal does, and what for."""
        move = plan[0]
        purpose = next(step for step in plan if step.verb not in ("go", "open"))
        event = f"{move.verb}_to_{purpose.verb}" if move.verb in ("go", "open") else move.verb
        last = move.verb in ("put", "use") and len(plan) == 1 and not self._house.missing()
        names = {"place": move.place, "thing": purpose.thing, "at": _at(move.place)}
        treatment = purpose.verb if purpose.verb in ("clean", "heat", "cool") else ""
        if treatment:
            event = event.replace(treatment, "treat")
        text = self._say(event, **names, treat=treatment, in_env=f" in environment {worker}" if self._many else "")
        return f"{text} {self._say('last')}" if last and self._rng.random() < 0.5 else text

    def _looking(self, moves: Mapping[int, Move], searched: Mapping[int, str], *, beside_work: bool) -> str:
        """Where the search goes on."""
        what = self._wanted()
        if self._before is None:
            return self._opening(moves, searched, what=what)
        if beside_work:
            return self._say("meanwhile", what=what, moves=self._moves(moves))
        fresh = {env_id for env_id, move in moves.items() if move.verb != "open"}
        if self._style is Style.HYPOTHESIS and self._many and fresh:
            kinds = self._kinds(kind_of(place) for place in searched.values())
            return self._say("test", what=what, moves=self._moves(moves), kinds=kinds)
        if self._style is Style.FOCUSED and self._many and len(moves) > self._last_count() > 0:
            return self._say("widen", what=what, moves=self._moves(moves))
        return self._say("go_on" if fresh else "go_on_open", what=what, moves=self._moves(moves))

    def _opening(self, moves: Mapping[int, Move], searched: Mapping[int, str], *, what: str) -> str:
        style = self._style
        if style is Style.FOCUSED and 1 < len(self._house.copies) == len(moves):
            style = Style.SEARCH  # too few environments to save any
        kinds = self._kinds(kind_of(place) for place in searched.values())
        return self._say(f"open_{style}", what=what, kinds=kinds, moves=self._moves(moves), task=self._task())

    def _last_count(self) -> int:
        """Environments that acted in the last turn, as far as they have moved at all."""
        before = self._before
        if before is None:
            return 0
        return sum(copy.latest != before.copies[env_id].latest for env_id, copy in self._house.copies.items())

    def _wanted(self) -> str:
        """What is looked for, with its article."""
        goal, missing = self._house.goal, self._house.missing()
        if goal.task_type == TWO:
            seen = {sight.thing for sight in self._house.sights()}
            return f"a second {goal.target}" if seen else f"two {_plural(goal.target)}"
        return _listing([_a(kind) for kind in missing])

    def _task(self) -> str:
        """The goal as a short clause."""
        goal = self._house.goal
        if goal.task_type == LOOK:
            return f"I have to look at {_a(goal.target)} in the light of {_a(goal.place)}"
        how = {"pick_clean": "clean ", "pick_heat_": "hot ", "pick_cool_": "cool "}.get(goal.task_type[:10], "")
        thing = f"two {_plural(goal.target)}" if goal.task_type == TWO else _a(f"{how}{goal.target}")
        return f"{thing} must end up {'in' if goal.place in _INSIDE else 'on'} {_a(goal.place)}"

    def _moves(self, moves: Mapping[int, Move]) -> str:
        """Searching moves: one by one, or by what is done."""
        if not self._many:
            return _listing([f"I {_ACTS[move.verb][0]} {move.place}" for move in moves.values()])
        if len(moves) > 1 and self._rng.random() < 0.4:
            groups: dict[str, list[str]] = {}
            for move in moves.values():
                groups.setdefault(_ACTS[move.verb][0], []).append(move.place)
            return "I " + _listing([f"{act} {_listing(places)}" for act, places in groups.items()], comma=True)
        return _listing([f"environment {env_id} {_ACTS[move.verb][1]} {move.place}" for env_id, move in sorted(moves.items())])

    def _kinds(self, kinds: Iterable[str]) -> str:
        """Kinds of places as a list, e.g. "cabinets and the fridge"."""
        count = Counter(kind_of(place) for place in self._house.places)
        return _listing([_plural(kind) if count[kind] > 1 else f"the {kind}" for kind in dict.fromkeys(kinds)])

    def _say(self, event: str, **names: object) -> str:
        one = f"{event}_alone"
        return say(SENTENCES[one if not self._many and one in SENTENCES else event], self._rng, **names)


def _by_place(sights: Iterable[Sight]) -> list[list[Sight]]:
    groups: dict[str, list[Sight]] = {}
    for sight in sights:
        groups.setdefault(sight.place, []).append(sight)
    return list(groups.values())


def _finished_kinds(house: House, read: Iterable[str]) -> list[str]:
    """Kinds of places of which none is left to look into, among those just read."""
    left = {kind_of(place) for place in house.unread()}
    return [kind for kind in dict.fromkeys(kind_of(place) for place in read) if kind not in left]


def _at(place: str) -> str:
    return f"{'in' if kind_of(place) in _INSIDE else 'on'} {place}"


def _a(name: str) -> str:
    return f"{'an' if name[:1] in 'aeiou' else 'a'} {name}"


def _plural(kind: str) -> str:
    """The usual plural of a kind.

    >>> _plural("shelf"), _plural("watch"), _plural("tomato"), _plural("knife"), _plural("drawer")
    ('shelves', 'watches', 'tomatoes', 'knives', 'drawers')
    """
    if kind.endswith(("f", "fe")):
        return re.sub("fe?$", "ves", kind)
    return kind + ("es" if kind.endswith(("s", "x", "ch", "ato")) else "s")


def _listing(items: Sequence[str], *, last: str = "and", comma: bool = False) -> str:
    """Items as a sentence lists them.

    >>> _listing(["a", "b", "c"]), _listing(["a", "b"], last="or"), _listing(["a"])
    ('a, b and c', 'a or b', 'a')
    """
    if len(items) < 2:
        return "".join(items)
    return f"{', '.join(items[:-1])}{',' if comma else ''} {last} {items[-1]}"
