"""Success against average turns: how often a method solves its task, and how long an episode takes."""

from __future__ import annotations

from dpepo.figures.estimates import intervals_text, mean, n_text, rate
from dpepo.figures.options import Options
from dpepo.figures.picture import Axis, Mark, NothingToShow, Picture, Scatter, caption_of
from dpepo.figures.sources import Material


def make(material: Material, options: Options) -> Picture:
    """A point per method.

    Raises:
        NothingToShow: No episodes.
    """
    methods = material.in_way(options.way)
    way = next(iter(methods.values()))[0].way
    sizes = sorted({repeats[0].num_envs for repeats in methods.values()})
    marks = []
    for name, repeats in methods.items():
        x = mean([[float(facts.turns) for facts in played.facts] for played in repeats])
        y = rate([[facts.success for facts in played.facts] for played in repeats])
        if x is not None and y is not None:
            marks.append(Mark(name, x, y, sizes.index(repeats[0].num_envs)))
    if not marks:
        raise NothingToShow("no method has an episode")
    estimates = [estimate for mark in marks for estimate in (mark.x, mark.y)]
    return Picture(
        kind="turns",
        title="Success against average turns",
        caption=caption_of(
            material.played_as(way), n_text(estimates), intervals_text(estimates), _none(marks), material.source
        ),
        panels=(
            Scatter(
                x=Axis(label="turns per episode (mean)"),
                y=Axis(label="episodes solved", percent=True, from_zero=True),
                marks=tuple(marks),
                key=tuple((f"K = {copies}", colour) for colour, copies in enumerate(sizes)) if len(sizes) > 1 else (),
            ),
        ),
        notes=material.others(way),
    )


def _none(marks: list[Mark]) -> str:
    return "No episode was solved." if not any(mark.y.value for mark in marks) else ""
