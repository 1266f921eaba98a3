"""Draws panels with two measured axes: named points, and lines with bands or whiskers."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator, NullLocator
from matplotlib.transforms import Bbox

from dpepo.figures.estimates import Estimate
from dpepo.figures.key import draw_key
from dpepo.figures.labels import Named, Obstacle, label_points, spread
from dpepo.figures.palette import MARKERS, Palette
from dpepo.figures.picture import Axis, Line, Lines, Mark, Scatter

_DASH = (0, (4, 2.5))
_LABEL_PT = 11.5  # points between the names of two lines
_CHAR_IN = 0.074  # inches of a character of a name


def draw_scatter(axes: Axes, panel: Scatter, palette: Palette) -> None:
    """Points with whiskers to both sides, their names beside them."""
    for mark in panel.marks:
        colour = palette.of(mark.colour)
        axes.errorbar(
            mark.x.value,
            mark.y.value,
            xerr=_error(mark.x),
            yerr=_error(mark.y),
            fmt=MARKERS[mark.colour % len(MARKERS)],
            color=colour,
            markersize=7,
            elinewidth=1.2,
            alpha=1.0,
            zorder=3,
        )
    _set_axis(axes, panel.x, "x", [value for mark in panel.marks for value in _reach(mark.x)])
    _set_axis(axes, panel.y, "y", [value for mark in panel.marks for value in _reach(mark.y)])
    draw_key(axes, panel.key, palette)
    label_points(
        axes,
        [Named(mark.name, mark.x.value, mark.y.value, palette.of(mark.colour)) for mark in panel.marks],
        palette=palette,
        obstacles=[one for mark in panel.marks for one in _obstacles(axes, mark)],
    )


def _error(one: Estimate) -> list[list[float]] | None:
    return None if one.low is None or one.high is None else [[max(0.0, one.value - one.low)], [max(0.0, one.high - one.value)]]


def _reach(one: Estimate) -> list[float]:
    return [value for value in (one.low, one.value, one.high) if value is not None]


def _obstacles(axes: Axes, mark: Mark) -> list[Obstacle]:
    """The marker, and less important the two whiskers."""
    at = axes.transData.transform
    (x, y) = at((mark.x.value, mark.y.value))
    found = [Obstacle(Bbox([[x - 6, y - 6], [x + 6, y + 6]]), 2.0)]
    if mark.x.low is not None and mark.x.high is not None:
        found.append(Obstacle(Bbox([[at((mark.x.low, 0))[0], y - 2], [at((mark.x.high, 0))[0], y + 2]]), 0.4))
    if mark.y.low is not None and mark.y.high is not None:
        ends = at((mark.x.value, mark.y.low))[1], at((mark.x.value, mark.y.high))[1]
        found.append(Obstacle(Bbox([[x - 2, ends[0]], [x + 2, ends[1]]]), 1.5))
    return found


def draw_lines(axes: Axes, panel: Lines, palette: Palette) -> None:
    """Lines with their bands or whiskers, named at their right end."""
    if panel.title:
        axes.set_title(panel.title, loc="left", fontsize=8.6, pad=5)
        axes.locator_params(axis="both", nbins=4)
    for number, line in enumerate(panel.lines):
        # intervals at the same place of a logarithmic axis stand beside each other
        aside = 1.03 ** (number - (len(panel.lines) - 1) / 2) if panel.x.log and line.whiskers else 1.0
        moved = line._replace(points=tuple(point._replace(x=point.x * aside) for point in line.points))
        _draw_line(axes, moved, palette)
    _set_axis(axes, panel.x, "x", [point.x for line in panel.lines for point in line.points])
    _set_axis(axes, panel.y, "y", [value for line in panel.lines for value in _line_reach(line)])
    named = [line for line in panel.lines if line.name and line.points]
    if named:
        _name_lines(axes, named, palette)


def _line_reach(line: Line) -> list[float]:
    if line.context:
        return [point.y for point in line.points]
    return [value for point in line.points for value in (point.low, point.y, point.high) if value is not None]


def _draw_line(axes: Axes, line: Line, palette: Palette) -> None:
    x, y = [point.x for point in line.points], [point.y for point in line.points]
    if line.context:
        axes.plot(x, y, color=palette.faint, linewidth=0.8, alpha=0.4, zorder=2)
        return
    colour, bounded = palette.of(line.colour), _bounded(line)
    style = _DASH if line.dashed else "-"
    marker = MARKERS[line.colour % len(MARKERS)]
    if line.whiskers:
        for at, low, high in bounded:
            axes.plot([at, at], [low, high], color=colour, linewidth=1.2, alpha=0.75, zorder=3)
    elif len(bounded) > 1:
        places, lows, highs = zip(*bounded, strict=True)
        axes.fill_between(places, lows, highs, color=colour, alpha=0.16, linewidth=0, zorder=2)
    axes.plot(
        x, y, color=colour, linewidth=1.8, linestyle=style, marker=marker, zorder=4,
        markersize=6.5 if line.whiskers else 4.2 if len(x) < 25 else 2.6,
        markerfacecolor=palette.background if line.dashed else colour,
    )  # fmt: skip


def _bounded(line: Line) -> list[tuple[float, float, float]]:
    """Place and bounds of the points that have an interval."""
    return [(point.x, point.low, point.high) for point in line.points if point.low is not None and point.high is not None]


def names_room(lines: Sequence[Line]) -> float:
    """Inches that the names to the right of the lines need."""
    parts = [part for line in lines if line.name and line.points for part in _broken(line.name)]
    return max(map(len, parts)) * _CHAR_IN + 0.24 if parts else 0.0


def _name_lines(axes: Axes, lines: Sequence[Line], palette: Palette) -> None:
    """Names to the right of the last points, moved apart where lines end close together."""
    extent, dpi = axes.get_window_extent(), axes.figure.dpi
    to_axes = axes.transAxes.inverted().transform
    ends = [to_axes(axes.transData.transform((line.points[-1].x, line.points[-1].y))) for line in lines]
    gap = _LABEL_PT * max(len(_broken(line.name)) for line in lines) / (extent.height * 72 / dpi)
    places = spread([float(end[1]) for end in ends], gap=gap, low=0.02, high=0.98)
    for line, end, y in zip(lines, ends, places, strict=True):
        colour = palette.of(line.colour)
        axes.annotate(
            "\n".join(_broken(line.name)),
            (float(end[0]), float(end[1])),
            xycoords="axes fraction",
            xytext=(1 + 0.1 * dpi / extent.width, y),
            textcoords="axes fraction",
            va="center",
            fontsize=8.6,
            color=colour,
            annotation_clip=False,
            arrowprops={"arrowstyle": "-", "color": colour, "linewidth": 0.6, "alpha": 0.5, "shrinkA": 1, "shrinkB": 3},
        )


def _broken(name: str) -> list[str]:
    """A long name in two lines, broken near its middle."""
    if len(name) <= 22 or " " not in name:
        return [name]
    spaces = [index for index, char in enumerate(name) if char == " "]
    middle = min(spaces, key=lambda index: abs(index - len(name) / 2))
    return [name[:middle], name[middle + 1 :]]


def _set_axis(axes: Axes, axis: Axis, which: str, values: Sequence[float]) -> None:
    low, high = min(values, default=0.0), max(values, default=1.0)
    low = min(0.0, low) if axis.from_zero else low
    one = axes.xaxis if which == "x" else axes.yaxis
    limits = axes.set_xlim if which == "x" else axes.set_ylim
    if axis.log:
        (axes.set_xscale if which == "x" else axes.set_yscale)("log", base=axis.log)
        one.set_minor_locator(NullLocator())
        limits(low / 1.18, high * 1.18)
    else:
        pad = 0.06 * (high - low) or 0.5
        bottom = low if axis.from_zero else low - pad
        limits(bottom, high + pad)
        if axis.percent:
            limits(-0.02 if axis.from_zero else bottom, min(1.05, max(high + pad, 0.1)))
    if axis.integer:
        one.set_major_locator(MaxNLocator(nbins="auto", integer=True, min_n_ticks=1))
    if axis.ticks:
        one.set_ticks(list(axis.ticks), labels=[_number(tick) for tick in axis.ticks])
    elif axis.percent:
        one.set_major_formatter(lambda value, _: f"{100 * value:.3g} %")
    (axes.set_xlabel if which == "x" else axes.set_ylabel)(axis.label)


def _number(value: float) -> str:
    """A tick in few characters.

    >>> _number(754560.0), _number(7.6e9), _number(4.0)
    ('0.75 M', '7.6 B', '4')
    """
    for unit, size in (("B", 1e9), ("M", 1e6)):
        if value >= size / 2:
            return f"{value / size:.2g} {unit}"
    return f"{value:,.6g}"
