"""Evaluation: play tasks with a policy and say how often it succeeded, with intervals."""

from dpepo.evaluation.job import evaluate, run_eval
from dpepo.evaluation.result import EvalResult, TypeResult, summarise

__all__ = ["EvalResult", "TypeResult", "evaluate", "run_eval", "summarise"]
