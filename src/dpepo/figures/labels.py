"""Where names go beside what they name, so that they cover neither each other nor the data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.text import Annotation
from matplotlib.transforms import Bbox

from dpepo.figures.palette import Palette

_SIDES = (
    (7, 6, "left", "bottom"), (7, -6, "left", "top"), (-7, 6, "right", "bottom"), (-7, -6, "right", "top"),
    (9, 0, "left", "center"), (-9, 0, "right", "center"), (0, 9, "center", "bottom"), (0, -9, "center", "top"),
    (26, 20, "left", "bottom"), (26, -20, "left", "top"), (-26, 20, "right", "bottom"), (-26, -20, "right", "top"),
    (40, 38, "left", "bottom"), (40, -38, "left", "top"), (-40, 38, "right", "bottom"), (-40, -38, "right", "top"),
)  # fmt: skip
_FAR = 8  # from this place on, a thin line leads from the name to its point


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
    for point in sorted(points, key=lambda one: (-one.x, -one.y)):
        costs = []
        for place in range(len(_SIDES)):
            text = _annotate(axes, point, place, palette)
            box = text.get_window_extent(renderer)
            text.remove()
            cost = (
                sum(other.weight * _overlap(box, other.box) for other in taken)
                + 4 * _outside(box, frame)
                + place * 8
                + 120 * (place >= _FAR)
            )
            costs.append((cost, place, box))
        _, place, box = min(costs, key=lambda one: one[:2])
        _annotate(axes, point, place, palette, line=place >= _FAR)
        taken.append(Obstacle(box, 1.0))


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
