"""All kinds of pictures by name, and how one is made from folders. Nothing here needs matplotlib."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from dpepo.errors import ConfigError, did_you_mean
from dpepo.figures import copies, diversity, learning, parallel, prompts, size, timing, turns
from dpepo.figures.options import Options
from dpepo.figures.picture import Picture
from dpepo.figures.sources import Material

ALL = "all"


class Kind(NamedTuple):
    """One kind of picture."""

    make: Callable[[Material, Options], Picture]
    shows: str  # a line for help texts


KINDS = {
    "turns": Kind(turns.make, "success against average turns"),
    "copies": Kind(copies.make, "success and tokens against K, with pass@K of one copy beside it"),
    "diversity": Kind(diversity.make, "repeated actions and transitions, exploration share, episode length"),
    "parallel": Kind(parallel.make, "parallel actions over the turns of an episode"),
    "time": Kind(timing.make, "time per stage"),
    "prompts": Kind(prompts.make, "prompt lengths under compact and full memory"),
    "size": Kind(size.make, "success against model size"),
    "learning": Kind(learning.make, "learning curves with seeds as a band"),
}


def make_picture(kind: str, material: Material, options: Options) -> Picture:
    """The numbers of one picture.

    Raises:
        ConfigError: There is no such kind.
        NothingToShow: The runs do not hold what it needs.
    """
    if kind not in KINDS:
        raise ConfigError(f"There is no picture {kind!r}. {did_you_mean(kind, [*KINDS, ALL])}")
    return KINDS[kind].make(material, options)
