"""Cold start: teachers play tasks, and what they played becomes demonstrations."""

from dpepo.synthesis.job import SynthResult, drop_reason, run_synth

__all__ = ["SynthResult", "drop_reason", "run_synth"]
