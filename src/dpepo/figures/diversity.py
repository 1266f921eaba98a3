"""How diverse the actions of each method are: repeated actions, repeated transitions, exploration share, episode length.

The counts are those of `dpepo.rewards.diversity` under one setting for all methods (`dpepo.figures.facts.COUNTING`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from dpepo.figures.estimates import Estimate, intervals_text, mean, n_text
from dpepo.figures.facts import EpisodeFacts
from dpepo.figures.options import Options
from dpepo.figures.picture import Column, Dots, Picture, Rows, caption_of
from dpepo.figures.sources import Material, Played

_Measure = Callable[[EpisodeFacts], float | None]
_WIDTH, _DEPTH = "in width", "in depth"


def make(material: Material, options: Options) -> Picture:
    """A row per method, a column per measure.

    Raises:
        NothingToShow: No episodes.
    """
    methods = material.in_way(options.way)
    way = next(iter(methods.values()))[0].way
    columns = (
        Column(
            "repeated actions\n(share of actions)",
            True,
            (
                _dots(_WIDTH, methods, _share(lambda facts: facts.repeats_width), share=True, colour=0),
                _dots(_DEPTH, methods, _share(lambda facts: facts.repeats_depth), share=True, colour=1),
            ),
        ),
        Column(
            "repeated transitions\n(share of actions)",
            True,
            (
                _dots("", methods, _share(lambda facts: facts.transitions_width), share=True, colour=0),
                _dots("", methods, _share(lambda facts: facts.transitions_depth), share=True, colour=1),
            ),
        ),
        Column(
            "exploration share\n(distinct / all actions)",
            True,
            (_dots("", methods, _share(lambda facts: facts.distinct), share=True, colour=-1),),
        ),
        Column(
            "episode length\n(turns)", False, (_dots("", methods, lambda facts: float(facts.turns), share=False, colour=-1),)
        ),
    )
    estimates = [value for column in columns for dots in column.dots for value in dots.values]
    return Picture(
        kind="diversity",
        title="Repeats, exploration and length of episodes",
        caption=caption_of(
            material.played_as(way),
            n_text(estimates),
            intervals_text(estimates),
            "In width: the same as in another copy of the task (actions: at the same turn); in depth: the same as earlier in "
            "the same copy. A transition is the action before and the action now. Means over episodes of shares within them.",
            material.source,
        ),
        panels=(Rows(names=tuple(methods), columns=columns),),
        notes=material.others(way),
    )


def _share(count: Callable[[EpisodeFacts], int]) -> _Measure:
    return lambda facts: count(facts) / facts.num_actions if facts.num_actions else None


def _dots(name: str, methods: Mapping[str, Sequence[Played]], measure: _Measure, *, share: bool, colour: int) -> Dots:
    return Dots(name, tuple(_mean(repeats, measure, share=share) for repeats in methods.values()), colour)


def _mean(repeats: Sequence[Played], measure: _Measure, *, share: bool) -> Estimate | None:
    values = [[value for facts in played.facts if (value := measure(facts)) is not None] for played in repeats]
    return mean([one for one in values if one], share=share)
