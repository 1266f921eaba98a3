"""Tables of measured results, in the shapes of the paper's, with its numbers beside them where asked: ``dpepo table``."""

from dpepo.evaluation.tables.build import KINDS, build_table
from dpepo.evaluation.tables.formats import FORMATS

__all__ = ["FORMATS", "KINDS", "build_table"]
