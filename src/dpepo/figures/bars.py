"""Draws panels with methods as rows (dots, stacked bars) and distributions."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from matplotlib.axes import Axes

from dpepo.figures.key import draw_key
from dpepo.figures.palette import MARKERS, Palette
from dpepo.figures.picture import Histogram, Rows, Stacks

_CHAR_IN = 0.072  # inches of a character of a row's name
_BINS = 36


def names_width(names: Sequence[str]) -> float:
    """Inches that the names of rows need; below a key to the left there is room for its words."""
    return max(1.75, 0.3 + _CHAR_IN * max(len(name) for name in names))


def draw_rows(axes: Axes, panel: Rows, palette: Palette) -> None:
    """Dots with whiskers, measures side by side."""
    figure = axes.figure
    box = axes.get_position()
    axes.set_axis_off()
    gap = 0.035
    width = (box.width - gap * (len(panel.columns) - 1)) / len(panel.columns)
    rows = range(len(panel.names))
    for number, column in enumerate(panel.columns):
        part = figure.add_axes((box.x0 + number * (width + gap), box.y0, width, box.height), facecolor=palette.background)
        for side in part.spines.values():
            side.set_visible(False)
        part.tick_params(length=0, colors=palette.soft, pad=5, labelsize=8.4)
        part.grid(axis="y", color=palette.grid, linewidth=0.8)
        part.set_axisbelow(True)
        several = len(column.dots) > 1
        highest = 0.0
        for place, dots in enumerate(column.dots):
            colour, shift = palette.of(dots.colour), 0.15 * (2 * place - 1) if several else 0.0
            for row, value in zip(rows, dots.values, strict=True):
                if value is None:
                    continue
                y = row + shift
                if value.low is not None and value.high is not None:
                    part.plot([value.low, value.high], [y, y], color=colour, linewidth=1.3, alpha=0.75)
                part.plot(value.value, y, MARKERS[max(dots.colour, 0)], color=colour, markersize=5.5, clip_on=False)
                highest = max(highest, value.value, value.high or 0.0)
        part.set_xlim(0, min(1.04, max(1.12 * highest, 0.1)) if column.percent else 1.12 * highest or 1.0)
        part.set_ylim(len(panel.names) - 0.5, -0.5)
        part.set_yticks(list(rows), labels=panel.names if number == 0 else [""] * len(panel.names))
        part.locator_params(axis="x", nbins=3)
        if column.percent:
            part.xaxis.set_major_formatter(lambda value, _: f"{100 * value:.3g} %")
        part.set_title(column.title, loc="left", fontsize=8.6, color=palette.ink, pad=9, linespacing=1.25)
        if number == 0:
            for text in part.get_yticklabels():
                text.set_color(palette.ink)
    kinds = [(dots.name, dots.colour) for column in panel.columns for dots in column.dots if dots.name]
    draw_key(axes, kinds, palette, left=0.16)


def draw_stacks(axes: Axes, panel: Stacks, palette: Palette) -> None:
    """Horizontal bars of parts, the total at their end, the parts named above."""
    rows = list(range(len(panel.names)))
    start = [0.0] * len(rows)
    for part in panel.parts:
        axes.barh(
            rows,
            part.values,
            left=start,
            height=0.62,
            color=palette.of(part.colour),
            edgecolor=palette.background,
            linewidth=0.8,
        )
        start = [before + value for before, value in zip(start, part.values, strict=True)]
    for row, total in zip(rows, start, strict=True):
        axes.annotate(
            f"{total:.1f}",
            (total, row),
            xytext=(6, 0),
            textcoords="offset points",
            va="center",
            fontsize=8.4,
            color=palette.soft,
            annotation_clip=False,
        )
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_yticks(rows, labels=panel.names)
    axes.grid(visible=False, axis="y")
    for text in axes.get_yticklabels():
        text.set_color(palette.ink)
    axes.set_xlabel(f"{panel.title}, {panel.unit}")
    axes.margins(x=0)
    axes.set_xlim(0, max(start) * 1.02)
    draw_key(axes, [(part.name, part.colour) for part in panel.parts], palette, squares=True, left=0.16)


def draw_histogram(axes: Axes, panel: Histogram, palette: Palette) -> None:
    """Outlines over each other, a dotted line at each median."""
    highest = max((value for amounts in panel.amounts for value in amounts.values), default=1)
    for amounts in panel.amounts:
        colour = palette.of(amounts.colour)
        axes.hist(
            amounts.values,
            bins=_BINS,
            range=(0, highest * 1.02),
            weights=[1 / len(amounts.values)] * len(amounts.values),
            histtype="stepfilled",
            facecolor=(colour, 0.18),
            edgecolor=colour,
            linewidth=1.5,
        )
        axes.axvline(median(amounts.values), color=colour, linewidth=1, linestyle=(0, (2, 2)))
    axes.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.3g} %")
    axes.set_xlim(0, highest * 1.02)
    axes.set_xlabel(panel.x.label)
    axes.set_ylabel("share of turns")
    names = [(f"{amounts.name}: median {median(amounts.values):,.0f}", amounts.colour) for amounts in panel.amounts]
    draw_key(axes, names, palette, squares=True)
