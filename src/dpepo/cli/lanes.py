"""K environments as lanes in a terminal of any width; what worlds say never steers the terminal."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping

from rich.console import Console
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from dpepo.types import Observation

WIDTH = 44  # columns that a lane needs to be read beside another
_UNPRINTABLE = {"Cc", "Cf", "Cs", "Co"}  # control characters, invisible ones that turn the direction of writing, surrogates


def plain(text: str) -> str:
    """Text in which U+FFFD stands for the characters that would steer a terminal or hide what is written.

    >>> plain("a red" + chr(27) + "[2J box").isprintable()
    True
    """
    return "".join(
        "\N{REPLACEMENT CHARACTER}" if unicodedata.category(char) in _UNPRINTABLE and char not in "\n\t" else char
        for char in text.replace("\r\n", "\n")
    )


def show_lanes(shown: Mapping[int, Observation], *, console: Console) -> None:
    """Print what environments show: side by side where there is room, else one below the other."""
    panels = [_lane(env_id, shown[env_id]) for env_id in sorted(shown)]
    if len(panels) < 2 or console.width < WIDTH * len(panels):
        for panel in panels:
            console.print(panel)
        return
    grid = Table.grid(expand=True)
    for _ in panels:
        grid.add_column(ratio=1)
    grid.add_row(*panels)
    console.print(grid)


def _lane(env_id: int, seen: Observation) -> Panel:
    state = (
        " broke"
        if seen.failure
        else " solved"
        if seen.success
        else " ended"
        if seen.ended
        else " not understood"
        if not seen.valid
        else ""
    )
    score = f", score {seen.score:g}" if seen.score else ""
    text = f"{seen.text.strip()}\n{seen.failure}" if seen.failure else seen.text.strip()
    return Panel(Text(plain(text)), title=Text(f"Environment {env_id}{state}{score}"), title_align="left")
