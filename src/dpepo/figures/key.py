"""What colours mean, in words above a panel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes

from dpepo.figures.palette import MARKERS, Palette

_SIGNS = {"o": "●", "s": "■", "^": "▲", "D": "◆", "v": "▼", "P": "✚"}
_LINE_IN = 0.2


def draw_key(
    axes: Axes, key: Sequence[tuple[str, int]], palette: Palette, *, squares: bool = False, left: float | None = None
) -> None:
    """Write signs and words in one line above the axes, or in several where one is too short.

    Args:
        axes: Placed axes.
        key: Words and place in the palette.
        palette: Colours.
        squares: Every sign is a square, as for bars; otherwise the marker of the colour.
        left: Where to begin, in inches; by default at the left end of the axes.
    """
    figure: Any = axes.figure
    width, height = figure.get_size_inches()
    renderer = figure.canvas.get_renderer()
    box = axes.get_position()
    start = box.x0 * width if left is None else left
    x, y = start, box.y1 * height + 0.16
    placed: list[tuple[Any, float, float]] = []
    for words, colour in key:
        sign = "■" if squares else _SIGNS[MARKERS[max(colour, 0) % len(MARKERS)]]
        mark = figure.text(0, 0, sign, color=palette.of(colour), fontsize=9, va="center")
        text = figure.text(0, 0, words, color=palette.soft, fontsize=8.6, va="center")
        needed = 0.17 + text.get_window_extent(renderer).width / figure.dpi
        if x + needed > width - 0.1 and x > start:  # earlier lines move up
            placed = [(one, at, line + _LINE_IN) for one, at, line in placed]
            x = start
        placed += [(mark, x, y), (text, x + 0.17, y)]
        x += needed + 0.2
    for one, at, line in placed:
        one.set_position((at / width, line / height))
