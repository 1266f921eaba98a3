"""Pictures of runs: first the numbers (`dpepo.figures.kinds`), then the drawing (`dpepo.figures.drawing`, with matplotlib)."""

from dpepo.figures.kinds import ALL, KINDS, make_picture
from dpepo.figures.options import Band, Options
from dpepo.figures.picture import NothingToShow, Picture
from dpepo.figures.sources import Material, find_material

__all__ = ["ALL", "KINDS", "Band", "Material", "NothingToShow", "Options", "Picture", "find_material", "make_picture"]
