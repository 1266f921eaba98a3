"""The learning curve as an inline SVG picture, drawn here so that it follows the page's colours and needs no package.

Pure: points in, text out. Colours are CSS variables of ``web/base.css``; labels are escaped.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from markupsafe import Markup

from dpepo.runs.stats import wilson_interval
from dpepo.runs.summary import CurvePoint, Reference

NUM_COLOURS = 6  # --s1 .. --s6


class Frame(NamedTuple):
    """Where the plot lies in a picture of `width` x `height` units, and what the axes span."""

    width: float
    height: float
    low: float  # first step
    high: float  # last step
    left: float = 46
    right: float = 18
    top: float = 14
    bottom: float = 46

    def x(self, step: float) -> float:
        """Horizontal place of a step."""
        span = self.high - self.low
        share = (step - self.low) / span if span else 0.5
        return self.left + share * (self.width - self.left - self.right)

    def y(self, value: float) -> float:
        """Vertical place of a proportion; 0 is at the bottom."""
        return self.top + (1 - value) * (self.height - self.top - self.bottom)


def series_names(points: Sequence[CurvePoint]) -> list[str]:
    """The lines of a curve, in order of first mention."""
    return list(dict.fromkeys(point.series for point in points))


def curve_svg(
    points: Sequence[CurvePoint], *, references: Sequence[Reference] = (), axis: str, width: int = 860, height: int = 380
) -> Markup:
    """The picture.

    Args:
        points: at least one measured proportion.
        references: levels drawn as dashed lines.
        axis: what the steps count.
        width: width in units of the picture; one unit is a pixel where the page is wide enough.
        height: its height.
    """
    steps = [point.step for point in points]
    frame = Frame(width, height, min(steps), max(steps))
    lines = [
        sorted((point for point in points if point.series == name), key=lambda point: point.step)
        for name in series_names(points)
    ]
    parts = [_axes(frame, axis), *(_reference(frame, reference, points) for reference in references)]
    parts += [_band(frame, line, number) for number, line in enumerate(lines)]
    parts += [_line(frame, line, number) for number, line in enumerate(lines)]
    opening = Markup('<svg class="curve" viewBox="0 0 {} {}" role="img" aria-label="Success over {}">').format(
        width, height, axis
    )
    return opening + Markup("").join(parts) + Markup("</svg>")


def _axes(frame: Frame, axis: str) -> Markup:
    parts = []
    for percent in (0, 25, 50, 75, 100):
        y = frame.y(percent / 100)
        parts.append(_level(frame, y, "grid"))
        parts.append(_text(f"{percent} %", frame.left - 8, y + 4, kind="tick", anchor="end"))
    for step in ticks(frame.low, frame.high, most=max(2, int(frame.width / 110))):
        parts.append(_text(f"{step:g}", frame.x(step), frame.height - frame.bottom + 20, kind="tick", anchor="middle"))
    middle = (frame.left + frame.width - frame.right) / 2
    parts.append(_text(axis, middle, frame.height - 6, kind="tick", anchor="middle"))
    return Markup("").join(parts)


def _level(frame: Frame, y: float, kind: str) -> Markup:
    line = Markup('<line class="{}" x1="{}" x2="{}" y1="{}" y2="{}"/>')
    return line.format(kind, _n(frame.left), _n(frame.width - frame.right), _n(y), _n(y))


def _text(text: str, x: float, y: float, *, kind: str, anchor: str) -> Markup:
    return Markup('<text class="{}" x="{}" y="{}" text-anchor="{}">{}</text>').format(kind, _n(x), _n(y), anchor, text)


def ticks(low: float, high: float, *, most: int) -> list[float]:
    """Round numbers from low to high, at most `most` + 1 of them.

    >>> ticks(0, 59, most=7)
    [0.0, 10.0, 20.0, 30.0, 40.0, 50.0]
    """
    if high <= low:
        return [low]
    rough = (high - low) / most
    power = 10.0 ** math.floor(math.log10(rough))
    unit = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough)
    if all(float(bound).is_integer() for bound in (low, high)):
        unit = max(unit, 1.0)
    return [unit * number for number in range(math.ceil(low / unit), math.floor(high / unit) + 1)]


def _reference(frame: Frame, reference: Reference, points: Sequence[CurvePoint]) -> Markup:
    y = frame.y(reference.value)
    label = f"{reference.label} ({100 * reference.value:.0f} %)"
    at_left = _room(frame, reference, points, left=True) > _room(frame, reference, points, left=False)
    x, anchor = (frame.left + 4, "start") if at_left else (frame.width - frame.right, "end")
    return _level(frame, y, "reference") + _text(label, x, y - 6, kind="reference-label", anchor=anchor)


def _room(frame: Frame, reference: Reference, points: Sequence[CurvePoint], *, left: bool) -> float:
    """How far the lines keep from a reference level in the left or right two fifths of the picture."""
    reach = 0.4 * (frame.high - frame.low)
    near = [point for point in points if (point.step <= frame.low + reach if left else point.step >= frame.high - reach)]
    return min((abs(point.value - reference.value) for point in near), default=1.0)


def _band(frame: Frame, line: Sequence[CurvePoint], number: int) -> Markup:
    """The 95 % interval of every point whose number of episodes is known, as a pale band."""
    bounds = [(point.step, wilson_interval(round(point.value * point.n), point.n)) for point in line if point.n]
    if len(bounds) < 2:
        return Markup("")
    path = [f"{_n(frame.x(step))},{_n(frame.y(interval.high))}" for step, interval in bounds]
    path += [f"{_n(frame.x(step))},{_n(frame.y(interval.low))}" for step, interval in reversed(bounds)]
    polygon = Markup('<polygon class="band" points="{}" style="--series: var(--s{})"/>')
    return polygon.format(" ".join(path), number % NUM_COLOURS + 1)


def _line(frame: Frame, line: Sequence[CurvePoint], number: int) -> Markup:
    places = " ".join(f"{_n(frame.x(point.step))},{_n(frame.y(point.value))}" for point in line)
    dot = Markup('<circle class="dot" cx="{}" cy="{}" r="{}"><title>{}</title></circle>')
    parts = [Markup('<polyline class="line" points="{}"/>').format(places)]
    for point in line:
        count = f", n = {point.n}" if point.n else ""
        title = f"{point.series}: {100 * point.value:.1f} % at {point.step:g}{count}"
        radius = 2.2 if len(line) > 12 else 3.6
        parts.append(dot.format(_n(frame.x(point.step)), _n(frame.y(point.value)), radius, title))
    return Markup('<g style="--series: var(--s{})">{}</g>').format(number % NUM_COLOURS + 1, Markup("").join(parts))


def _n(number: float) -> str:
    return f"{number:.1f}".removesuffix(".0")
