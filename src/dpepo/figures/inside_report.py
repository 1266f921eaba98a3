"""The pictures that a run's report page shows; none where matplotlib is not installed."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from dpepo.figures.kinds import make_picture
from dpepo.figures.options import Options
from dpepo.figures.picture import NothingToShow
from dpepo.figures.sources import find_material
from dpepo.runs.report import ReportFigure

REPORTED = ("copies", "turns", "diversity", "parallel", "time")
"""Kinds that say something about a single run and that the page does not show otherwise."""


def report_figures(run: Path) -> list[ReportFigure]:
    """The pictures of a finished run, in a fixed order; those that its data do not allow are left out.

    Raises:
        RunFolderError: There is no run in the folder.
    """
    if find_spec("matplotlib") is None:
        return []
    from dpepo.figures.drawing import svg_text

    material = find_material([str(run)])
    figures = []
    for kind in REPORTED:
        try:
            picture = make_picture(kind, material, Options())
        except NothingToShow:
            continue
        figures.append(ReportFigure(picture.title, picture.caption, svg_text(picture, inside_page=True)))
    return figures
