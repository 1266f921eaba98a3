"""Where to look for things in an ALFWorld house: likely kinds of places first, different places in different copies. Pure.

What is likely comes from `dpepo.envs.alfworld.rooms.statistics`: how often a kind of object lies at a kind of place over all
games. It is a sense of where things belong and says nothing about one game.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Sequence
from functools import cache

from dpepo.config import Style
from dpepo.envs.alfworld.observed import kind_of
from dpepo.envs.alfworld.rooms import statistics
from dpepo.synthesis.oracle.alfworld_seen import House, Move

_LAMP_PLACES = {"sidetable": 3.0, "desk": 3.0, "dresser": 2.0, "shelf": 1.0, "coffeetable": 0.7, "diningtable": 0.7}
_SOMEWHERE = 0.05  # likelihood of places where a thing hardly ever lies
_NOISE = {Style.SEARCH: 0.8, Style.HYPOTHESIS: 0.4, Style.FOCUSED: 0.3}  # how far a style departs from the likeliest order
_FEW = 2  # environments that a focused search begins with
_PATIENCE = 5  # turns after which it uses all
_LIKELY = 0.4  # share of the greatest likelihood from which a place counts as likely


class Search:
    """Who looks where next in one episode. The same seed gives the same order at every turn."""

    def __init__(self, house: House, *, style: Style, seed: int) -> None:
        """Judge all places.

        Args:
            house: What has been seen; something must be missing.
            style: One of the three.
            seed: Of the episode.
        """
        self._house, self._style = house, style
        rng = random.Random(f"places/{seed}")
        self._order = rng.sample(sorted(house.copies), len(house.copies))
        kinds = sorted({kind_of(place) for place in house.places})
        by_kind = {kind: _gumbel(rng) for kind in kinds}
        by_place = {place: _gumbel(rng) for place in house.places}
        chance = by_kind if style is Style.HYPOTHESIS else by_place
        self.likelihood = {place: self._likelihood(place) for place in house.places}
        self._weight = {
            place: likelihood * math.exp(_NOISE[style] * chance[kind_of(place) if style is Style.HYPOTHESIS else place])
            for place, likelihood in self.likelihood.items()
        }

    def searchers(self, *, turn: int) -> list[int]:
        """Environments that take part, in the order in which they choose.

        Args:
            turn: Turns played so far.
        """
        few = self._style is Style.FOCUSED and turn < _PATIENCE and bool(self.likely())
        return self._order[:_FEW] if few else self._order

    def likely(self) -> list[str]:
        """Places not looked into that are about as likely as the likeliest of all, best first."""
        least = _LIKELY * max(self.likelihood.values())
        return [place for place in self._queue(self._house.unread()) if self.likelihood[place] >= least]

    def goals(self, env_ids: Sequence[int]) -> dict[int, str]:
        """The place that each of some environments looks into next; fewer than asked for when not enough are left.

        Args:
            env_ids: In the order in which they choose.
        """
        unread = list(self._house.unread())
        goals: dict[int, str] = {}
        for env_id in env_ids:  # whoever stands before a closed place goes on with it
            here = self._house.copies[env_id].mind.here
            if here in unread:
                goals[env_id] = here
                unread.remove(here)
        for env_id in env_ids:
            if env_id not in goals and unread:
                goals[env_id] = self._choice(env_id, unread, others=goals)
                unread.remove(goals[env_id])
        return goals

    def moves(self, place: str) -> list[Move]:
        """How a copy gets to see what is in a place: go there, or where it stands before it, open it or look at it."""
        return [Move("go", place), Move("open", place), Move("look", place)]

    def _choice(self, env_id: int, unread: Sequence[str], *, others: dict[int, str]) -> str:
        if self._style is not Style.HYPOTHESIS:
            return self._queue(unread)[0]
        kind = kind_of(self._house.copies[env_id].mind.here)
        claimed = [kind_of(place) for place in others.values()]
        left = [kind_of(place) for place in unread]
        if kind not in left or kind in claimed:
            value = sum if len(self._house.copies) > 1 else max  # alone, a kind of many places takes long to rule out
            values = {
                name: value(self._weight[place] for place in unread if kind_of(place) == name) for name in sorted(set(left))
            }
            kind = max(values, key=lambda name: values[name] / (1 + claimed.count(name)) ** 2)
        return self._queue(place for place in unread if kind_of(place) == kind)[0]

    def _queue(self, places: Iterable[str]) -> list[str]:
        return sorted(places, key=lambda place: -self._weight[place])

    def _likelihood(self, place: str) -> float:
        goal = self._house.goal
        best = max((likelihood(kind, kind_of(place)) for kind in self._house.missing()), default=_SOMEWHERE)
        if kind_of(place) == goal.place:  # what already lies where it belongs would not have to be brought there
            return best * (0.02 if goal.task_type == "pick_and_place_simple" else 0.3)
        return best


def likelihood(thing: str, place: str) -> float:
    """How well a kind of thing goes to a kind of place; about 1 for a place like any other."""
    lamp = _LAMP_PLACES.get(place, _SOMEWHERE) if thing.endswith("lamp") else 0.0
    return max(_SOMEWHERE, lamp, _affinities().get(thing, {}).get(place, _SOMEWHERE))


@cache
def _affinities() -> dict[str, dict[str, float]]:
    return {
        thing.lower(): {place.lower(): value for place, value in places.items()}
        for thing, places in statistics().affinity.items()
    }


def _gumbel(rng: random.Random) -> float:
    return -math.log(-math.log(rng.uniform(1e-9, 1 - 1e-9)))
