"""Where names go beside what they name, so that they cover neither each other nor the data."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.text import Annotation
from matplotlib.transforms import Bbox

from dpepo.figures.palette import Palette

_NEAR = (
    (7, 6, "left", "bottom"), (7, -6, "left", "top"), (-7, 6, "right", "bottom"), (-7, -6, "right", "top"),
    (9, 0, "left", "center"), (-9, 0, "right", "center"), (0, 9, "center", "bottom"), (0, -9, "center", "top"),
)  # fmt: skip
_FAR = tuple(
    (round(radius * dx), round(radius * dy), "left" if dx > 0 else "right", "bottom" if dy > 0 else "top")
    for radius in (26, 44, 66, 92)
    for dx, dy in ((1, 0.8), (1, -0.8), (-1, 0.8), (-1, -0.8), (0.4, 1), (0.4, -1), (-0.4, 1), (-0.4, -1))
)  # from these places a thin line leads to the point
_SIDES = (*_NEAR, *_FAR)  # offsets in points of the page, and how the name hangs there


class Obstacle(NamedTuple):
    """Something that names should not cover."""

    box: Bbox  # in display coordinates
    weight: float  # 1: as bad as covering another name


class Named(NamedTuple):
    """Something at a place that needs its name beside it."""

    name: str
    x: float
    y: float
    colour: str


def label_points(axes: Axes, points: Sequence[Named], *, palette: Palette, obstacles: Sequence[Obstacle]) -> None:
    """Write a name beside every point.

    Args:
        axes: Finished axes; limits must not change afterwards.
        points: In data coordinates.
        palette: Colours.
        obstacles: What names should not cover.
    """
    renderer: Any = axes.figure.canvas.get_renderer()  # type: ignore[attr-defined]
    frame = axes.get_window_extent(renderer)
    taken = list(obstacles)
    places = axes.transData.transform([(point.x, point.y) for point in points])
    own = dict(zip(points, (tuple(place) for place in places), strict=True))
    for point in sorted(points, key=lambda one: (-one.x, -one.y)):
        costs = []
        for place in range(len(_SIDES)):
            text = _annotate(axes, point, place, palette)
            box = text.get_window_extent(renderer)
            text.remove()
            cost = sum(other.weight * _overlap(box, other.box) for other in taken) + 4 * _outside(box, frame) + place * 5
            cost += _line_cost(box, own[point], taken) if place >= len(_NEAR) else _doubt(box, point, own)
            costs.append((cost, place, box))
        _, place, box = min(costs, key=lambda one: one[:2])
        _annotate(axes, point, place, palette, line=place >= len(_NEAR))
        taken.append(Obstacle(box, 1.0))
        if place >= len(_NEAR):
            taken += [Obstacle(Bbox([[x - 3, y - 3], [x + 3, y + 3]]), 1.5) for x, y in _line(box, own[point])]


def _doubt(box: Bbox, point: Named, own: Mapping[Named, tuple[float, float]]) -> float:
    """What it costs that a name without a line stands as near to another point as to its own."""
    distance = _distance(box, own[point])
    return 150.0 * sum(_distance(box, place) < distance + 12 for other, place in own.items() if other != point)


def _line_cost(box: Bbox, place: tuple[float, float], taken: Sequence[Obstacle]) -> float:
    """What the line from a name to its point costs: something at all, and more for each thing that it crosses."""
    return 60.0 + sum(25.0 * one.weight for one in taken for at in _line(box, place) if _distance(one.box, at) == 0)


def _line(box: Bbox, place: tuple[float, float]) -> list[tuple[float, float]]:
    """Places along the line from the middle of a name to its point, the last stretch left out."""
    x, y = (box.x0 + box.x1) / 2, (box.y0 + box.y1) / 2
    return [(x + (place[0] - x) * share / 14, y + (place[1] - y) * share / 14) for share in range(13)]


def _distance(box: Bbox, place: tuple[float, float]) -> float:
    """Pixels from a place to the nearest point of a box; 0 inside."""
    return math.hypot(max(box.x0 - place[0], 0, place[0] - box.x1), max(box.y0 - place[1], 0, place[1] - box.y1))


def _annotate(axes: Axes, point: Named, place: int, palette: Palette, *, line: bool = False) -> Annotation:
    dx, dy, ha, va = _SIDES[place]
    return axes.annotate(
        point.name,
        (point.x, point.y),
        xytext=(dx, dy),
        textcoords="offset points",
        ha=ha,
        va=va,
        fontsize=8.6,
        color=palette.ink,
        arrowprops={"arrowstyle": "-", "color": palette.faint, "linewidth": 0.7, "shrinkB": 4} if line else None,
    )


def _overlap(one: Bbox, other: Bbox) -> float:
    """Shared area in square pixels."""
    width = min(one.x1, other.x1) - max(one.x0, other.x0)
    height = min(one.y1, other.y1) - max(one.y0, other.y0)
    return float(width * height) if width > 0 and height > 0 else 0.0


def _outside(box: Bbox, frame: Bbox) -> float:
    wide = max(0.0, frame.x0 - box.x0) + max(0.0, box.x1 - frame.x1)
    high = max(0.0, frame.y0 - box.y0) + max(0.0, box.y1 - frame.y1)
    return float(wide * box.height + high * box.width)


def spread(places: Sequence[float], *, gap: float, low: float, high: float) -> list[float]:
    """Places moved apart until neighbours keep a gap, in their order, inside the bounds where there is room.

    >>> spread([0.5, 0.5], gap=0.2, low=0.0, high=1.0)
    [0.4, 0.6]
    """
    order = sorted(range(len(places)), key=lambda index: (places[index], index))
    groups: list[tuple[float, list[int]]] = []  # centre and members
    for index in order:
        groups.append((places[index], [index]))
        while True:
            half = gap * (len(groups[-1][1]) - 1) / 2
            centre = min(max(groups[-1][0], low + half), max(low + half, high - half))
            groups[-1] = (centre, groups[-1][1])
            if len(groups) < 2:
                break
            before, members = groups[-2]
            if centre - half - gap >= before + gap * (len(members) - 1) / 2 - 1e-9:
                break
            both = members + groups[-1][1]
            middle = sum(places[one] for one in both) / len(both)
            groups[-2:] = [(middle, both)]
    moved = [0.0] * len(places)
    for centre, members in groups:
        for number, index in enumerate(members):
            moved[index] = round(centre + gap * (number - (len(members) - 1) / 2), 9)
    return moved
