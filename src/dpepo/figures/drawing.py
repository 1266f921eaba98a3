"""Draws pictures with matplotlib (the extra ``plots``), as PNG or SVG. What is shown is decided in the other modules.

No pyplot and no global state: a figure is an object, and settings hold while it is drawn.
"""

from __future__ import annotations

import io
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image

from dpepo.errors import RunFolderError
from dpepo.figures import bars, planes
from dpepo.figures.palette import Palette, load_palette
from dpepo.figures.picture import Histogram, Lines, Panel, Picture, Rows, Scatter, Stacks
from dpepo.figures.svg import cleaned

WIDTH, DPI = 8.0, 100  # inches and pixels per inch: 800 pixels
_PNG_DPI, _PNG_COLOURS = 160, 256  # sharp on dense screens
_CAPTION_CHARS = 140
_EDGE_IN = 0.16
_LINE_IN = 0.165  # inches of a line of the caption
_SETTINGS: dict[Any, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 9.5,
    "axes.titlesize": 10,
    "axes.labelsize": 9.5,
    "xtick.labelsize": 9,
    "ytick.labelsize": 9,
    "svg.fonttype": "none",  # text stays text: small files, readable by search and screen readers
    "svg.hashsalt": "dpepo",  # the same picture is the same file
    "text.parse_math": False,  # a dollar sign in a name is a dollar sign
    "path.simplify": True,
}


def write_picture(picture: Picture, path: Path, *, dark: bool = False) -> Path:
    """Draw a picture into a file.

    Args:
        picture: What to draw.
        path: A file that ends in .png or .svg; its folder is made.
        dark: Dark colours.

    Raises:
        RunFolderError: The place cannot be written.
    """
    content = svg_text(picture, dark=dark).encode() if path.suffix == ".svg" else _png(picture, dark=dark)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    except OSError as error:
        raise RunFolderError(f"{path} cannot be written: {error.strerror or error}. Try: --out") from None
    return path


def svg_text(picture: Picture, *, dark: bool = False, inside_page: bool = False) -> str:
    """A picture as the text of an SVG element.

    Args:
        picture: What to draw.
        dark: Dark colours.
        inside_page: For the report page: colours follow the page's, nothing reaches beyond the picture, and title and caption
            are the page's to write.
    """
    buffer = io.BytesIO()
    with matplotlib.rc_context(_SETTINGS):
        figure = _figure(picture, load_palette(dark=dark), bare=inside_page)
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    return cleaned(buffer.getvalue().decode(), kind=picture.kind, title=picture.title, inside_page=inside_page)


def _png(picture: Picture, *, dark: bool) -> bytes:
    buffer = io.BytesIO()
    with matplotlib.rc_context(_SETTINGS):
        figure = _figure(picture, load_palette(dark=dark), bare=False)
        figure.savefig(buffer, format="png", dpi=_PNG_DPI)
    flat = Image.open(buffer).convert("RGB").quantize(_PNG_COLOURS)  # a third of the bytes, and no difference to see
    small = io.BytesIO()
    flat.save(small, format="png", optimize=True)
    return small.getvalue()


def _figure(picture: Picture, palette: Palette, *, bare: bool) -> Figure:
    """The whole figure, from the top: title, panels, caption. All lengths are in inches."""
    caption = [] if bare else textwrap.wrap(picture.caption, _CAPTION_CHARS, break_on_hyphens=False)
    head = 0.1 if bare else 0.46
    head += 0.24 if picture.axes else 0.0
    foot = 0.06 if bare else 0.22 + _LINE_IN * len(caption)
    columns = picture.columns or len(picture.panels)
    grid = [picture.panels[start : start + columns] for start in range(0, len(picture.panels), columns)]
    heights = [max(map(_height, row)) for row in grid]
    total = head + sum(heights) + foot
    figure = Figure(figsize=(WIDTH, total), dpi=DPI, facecolor=palette.background)
    FigureCanvasAgg(figure)

    def write(text: str, y: float, **style: Any) -> None:
        figure.text(_EDGE_IN / WIDTH, y / total, text, va="center", **style)

    if not bare:
        write(picture.title, total - 0.28, fontsize=13.5, fontweight="bold", color=palette.ink)
        for number, line in enumerate(caption):
            write(line, foot - 0.16 - _LINE_IN * number, fontsize=7.8, color=palette.soft)
    if picture.axes:
        write(picture.axes, total - head + 0.1, fontsize=9, color=palette.soft)
    top = total - head
    for row, height in zip(grid, heights, strict=True):
        for panel, left, width in _columns(row, columns):
            above, below = _above_below(panel)
            box = (left / WIDTH, (top - height + below) / total, width / WIDTH, (height - above - below) / total)
            _panel(figure.add_axes(box), panel, palette)
        top -= height
    return figure


def _columns(row: Sequence[Panel], columns: int) -> Iterator[tuple[Panel, float, float]]:
    """The panels of a row with the left end and the width of their axes; all axes are equally wide."""
    margins = [_left_right(panel) for panel in row]
    share = (WIDTH - sum(left + right for left, right in margins)) / len(row)
    if len(row) < columns:  # the last row of a grid of equal panels
        share = WIDTH / columns - sum(margins[0])
    place = 0.0
    for panel, (left, right) in zip(row, margins, strict=True):
        yield panel, place + left, share
        place += left + share + right


def _height(panel: Panel) -> float:
    """Inches of a panel, margins included."""
    if isinstance(panel, Rows):
        return 0.95 + 0.27 * len(panel.names)
    if isinstance(panel, Stacks):
        return 1.05 + 0.25 * len(panel.names)
    return 1.62 if _small(panel) else 3.7


def _small(panel: Panel) -> bool:
    """One of many panels, which has a title in place of a name beside its line."""
    return isinstance(panel, Lines) and panel.title != ""


def _left_right(panel: Panel) -> tuple[float, float]:
    if isinstance(panel, Rows | Stacks):
        return bars.names_width(panel.names), 0.2 if isinstance(panel, Rows) else 0.6
    if isinstance(panel, Lines):
        return (0.55, 0.1) if _small(panel) else (0.75, max(0.2, planes.names_room(panel.lines)))
    return 0.75, 0.22


def _above_below(panel: Panel) -> tuple[float, float]:
    if isinstance(panel, Rows):
        return 0.62, 0.3
    if isinstance(panel, Stacks):
        return 0.55, 0.46
    if isinstance(panel, Histogram) or (isinstance(panel, Scatter) and panel.key):
        return 0.34, 0.55
    return (0.3, 0.3) if _small(panel) else (0.14, 0.55)


def _panel(axes: Axes, panel: Panel, palette: Palette) -> None:
    _plain(axes, palette)
    drawers: dict[type, Any] = {
        Scatter: planes.draw_scatter,
        Lines: planes.draw_lines,
        Histogram: bars.draw_histogram,
        Rows: bars.draw_rows,
        Stacks: bars.draw_stacks,
    }
    drawers[type(panel)](axes, panel, palette)
    if _small(panel):  # the picture says once what the axes are
        axes.set_xlabel("")
        axes.set_ylabel("")


def _plain(axes: Axes, palette: Palette) -> None:
    """No frame and no ticks, a pale grid behind everything."""
    axes.set_facecolor(palette.background)
    for side in axes.spines.values():
        side.set_visible(False)
    axes.tick_params(length=0, colors=palette.soft, pad=5)
    axes.grid(color=palette.grid, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.xaxis.label.set_color(palette.soft)
    axes.yaxis.label.set_color(palette.soft)
    axes.title.set_color(palette.ink)
