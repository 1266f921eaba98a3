"""The colours of the pictures: those of the report page, read from ``runs/web/base.css`` so that there is one palette."""

from __future__ import annotations

import re
from typing import NamedTuple

from dpepo.runs.web_page import web_file

_ORDER = (
    "s1",
    "s2",
    "s4",
    "s6",
    "s5",
    "s3",
)  # the first three stay apart for colour-blind eyes; markers and labels tell all apart
MARKERS = ("o", "s", "^", "D", "v", "P")  # one per colour, so that no line depends on its colour


class Palette(NamedTuple):
    """Hexadecimal colours by role."""

    background: str
    ink: str
    soft: str
    faint: str
    grid: str
    series: tuple[str, ...]

    def of(self, number: int) -> str:
        """Colour of a series; a negative number is grey."""
        return self.faint if number < 0 else self.series[number % len(self.series)]


def load_palette(*, dark: bool) -> Palette:
    """The light or the dark palette."""
    names = _variables(dark=dark)
    return Palette(
        background=names["bg"],
        ink=names["ink"],
        soft=names["soft"],
        faint=names["faint"],
        grid=names["line"],
        series=tuple(names[name] for name in _ORDER),
    )


def css_variables() -> dict[str, str]:
    """Colour of the light palette to the name of its CSS variable, so that a picture inside a page can follow the page."""
    wanted = ("bg", "ink", "soft", "faint", "line", *_ORDER)
    return {colour: name for name, colour in _variables(dark=False).items() if name in wanted}


def _variables(*, dark: bool) -> dict[str, str]:
    selector = r':root\[data-theme="dark"\]' if dark else ":root"
    block = re.search(selector + r" \{(.*?)\}", web_file("base.css"), re.DOTALL)
    assert block is not None  # the file ships with the package
    return dict(re.findall(r"--([a-z0-9-]+): (#[0-9a-f]{6})", block[1]))
