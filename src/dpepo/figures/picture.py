"""What a picture shows, before anything is drawn: panels of numbers with their intervals, a title and a caption.

Plain data, made by the modules named after the pictures and drawn by `dpepo.figures.drawing`. Nothing here needs matplotlib.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from dpepo.errors import RequestError
from dpepo.figures.estimates import Estimate

MAX_LINES = 5  # lines that one panel can show apart; more get a panel each


class NothingToShow(RequestError):
    """The runs do not hold what a picture needs; the text says what is missing."""


class Mark(NamedTuple):
    """A point with a name, e.g. a method in the plane of turns and success."""

    name: str
    x: Estimate
    y: Estimate
    colour: int = 0  # place in the palette


class Point(NamedTuple):
    """A point of a line, with the bounds of its interval where there is one."""

    x: float
    y: float
    low: float | None = None
    high: float | None = None


class Line(NamedTuple):
    """A named line."""

    name: str  # empty: no label is drawn, because another panel names it
    points: tuple[Point, ...]
    colour: int = 0
    dashed: bool = False
    whiskers: bool = False  # intervals as bars at every point; otherwise as a band
    context: bool = False  # thin and grey, for comparison only


@dataclass(frozen=True, kw_only=True)
class Axis:
    """One axis."""

    label: str
    percent: bool = False  # values are proportions in [0, 1]
    log: int = 0  # base of a logarithmic axis; 0: linear
    ticks: tuple[float, ...] = ()  # exact places; empty: chosen by the drawing
    from_zero: bool = False
    integer: bool = False  # ticks at whole numbers only


@dataclass(frozen=True, kw_only=True)
class Scatter:
    """Named points in a plane."""

    x: Axis
    y: Axis
    marks: tuple[Mark, ...]
    key: tuple[tuple[str, int], ...] = ()  # what the colours mean: words and place in the palette


@dataclass(frozen=True, kw_only=True)
class Lines:
    """Lines over a common axis."""

    x: Axis
    y: Axis
    lines: tuple[Line, ...]
    title: str = ""


class Dots(NamedTuple):
    """One number per row."""

    name: str  # empty where a column has only one kind of dot
    values: tuple[Estimate | None, ...]  # as long as the rows; None: not measured
    colour: int = 0


class Column(NamedTuple):
    """One measure, with a dot or several per row."""

    title: str
    percent: bool
    dots: tuple[Dots, ...]


@dataclass(frozen=True, kw_only=True)
class Rows:
    """Methods as rows, measures as columns."""

    names: tuple[str, ...]
    columns: tuple[Column, ...]


class Part(NamedTuple):
    """One kind of piece of stacked bars."""

    name: str
    values: tuple[float, ...]  # as long as the rows; 0 where a row lacks it
    colour: int = 0


@dataclass(frozen=True, kw_only=True)
class Stacks:
    """Bars made of parts."""

    title: str
    unit: str
    names: tuple[str, ...]
    parts: tuple[Part, ...]


class Amounts(NamedTuple):
    """Many values of one kind."""

    name: str
    values: tuple[int, ...]
    colour: int = 0


@dataclass(frozen=True, kw_only=True)
class Histogram:
    """How often values occur, one row of bars per kind over a common axis."""

    x: Axis
    amounts: tuple[Amounts, ...]


Panel = Scatter | Lines | Rows | Stacks | Histogram


@dataclass(frozen=True, kw_only=True)
class Picture:
    """A whole picture."""

    kind: str  # e.g. "turns"
    title: str  # what is shown
    caption: str  # n, seeds, intervals, source
    panels: tuple[Panel, ...]
    columns: int = 0  # panels side by side; 0: all of them
    axes: str = ""  # what the axes are, where many small panels leave no room for that
    notes: tuple[str, ...] = ()  # what was left out, for whoever asked for the picture


def caption_of(*parts: str) -> str:
    """Sentences joined; empty ones are left out.

    >>> caption_of("One.", "", "Two.")
    'One. Two.'
    """
    return " ".join(part for part in parts if part)


def split_lines(lines: tuple[Line, ...], *, x: Axis, y: Axis) -> tuple[tuple[Lines, ...], int]:
    """One panel for a few lines; for many, a panel each with the others in grey behind it.

    Returns:
        The panels, and how many stand side by side (0: all).
    """
    if len(lines) <= MAX_LINES:
        return (Lines(x=x, y=y, lines=lines),), 0
    grey = tuple(line._replace(name="", context=True, whiskers=False) for line in lines)
    panels = tuple(
        Lines(x=x, y=y, title=line.name, lines=(*grey[:number], *grey[number + 1 :], line._replace(name="", colour=0)))
        for number, line in enumerate(lines)
    )
    return panels, 3
