"""How many copies a method acts in at each turn of an episode."""

from __future__ import annotations

from collections.abc import Sequence

from dpepo.figures.estimates import Estimate, intervals_text, mean
from dpepo.figures.options import Options
from dpepo.figures.picture import Axis, Line, Picture, Point, caption_of, split_lines
from dpepo.figures.sources import Material, Played

FEWEST = 5  # episodes that a point needs in every repeat; the last turns of a few long episodes say little


def make(material: Material, options: Options) -> Picture:
    """A line per method over turns.

    Raises:
        NothingToShow: No episodes.
    """
    methods = material.in_way(options.way)
    way = next(iter(methods.values()))[0].way
    found = {name: _over_turns(repeats) for name, repeats in methods.items()}
    lines = tuple(
        Line(
            name,
            tuple(Point(turn, one.value, one.low, one.high) for turn, one in points),
            colour=number,
            whiskers=len(points) < 2,
        )
        for number, (name, points) in enumerate(found.items())
    )
    x, y = Axis(label="turn of the episode", integer=True), Axis(label="actions at that turn (mean)", from_zero=True)
    panels, columns = split_lines(lines, x=x, y=y)
    estimates = [one for points in found.values() for _, one in points]
    return Picture(
        kind="parallel",
        title="Parallel actions over the turns of an episode",
        caption=caption_of(
            material.played_as(way),
            f"Mean over the episodes that reached the turn; left out where they are fewer than {FEWEST}."
            if any(one.n >= FEWEST for one in estimates)
            else "Mean over the episodes that reached the turn.",
            intervals_text(estimates, what="Bands"),
            "Grey: the other methods." if columns else "",
            material.source,
        ),
        panels=panels,
        columns=columns,
        axes=f"{y.label}, over the {x.label}" if columns else "",
        notes=material.others(way),
    )


def _over_turns(repeats: Sequence[Played]) -> list[tuple[int, Estimate]]:
    latest = max(facts.turns for played in repeats for facts in played.facts)
    points = []
    for turn in range(latest):
        values = [[float(facts.actions[turn]) for facts in played.facts if facts.turns > turn] for played in repeats]
        few = min(FEWEST, min(len(played.facts) for played in repeats))
        one = mean([some for some in values if some])
        if one is not None and min(map(len, values)) >= few:
            points.append((turn + 1, one))
    return points
