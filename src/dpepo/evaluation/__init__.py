"""Evaluation: play tasks with a policy and say how often it succeeded, with intervals; compare runs; put them into tables."""

from dpepo.evaluation.conditions import Conditions, conditions_of
from dpepo.evaluation.job import evaluate, run_eval
from dpepo.evaluation.result import EvalResult, TypeResult, summarise

__all__ = ["Conditions", "EvalResult", "TypeResult", "conditions_of", "evaluate", "run_eval", "summarise"]
