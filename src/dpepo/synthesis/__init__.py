"""Cold start: demonstrations from a teacher, filtered, counted and described."""

from dpepo.synthesis.filters import Sifted, drop_reason, parallel_share, sift
from dpepo.synthesis.job import SynthResult, run_synth

__all__ = ["Sifted", "SynthResult", "drop_reason", "parallel_share", "run_synth", "sift"]
